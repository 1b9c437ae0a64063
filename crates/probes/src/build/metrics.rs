//! Figures of the build probe.

use stats::interval::quantile_of_sorted;
use stats::summary::median;
use units::metric::{Better, Figure, Metric, Unit};

use crate::detail::BuildDetail;
use crate::figures::{figure, floats, metric, time, too_few_beyond};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { ids: "wall_ns", words: "From the first compiler's start until the linker has ended." },
    Definition { ids: "cpu_ns", words: "User and system time of all compilers and of the linker." },
    Definition { ids: "files_per_s", words: "Files over wall time." },
    Definition {
        ids: "efficiency_share",
        words: "CPU time over wall time of as many compilers as run at once.",
    },
    Definition { ids: "system_share", words: "System time over all CPU time." },
    Definition { ids: "file_p95_ns", words: "Time that 95 of 100 files stay within." },
    Definition { ids: "file_ns", words: "Median time of compiling one file." },
    Definition { ids: "link_ns", words: "Time of the linker, which runs alone." },
];

const NO_FILES: &str = "no file was compiled";

const NO_TIME: &str = "it took no time";

/// Compile job: wall time, and what it was made of.
pub(crate) fn metrics(detail: &BuildDetail) -> Vec<Metric> {
    let wall = detail.wall_ns.as_f64();
    let cpu = detail.user_ns.as_f64() + detail.system_ns.as_f64();
    let per = |value: f64, whole: f64| (whole > 0.0).then(|| value / whole);
    let mut files = floats(&detail.file_ns);
    files.sort_by(f64::total_cmp);
    let p95 = too_few_beyond(files.len() as f64, 0.95, "files were compiled")
        .unwrap_or_else(|| figure(Some(quantile_of_sorted(&files, 0.95)), NO_FILES));
    let efficiency = per(cpu, wall * f64::from(detail.jobs));
    let share = |id: &str, title: &str, better: Better, figure: Figure| {
        metric(id, title, Unit::Share, better, false, figure)
    };
    vec![
        time("wall_ns", "compile job, wall time", true, figure(Some(wall), NO_FILES)),
        time("cpu_ns", "compile job, CPU time of compilers and linker", true, figure(Some(cpu), NO_FILES)),
        metric(
            "files_per_s",
            "files compiled",
            Unit::PerSecond,
            Better::Higher,
            false,
            figure(per(detail.file_ns.len() as f64 * 1e9, wall), NO_TIME),
        ),
        share(
            "efficiency_share",
            "CPU time over wall time of all compilers at once",
            Better::Higher,
            figure(efficiency, NO_TIME),
        ),
        share(
            "system_share",
            "share of the CPU time spent in the kernel",
            Better::Lower,
            figure(per(detail.system_ns.as_f64(), cpu), "no CPU time was counted"),
        ),
        time("file_ns", "one file, median", false, figure(median(&files), NO_FILES)),
        time("file_p95_ns", "one file, 95 % quantile", false, p95),
        time("link_ns", "linking", false, figure(Some(detail.link_ns.as_f64()), NO_FILES)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Nanos};

    fn value(metrics: &[Metric], id: &str) -> Option<f64> {
        metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}")).figure.value()
    }

    fn close(got: Option<f64>, wanted: f64) -> bool {
        got.is_some_and(|got| (got / wanted - 1.0).abs() < 1e-9)
    }

    fn job(files: u64) -> BuildDetail {
        let ns = Nanos::from_nanos;
        BuildDetail {
            files: u32::try_from(files).unwrap(),
            functions: 1,
            source_bytes: Bytes::from_bytes(1),
            object_bytes: Bytes::from_bytes(1),
            image_bytes: Bytes::from_bytes(1),
            image_crc32: 1,
            jobs: 4,
            wall_ns: ns(2_000_000_000),
            link_ns: ns(5),
            user_ns: ns(3_000_000_000),
            system_ns: ns(1_000_000_000),
            file_ns: (1..=files).map(ns).collect(),
        }
    }

    #[test]
    fn a_job_is_taken_apart() {
        let metrics = super::metrics(&job(200));
        let wanted = [
            ("wall_ns", 2e9),
            ("cpu_ns", 4e9),
            ("files_per_s", 100.0),
            ("efficiency_share", 0.5),
            ("system_share", 0.25),
            ("file_ns", 100.5),
            ("link_ns", 5.0),
        ];
        for (id, wanted) in wanted {
            assert!(close(value(&metrics, id), wanted), "{id}: {:?}", value(&metrics, id));
        }
        assert!(value(&metrics, "file_p95_ns").is_some_and(|p95| (189.0..192.0).contains(&p95)));
    }

    #[test]
    fn too_few_files_have_no_tail_and_no_time_no_rate() {
        let few = super::metrics(&job(12));
        assert!(value(&few, "file_p95_ns").is_none());
        let nothing = super::metrics(&BuildDetail {
            wall_ns: Nanos::ZERO,
            user_ns: Nanos::ZERO,
            system_ns: Nanos::ZERO,
            ..job(12)
        });
        for id in ["files_per_s", "efficiency_share", "system_share"] {
            assert!(value(&nothing, id).is_none(), "{id}");
        }
    }
}
