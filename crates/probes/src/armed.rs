//! What a probe has laid out for a measurement and keeps for the next one in the same instance: mapping and touching arrays takes as long
//! as measuring with them.
//!
//! ```text
//!  take ─► none, or of other parameters: laid out ─► measured with ─► keep ─┬─► take: measured with again …
//!                                                                          └─► after eight times, or little memory left: given back
//! ```
//! Where the pages happen to lie, and whether they are huge, is an instance's luck: kept for all of a run it would be taken for the
//! platform, and many measurements would show it no better than one.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use crate::machine::available_memory;
use crate::params::ProbeSpec;

/// Measurements with the same arrays.
const MOST: u32 = 8;

/// What is kept between measurements.
#[derive(Debug, Default)]
pub struct Armed(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    spec: ProbeSpec,
    times: u32,
    what: Box<dyn Any + Send>,
}

/// Something laid out, and how often it was measured with.
#[derive(Debug)]
pub struct LaidOut<T> {
    /// It.
    pub what: T,
    times: u32,
}

impl Armed {
    /// What was kept for a probe of these parameters, or what `lay_out` makes.
    ///
    /// # Errors
    /// Those of `lay_out`.
    pub fn take<T: Send + 'static, E>(
        &self,
        spec: &ProbeSpec,
        lay_out: impl FnOnce() -> Result<T, E>,
    ) -> Result<LaidOut<T>, E> {
        match self.kept(spec).and_then(|kept| Some((kept.times, kept.what.downcast().ok()?))) {
            Some((times, what)) => Ok(LaidOut { what: *what, times }),
            None => Ok(LaidOut { what: lay_out()?, times: 0 }),
        }
    }

    fn kept(&self, spec: &ProbeSpec) -> Option<Kept> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.spec == *spec)?;
        Some(all.swap_remove(at))
    }

    /// Keeps what was measured with and takes so many bytes, or gives it back.
    pub fn keep<T: Send + 'static>(&self, spec: ProbeSpec, laid_out: LaidOut<T>, bytes: u64) {
        let times = laid_out.times + 1;
        if times < MOST && available_memory().is_some_and(|left| left.get() / 2 > bytes) {
            let kept = Kept { spec, times, what: Box::new(laid_out.what) };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::params::ProbeKind;

    fn take(armed: &Armed, spec: &ProbeSpec, new: u32) -> LaidOut<u32> {
        armed.take(spec, || Ok::<u32, Infallible>(new)).unwrap()
    }

    #[test]
    fn what_is_kept_is_for_the_same_parameters_and_eight_measurements() {
        let armed = Armed::default();
        let [one, other] = [ProbeKind::MemLatency, ProbeKind::MemBandwidth].map(ProbeSpec::default_of);
        let seen: Vec<u32> = (0..10)
            .map(|new| {
                let laid_out = take(&armed, &one, new);
                let what = laid_out.what;
                armed.keep(one.clone(), laid_out, 0);
                what
            })
            .collect();
        assert_eq!(seen, [0, 0, 0, 0, 0, 0, 0, 0, 8, 8]);
        assert_eq!(take(&armed, &other, 100).what, 100);
    }

    #[test]
    fn what_is_larger_than_half_of_what_is_left_is_given_back() {
        let armed = Armed::default();
        let spec = ProbeSpec::default_of(ProbeKind::MemLatency);
        armed.keep(spec.clone(), take(&armed, &spec, 1), u64::MAX);
        assert_eq!(take(&armed, &spec, 2).what, 2);
    }
}
