//! Closed forms: what a simulation must yield where theory knows the answer. Printed beside the simulated figures.

pub mod noise;
