//! Programs that threads of simulated guests run. One file each; its header says what a sample is.

mod endless;
mod fixed;
mod fwq;

pub use endless::Endless;
pub use fixed::Fixed;
pub use fwq::Fwq;
