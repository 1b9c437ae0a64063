//! How loaded a queue has been of late, as Xen's credit2 knows it: a mean in which the last second counts.

use crate::time::{Span, Time};

/// How long a load is remembered.
const WINDOW: Span = Span::from_nanos(1 << 30);

/// A load that is averaged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// What it is now.
    now: f64,
    mean: f64,
    updated: Time,
}

impl Load {
    /// The mean, with what has been since the last change.
    pub fn mean(&self, now: Time) -> f64 {
        let part = (now.since(self.updated).as_f64() / WINDOW.as_f64()).min(1.0);
        (self.now - self.mean).mul_add(part, self.mean)
    }

    /// From now on it is so much more.
    pub fn change(&mut self, by: f64, now: Time) {
        self.mean = self.mean(now);
        self.updated = now;
        self.now += by;
    }

    /// The mean is moved at once, because it is known who comes or goes.
    pub fn expect(&mut self, more: f64, now: Time) {
        self.change(0.0, now);
        self.mean = (self.mean + more).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_forgotten_after_its_window() {
        let mut load = Load::default();
        load.change(2.0, Time::ZERO);
        let at = |quarters: u64| Time::ZERO + Span::from_nanos(WINDOW.nanos() / 4 * quarters);
        assert!((load.mean(at(1)) - 0.5).abs() < 1e-9 && (load.mean(at(12)) - 2.0).abs() < 1e-9);
        load.expect(1.5, at(4));
        assert!((load.mean(at(4)) - 3.5).abs() < 1e-9);
    }
}
