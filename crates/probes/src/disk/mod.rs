//! Disk probe: sequential write, then sequential read, per block size and mode; latency of each operation,
//! throughput over windows of 50 ms, 200 ms and 1 s, and the longest stalls; random reads; and whether partition and
//! file system lie on the blocks of the device. Source: Lourot's thesis, in which a misaligned partition halved
//! sequential writes.

pub(crate) mod check;
pub mod detail;
pub mod layout;
pub(crate) mod metrics;
pub mod params;
pub mod phase;
pub(crate) mod pretend;
pub mod random;
pub mod run;
pub mod shifted;
pub mod trace;

use std::time::Duration;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::DiskDetail;
use self::params::DiskParams;
use crate::probe::{About, Cost, Probe, Slowdown};

/// Time per byte of a file in the page cache or on a quick disk.
const BYTE_NS: f64 = 1.2;

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Probe for Disk {
    type Params = DiskParams;
    type Detail = DiskDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        slowdown: Slowdown { virtualized: 1.15, translated: 5.0 },
        ..About::new(
            "Disk",
            "A file is written and read in sequence. Besides the throughput it shows the stalls: stretches in which \
             nothing moved. Then single blocks are read anywhere in it.",
        )
    };

    fn cost(params: &DiskParams, _facts: &MachineFacts) -> Cost {
        // Random and misaligned blocks, each for half of the time.
        Cost::clock(params.duration_ms.to_duration())
    }

    fn transfer(params: &DiskParams, _instances: f64, slow: f64) -> f64 {
        // Writing and reading a file: each phase ends with its time or with the file, whichever comes first.
        let phases = 2.0 * (params.modes.len() * params.block_sizes_kib.len()) as f64;
        let whole = params.file_size_mib.to_bytes().as_f64() * BYTE_NS / 1e9 * slow;
        (phases + 1.0) * whole.min(params.duration_ms.to_duration().as_secs_f64())
    }

    fn at_worst(params: &DiskParams) -> Duration {
        // The file is made, and flushed after each writing phase, at 2.5 MB/s.
        let phases = params.modes.len() * params.block_sizes_kib.len() + 1;
        Duration::from_nanos(
            params.file_size_mib.to_bytes().get().saturating_mul(400).saturating_mul(phases as u64),
        )
    }

    fn disk(params: &DiskParams) -> Bytes {
        params.file_size_mib.to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Mebibytes, Millis};

    #[test]
    fn a_phase_of_the_disk_ends_with_its_time_or_with_the_file() {
        let seconds = |mib: u64, slow| {
            let file_size_mib = Mebibytes::from_mib(mib);
            let duration_ms = Millis::from_millis(50);
            Disk::transfer(&DiskParams { file_size_mib, duration_ms, ..DiskParams::default() }, 1.0, slow)
        };
        let by_time = seconds(1 << 20, 1.0);
        assert!((seconds(1 << 21, 9.0) - by_time).abs() < 1e-9, "a large file is never read to its end");
        assert!(seconds(1, 1.0) < by_time / 10.0);
        assert!((seconds(2, 1.0) - 2.0 * seconds(1, 1.0)).abs() < 1e-9);
        assert!(seconds(1, 0.0).abs() < 1e-9, "nothing is run");
    }
}
