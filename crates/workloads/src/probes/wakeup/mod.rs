//! Timer wake-up latency: a thread sleeps until each of a row of due times; how late does it run? What `cyclictest` of
//! the rt-tests measures, and besides it the activations that came due while the thread could not run.

pub mod activations;
pub mod probe;
