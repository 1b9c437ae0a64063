//! Stops simulations from outside: somebody interrupts. Who simulates looks now and then whether it is pulled, and then says
//! what was still waiting; what was yielded until then is no result. Nobody who leaves it alone notices it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A brake that several simulations share.
#[derive(Debug, Clone, Default)]
pub struct Brake(Arc<AtomicBool>);

impl Brake {
    /// Stops all that look at it.
    pub fn pull(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether they are to stop.
    pub fn is_pulled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
