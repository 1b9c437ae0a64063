//! Where partitions go: the best place for all of them at once, proven, or the needs that cannot hold together. Pure.
//!
//! ```text
//!  System, KnownHosts ─► Problem (numbers) ─┬► search: a good plan soon ─┐ begin with it
//!                           ▲               └► encode ─► pb ─► decide: the best, goal by goal, proven
//!           less is asked ──┘                                    │ cannot be: conflict ─► relax: what would be enough
//!                                                                ▼
//!                                            cpus ─► assemble ─► Plan ─► elsewhere: why there
//! ```
//! `docs/plan.md` has the rules and the goals; `audit` checks what comes out, and knows nothing of this room.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::needless_for_each,
    reason = "what is counted here is bounded by `model::system`, far below 2^31; short loops read better in a line"
)]

mod assemble;
mod conflict;
mod cpus;
mod decide;
mod elsewhere;
mod encode;
mod foresee;
mod moves;
mod need;
mod pb;
mod planner;
mod problem;
mod relax;
mod search;
mod sets;
mod site;

pub use conflict::{Conflict, MOST_CONFLICTS, conflicts, is_possible};
pub use moves::{Step, steps};
pub use need::{Need, NeedKey};
pub use planner::{Answer, Planned, Question, plan};
pub use relax::{Relaxation, relaxations};
pub use sets::sets;
