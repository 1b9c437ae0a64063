//! What is believed of the build probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, at_most, because};
use crate::detail::BuildDetail;

/// Most threads or compilers at once that may be asked for.
const MOST_AT_ONCE: usize = 1024;

/// Most files that may be asked for.
const MOST_FILES: usize = 10_000;

/// Most functions of a file that may be asked for.
const MOST_FUNCTIONS: usize = 1000;

pub(crate) fn check(detail: &BuildDetail) -> Checked {
    at_most("build.files", detail.files as usize, MOST_FILES)?;
    at_most("build.functions", detail.functions as usize, MOST_FUNCTIONS)?;
    at_most("build.jobs", detail.jobs as usize, MOST_AT_ONCE)?;
    if detail.file_ns.len() != detail.files as usize {
        return Err(
            format!("build.file_ns: {} times for {} files", detail.file_ns.len(), detail.files).into()
        );
    }
    if detail.link_ns > detail.wall_ns {
        return Err("build.link_ns is longer than the whole job".into());
    }
    Ok(())
}

pub(crate) fn saw_nothing(detail: &BuildDetail) -> Option<String> {
    because(detail.files == 0 || detail.wall_ns.get() == 0, "no file was compiled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Nanos};

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
    fn jobs_that_contradict_themselves_are_refused() {
        assert_eq!(check(&job()), Ok(()));
        assert!(check(&BuildDetail { files: 3, ..job() }).unwrap_err().to_string().contains("2 times for 3"));
        assert!(check(&BuildDetail { link_ns: Nanos::from_nanos(11), ..job() }).is_err());
        assert!(check(&BuildDetail { jobs: 1025, ..job() }).is_err());
    }
}
