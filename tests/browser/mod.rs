//! What the report tests share: a rich sample run, and a real browser to open pages in.

pub mod cdp;
pub mod sample;
pub mod sample_details;
pub mod sample_sides;
