//! What the page says of random reads, of disks that do not lie on their blocks, and of the parts of a dose.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the sample is shared; tests panic and print"
)]

use crate::browser;

use browser::sample;
use bulkhead::probes::job::{Dose, DosePart, PlacedDose};
use bulkhead::report::{page, terminal};
use bulkhead::units::Nanos;
use bulkhead::units::names::{LoadKind, LoadPlace};

#[test]
fn a_misaligned_partition_is_named_with_what_it_costs() {
    let html = page::html(&sample::rich());
    assert!(html.contains("sda1 begins at byte 32256 of its disk"), "the reason");
    assert!(html.contains("A misaligned partition halves sequential writes"), "what it means");
    assert!(html.contains("reached 48.1 % of the throughput"), "what was measured");
    let warnings = html.matches(": misaligned. ").count();
    let disks = html.matches("on the boundary of a physical block").count();
    assert!(warnings > 0 && disks > 0, "{warnings} misaligned and {disks} aligned ones");
    assert!(html.contains("Random reads, one after the other"));
}

#[test]
fn a_dose_shows_its_parts_and_its_way() {
    let words = |kind: LoadKind, way: Option<&str>| {
        let part = |(kind, unit): &(LoadKind, &str)| DosePart {
            kind: *kind,
            rate_per_s: 2e6,
            unit: (*unit).to_owned(),
        };
        let dose = Dose {
            kind,
            threads: 4,
            elapsed_ns: Nanos::from_nanos(1_000_000_000),
            rate_per_s: 1e6,
            unit: kind.unit().to_owned(),
            cpu_time_ns: Nanos::from_nanos(2_000_000_000),
            way: way.map(str::to_owned),
            interrupts_per_s: way.map(|_| 4321.0),
            soft_interrupts_per_s: way.map(|_| 98_765.0),
            parts: kind.parts().iter().map(part).collect(),
        };
        terminal::dose_words(&PlacedDose { place: LoadPlace::Same, dose })
    };
    assert_eq!(words(LoadKind::Network, None), "4 threads, 1.0e6 packets/s (1.91 MiB/s), 2 CPUs busy");
    let mixed = words(LoadKind::Mixed, None);
    assert!(
        mixed.contains("(cpu 2.0e6 rounds/s, memory 1.91 MiB/s, disk 1.91 MiB/s, network 2.0e6"),
        "{mixed}"
    );
    let interrupt = words(LoadKind::Interrupt, Some("ICMP echo"));
    assert!(interrupt.contains(", ICMP echo, 4321 interrupts/s of its network card, 9"), "{interrupt}");
    assert!(interrupt.ends_with(" soft interrupts/s for packets"), "{interrupt}");
}
