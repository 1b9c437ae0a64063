//! Who took the time in the sample run, and what the host saw of the guest meanwhile.

use bulkhead::model::attribution::{AttributedSource, Attribution};
use bulkhead::model::clocks::{ClockStep, MeasurementName, SteppedClock};
use bulkhead::model::journal::Cell;
use bulkhead::model::sides::BothSides;
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::Stretch;
use bulkhead::units::accounts::{HostAccount, HostMemory, HostSlice};
use bulkhead::units::names::LoadKind;
use bulkhead::units::outside::{ClockReading, ClockTransport, OutsideSpan, OutsideTime};
use bulkhead::units::{Bytes, Nanos};

fn ns(nanos: u64) -> Nanos {
    Nanos::from_nanos(nanos)
}

/// Lost time of a gap cell, shared out.
pub fn attribution(cell: &Cell) -> Option<Attribution> {
    if ![ProbeKind::Gap, ProbeKind::Wakeup, ProbeKind::Disk].contains(&cell.probe) {
        return None;
    }
    let (lost, parts): (u64, [u64; 4]) = match (cell.platform.as_str(), cell.neighbour.is_some()) {
        ("vm", false) => (9_400_000, [1_100_000, 3_900_000, 0, 300_000]),
        ("vm", true) => (412_000_000, [1_200_000, 180_000_000, 0, 900_000]),
        (_, false) => (560_000, [410_000, 0, 60_000, 50_000]),
        (_, true) => (305_000_000, [400_000, 0, 303_000_000, 700_000]),
    };
    let names = match cell.probe {
        ProbeKind::Disk => [
            "on its CPU (own work)",
            "device or its file system",
            "other threads (scheduler)",
            "hypervisor (steal)",
        ],
        _ => ["timer tick", "hypervisor (steal)", "other threads (scheduler)", "interrupts"],
    };
    let sources: Vec<AttributedSource> = names
        .iter()
        .zip(parts)
        .filter(|(_, took)| *took > 0)
        .map(|(name, took)| AttributedSource {
            name: (*name).to_owned(),
            lost_ns: ns(took),
            share: took as f64 / lost as f64,
            evidence: format!("a counter of the kernel says so, {took} ns in all"),
        })
        .collect();
    Some(Attribution {
        lost_ns: ns(lost),
        sources,
        unattributed_ns: ns(lost - parts.iter().sum::<u64>()),
        unknown: vec![
            "tracing: not asked for (trace = true in the experiment asks for it)".to_owned(),
            "interrupts: /proc/interrupts: Permission denied".to_owned(),
        ],
    })
}

/// The guest's worst round beside what its host saw.
pub fn sides(cell: &Cell) -> Option<BothSides> {
    let loud = cell.neighbour.is_some_and(|neighbour| neighbour.kind == LoadKind::Cpu);
    let shown = cell.probe == ProbeKind::Gap && cell.platform == "vm" && (loud || cell.neighbour.is_none());
    if !shown {
        return None;
    }
    let reading = |host: u64, instance: u64| ClockReading {
        host_ns: ns(host),
        monotonic_ns: ns(instance),
        raw_ns: ns(instance),
        realtime_ns: ns(instance),
        round_trip_ns: ns(84_000),
        exchanges: 8,
    };
    // In 10 ms slices; beside the load every third one is spent waiting.
    let waits = |slice: u64| if loud && slice.is_multiple_of(3) { 8_700_000 } else { 60_000 };
    let slices = (1..=110u64).map(|slice| HostSlice {
        at_ns: ns(5_000_000_000 + slice * 10_000_000),
        run_ns: ns(9_900_000 - waits(slice)),
        wait_ns: ns(waits(slice)),
        faults: 0,
    });
    let gap = |slice: u64| {
        let length = if loud { 8_500_000 - slice * 20_000 } else { 90_000 - slice * 700 };
        Stretch { start_ns: ns((slice * 3 - 1) * 10_000_000 - 49_000_000), length_ns: ns(length) }
    };
    Some(BothSides {
        round: 4,
        gaps: (2..=35).map(gap).collect(),
        outside: OutsideTime {
            transport: ClockTransport::Link,
            before: reading(5_000_000_000, 1_000_000_000),
            after: reading(6_100_000_000, 2_100_000_000),
            began_ns: ns(1_050_000_000),
            ended_ns: ns(2_074_000_000),
        },
        host: HostAccount {
            own_cost_ns: Nanos::ZERO,
            cpu_time_ns: ns(1_000_000_000),
            wait_ns: ns(40_000_000),
            faults: 3,
            slices: slices.collect(),
            ..HostAccount::default()
        },
    })
}

/// Where the memory of the guest lay on the host, as the host says it.
pub fn memory(cell: &Cell) -> Option<HostAccount> {
    let is_guests = cell.platform == "vm" && cell.probe == ProbeKind::MemLatency;
    let mib = |mib: u64| Bytes::from_bytes(mib << 20);
    let memory = HostMemory {
        before_bytes: vec![(0, mib(180))],
        after_bytes: vec![(0, mib(480)), (1, mib(30))],
        unknown: None,
    };
    is_guests.then(|| HostAccount {
        node: Some(0),
        faults: 84_000,
        memory: Some(memory),
        ..HostAccount::default()
    })
}

/// How long the measurements of a cell took: the guest's clock is a tenth too fast.
pub fn outside(cell: &Cell) -> Vec<OutsideSpan> {
    let inside_ns = if cell.platform == "vm" { 1_100_000_000 } else { 1_000_000_500 };
    let span = |round| OutsideSpan {
        round,
        rank: 0,
        transport: ClockTransport::Link,
        inside_ns: ns(inside_ns),
        outside_ns: ns(1_000_000_000),
        error_ns: ns(42_000),
    };
    (0..9).map(span).collect()
}

/// The guest's time of day was set while nobody measured.
pub fn step() -> ClockStep {
    let cell = |probe| Cell { probe, neighbour: None, platform: "vm".to_owned(), layout: None };
    ClockStep {
        cell: cell(ProbeKind::Fwq),
        round: 3,
        since: Some(MeasurementName { cell: cell(ProbeKind::Gap), round: 2 }),
        clock: SteppedClock::Realtime,
        step_ns: -1_500_000_000,
        error_ns: 84_000,
    }
}
