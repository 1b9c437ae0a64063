//! Rules for what the LU probe and the compile job send.

use super::check::{Checked, at_most};
use model::detail::{BuildDetail, LinpackDetail};

/// Largest order that may be asked for.
const LARGEST_ORDER: usize = 20_000;
/// Most samples that may be asked for.
const MOST_SAMPLES: usize = 1000;
/// Most threads or compilers at once that may be asked for.
const MOST_AT_ONCE: usize = 1024;
/// Most files that may be asked for.
const MOST_FILES: usize = 10_000;
/// Most functions of a file that may be asked for.
const MOST_FUNCTIONS: usize = 1000;

pub(super) fn linpack(detail: &LinpackDetail) -> Checked {
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
        ))
    }
}

pub(super) fn build(detail: &BuildDetail) -> Checked {
    at_most("build.files", detail.files as usize, MOST_FILES)?;
    at_most("build.functions", detail.functions as usize, MOST_FUNCTIONS)?;
    at_most("build.jobs", detail.jobs as usize, MOST_AT_ONCE)?;
    if detail.file_ns.len() != detail.files as usize {
        return Err(format!("build.file_ns: {} times for {} files", detail.file_ns.len(), detail.files));
    }
    if detail.link_ns > detail.wall_ns {
        return Err("build.link_ns is longer than the whole job".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::units::{Bytes, Nanos};

    fn solve(residual: f64) -> LinpackDetail {
        LinpackDetail { n: 500, threads: 1, elapsed_ns: vec![Nanos::from_nanos(1)], residual }
    }

    fn job() -> BuildDetail {
        BuildDetail {
            files: 2,
            functions: 1,
            source_bytes: Bytes::from_bytes(1),
            object_bytes: Bytes::from_bytes(1),
            image_bytes: Bytes::from_bytes(1),
            image_crc32: 7,
            jobs: 1,
            wall_ns: Nanos::from_nanos(10),
            link_ns: Nanos::from_nanos(1),
            user_ns: Nanos::from_nanos(5),
            system_ns: Nanos::from_nanos(1),
            file_ns: vec![Nanos::from_nanos(4); 2],
        }
    }

    #[test]
    fn wrong_solutions_are_refused() {
        assert_eq!(linpack(&solve(0.01)), Ok(()));
        for residual in [16.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(linpack(&solve(residual)).unwrap_err().contains("wrong solution"), "{residual}");
        }
        assert!(linpack(&LinpackDetail { n: 20_001, ..solve(0.01) }).is_err());
        assert!(linpack(&LinpackDetail { elapsed_ns: vec![Nanos::ZERO; 1001], ..solve(0.01) }).is_err());
    }

    #[test]
    fn jobs_that_contradict_themselves_are_refused() {
        assert_eq!(build(&job()), Ok(()));
        assert!(build(&BuildDetail { files: 3, ..job() }).unwrap_err().contains("2 times for 3"));
        assert!(build(&BuildDetail { link_ns: Nanos::from_nanos(11), ..job() }).is_err());
        assert!(build(&BuildDetail { jobs: 1025, ..job() }).is_err());
    }
}
