//! What is believed of the linpack probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, at_most, because, no_time};
use crate::detail::LinpackDetail;

/// Largest order that may be asked for.
const LARGEST_ORDER: usize = 20_000;

/// Most samples that may be asked for.
const MOST_SAMPLES: usize = 1000;

/// Most threads or compilers at once that may be asked for.
const MOST_AT_ONCE: usize = 1024;

pub(crate) fn check(detail: &LinpackDetail) -> Checked {
    at_most("linpack.n", detail.n as usize, LARGEST_ORDER)?;
    at_most("linpack.threads", detail.threads as usize, MOST_AT_ONCE)?;
    at_most("linpack.elapsed_ns", detail.elapsed_ns.len(), MOST_SAMPLES)?;
    if LinpackDetail::is_right(detail.residual) {
        Ok(())
    } else {
        Err(format!(
            "linpack.residual = {} belongs to a wrong solution: it must be from 0 to below {}",
            detail.residual,
            LinpackDetail::RESIDUAL_BOUND
        )
        .into())
    }
}

pub(crate) fn saw_nothing(detail: &LinpackDetail) -> Option<String> {
    because(no_time(&detail.elapsed_ns), "no system was solved")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    fn solve(residual: f64) -> LinpackDetail {
        LinpackDetail { n: 500, threads: 1, elapsed_ns: vec![Nanos::from_nanos(1)], residual }
    }

    #[test]
    fn wrong_solutions_are_refused() {
        assert_eq!(check(&solve(0.01)), Ok(()));
        for residual in [16.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                check(&solve(residual)).unwrap_err().to_string().contains("wrong solution"),
                "{residual}"
            );
        }
        assert!(check(&LinpackDetail { n: 20_001, ..solve(0.01) }).is_err());
        assert!(check(&LinpackDetail { elapsed_ns: vec![Nanos::ZERO; 1001], ..solve(0.01) }).is_err());
    }
}
