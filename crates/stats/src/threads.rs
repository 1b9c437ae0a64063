//! Threads versus time: how many execution units were really granted?
//!
//! Source: Lourot 2010. T threads of a fixed CPU-bound loop take a constant time until T reaches the number of units, then
//! a time that grows linearly. Fitted is `time(T) = flat + slope · max(0, T − units)` by least squares of *relative*
//! residuals; the knee is searched on a grid of `STEPS` positions per gap between neighbouring T, so its own resolution is
//! 1/`STEPS` of a thread.
//!
//! ```text
//!  time │         ╱
//!       │       ╱  slope
//!  flat │─────╱
//!       └─────┬──────── threads
//!           units
//! ```
//!
//! Validity: when the time never grows, `units` is the largest number of threads tried (at least so many were granted)
//! and the slope is 0; when it grows from the start, `units` is the smallest.

/// Knee positions tried between two numbers of threads.
const STEPS: u32 = 20;
/// More points than this are thinned out evenly.
const MOST_POINTS: usize = 256;
/// Growth over the whole range below this share is noise, not a slope.
const LEAST_GROWTH: f64 = 0.05;

/// The fitted model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadFit {
    /// Time while every thread has a unit of its own.
    pub flat_ns: f64,
    /// The knee: units really granted.
    pub units: f64,
    /// Time each further thread adds.
    pub slope_ns_per_thread: f64,
    /// Root mean square of the residuals relative to the times.
    pub relative_misfit: f64,
}

impl ThreadFit {
    /// The time the model gives for a number of threads.
    pub fn time_ns(&self, threads: f64) -> f64 {
        self.flat_ns + self.slope_ns_per_thread * (threads - self.units).max(0.0)
    }
}

/// Fits `(threads, time)` points; none for fewer than two usable ones. Times that are not positive numbers are left
/// out.
pub fn fit_threads(points: &[(u32, f64)]) -> Option<ThreadFit> {
    let mut usable: Vec<(f64, f64)> = points
        .iter()
        .filter(|(threads, time)| *threads > 0 && time.is_finite() && *time > 0.0)
        .map(|(threads, time)| (f64::from(*threads), *time))
        .collect();
    usable.sort_by(|a, b| a.0.total_cmp(&b.0));
    let usable: Vec<(f64, f64)> =
        usable.iter().copied().step_by(usable.len().div_ceil(MOST_POINTS).max(1)).collect();
    let (first, last) = (usable.first()?.0, usable.last()?.0);
    if first >= last {
        return None;
    }
    let flat = fit_flat(&usable, last)?;
    let best = usable
        .windows(2)
        .filter_map(|pair| if let [a, b] = pair { Some((a.0, b.0)) } else { None })
        .flat_map(|(from, to)| {
            (0..STEPS).map(move |step| from + (to - from) * f64::from(step) / f64::from(STEPS))
        })
        .filter_map(|knee| fit_at(&usable, knee))
        .min_by(|a, b| a.relative_misfit.total_cmp(&b.relative_misfit))?;
    let growth = best.slope_ns_per_thread * (last - best.units) / best.flat_ns;
    let grows = growth > LEAST_GROWTH.max(2.0 * best.relative_misfit);
    Some(if grows && best.relative_misfit < flat.relative_misfit { best } else { flat })
}

/// The model without slope.
fn fit_flat(points: &[(f64, f64)], last: f64) -> Option<ThreadFit> {
    // Weighted by 1/time²: the relative residual is what counts.
    let weights: f64 = points.iter().map(|(_, time)| time.powi(-2)).sum();
    let flat_ns = points.iter().map(|(_, time)| time.recip()).sum::<f64>() / weights;
    finished(ThreadFit { flat_ns, units: last, slope_ns_per_thread: 0.0, relative_misfit: 0.0 }, points)
}

/// The best model with its knee at `knee`.
fn fit_at(points: &[(f64, f64)], knee: f64) -> Option<ThreadFit> {
    // Weighted normal equations of time = flat + slope · x with x = max(0, T − knee).
    let (mut w, mut wx, mut wxx, mut wt, mut wxt) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (threads, time) in points {
        let (x, weight) = ((threads - knee).max(0.0), time.powi(-2));
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wt += weight * time;
        wxt += weight * x * time;
    }
    let determinant = w * wxx - wx * wx;
    let slope = (w * wxt - wx * wt) / determinant;
    let flat = (wt - slope * wx) / w;
    let fit = ThreadFit { flat_ns: flat, units: knee, slope_ns_per_thread: slope, relative_misfit: 0.0 };
    (determinant > 0.0 && slope >= 0.0 && flat > 0.0).then_some(fit).and_then(|fit| finished(fit, points))
}

/// The model with its misfit filled in; none when a number left the range of floats.
fn finished(fit: ThreadFit, points: &[(f64, f64)]) -> Option<ThreadFit> {
    let squares: f64 =
        points.iter().map(|(threads, time)| ((fit.time_ns(*threads) - time) / time).powi(2)).sum();
    let relative_misfit = (squares / points.len() as f64).sqrt();
    let whole = [fit.flat_ns, fit.units, fit.slope_ns_per_thread, relative_misfit];
    whole.iter().all(|number| number.is_finite()).then_some(ThreadFit { relative_misfit, ..fit })
}
