//! Pictures of the probes of predictability: fixed time quantum, timer wake-up, frames.

mod frames;
mod ftq;
mod wakeup;

pub(super) use frames::pictures as frames;
pub(super) use ftq::pictures as ftq;
pub(super) use wakeup::pictures as wakeup;
