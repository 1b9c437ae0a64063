//! Analysis against brute force: a simulator of single ticks that shares nothing with the analysis, nor with `sim`. Nothing
//! observed may exceed its bound, and where the analysis is exact the bound must be reached.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic and print")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::maybe_infinite_iter,
    reason = "numbers are small, and searches find something"
)]

mod composed;
mod deadlines;
mod hostile;
mod hosts;
mod interfaces;
mod made;
mod priorities;
mod simulator;
mod supplies;
mod textbook;
