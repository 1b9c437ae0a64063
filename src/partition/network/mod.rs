//! Networks between partitions: a switch per link, and what partitions need to be plugged in there.

pub mod switch;
