//! Neighbours: stressors whose dose is measured, not assumed.

pub mod stressors;
pub mod team;
