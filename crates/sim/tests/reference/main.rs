//! What Xen's credit and credit2 really give, by simulators written from Xen's sources by somebody who had not read ours: an
//! oracle for the shares that `sim` predicts, beside the fluid ideal (weighted max-min fairness).
//!
//! ```text
//!  seed ─► host ─┬─► fluid       what weights alone would give              (fluid.rs, exact)
//!                ├─► credit(2)   what Xen gives, over several phases        (credit.rs, credit2.rs, event by event)
//!                └─► scenario ─► sim::scenario::run_host                    what our program says (ours.rs)
//! ```

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic and print")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "numbers are small, and what is indexed was made here"
)]

mod compare;
mod credit;
mod credit2;
mod deviations;
mod fluid;
mod host;
mod ours;
mod work;
