//! Paging against what theory expects of mixing, and what must hold in every scenario.

#![expect(clippy::float_cmp, reason = "these shares and times are whole numbers, which floats hold exactly")]

use proptest::prelude::*;

use super::run as run_within;
use super::*;
use model::scenario::{VmsSpec, WorkersSpec};
use units::Nanos;

const UNLIMITED: LimitSpec = LimitSpec { simulated_s: u64::MAX, events: u64::MAX };

fn run(spec: &MemorySpec, seed: u64) -> Replication {
    run_within(spec, seed, &UNLIMITED, &Brake::default())
}

fn spec() -> MemorySpec {
    let nanos = Nanos::from_nanos;
    MemorySpec {
        nodes: 4,
        pages_per_node: 2000,
        vms: VmsSpec::OneOverAll,
        workers: WorkersSpec::Processes,
        workers_in_all: 16,
        pages_per_worker: 400,
        shared_share: 0.0,
        runs: 2,
        touches_per_page: 1000,
        miss_share: 0.1,
        mixing: 0.0,
        refault_share: 0.0,
        migration: false,
        guest_fault_ns: nanos(1000),
        host_fault_ns: nanos(3000),
        local_ns: nanos(100),
        remote_ns: nanos(300),
        compute_ns: nanos(1),
    }
}

fn value(replication: &Replication, id: &str) -> Option<f64> {
    let id = format!("paging.{id}");
    replication.figures.iter().find(|figure| figure.id == id).map(|figure| figure.value)
}

fn values<const N: usize>(spec: &MemorySpec, ids: [&str; N]) -> [f64; N] {
    let replication = run(spec, 5);
    ids.map(|id| value(&replication, id).unwrap_or_else(|| panic!("no {id}: {replication:?}")))
}

#[test]
fn the_first_run_reaches_the_host_with_every_fault_and_an_orderly_second_with_none() {
    let ids = [
        "cold.faults",
        "cold.host_share",
        "cold.remote_share",
        "warm.faults",
        "warm.host_share",
        "warm.remote_share",
    ];
    assert_eq!(values(&spec(), ids), [6400.0, 1.0, 0.0, 6400.0, 0.0, 0.0]);
    // 400 pages × (1000 touches × (1 + 0.1 × 100) ns + faults).
    let page = 1000.0 * 11.0;
    let times = values(&spec(), ["cold.time_ns", "warm.time_ns", "cold.host_ns"]);
    assert_eq!(times, [400.0 * (page + 4000.0), 400.0 * (page + 1000.0), 6400.0 * 3000.0]);
}

#[test]
fn mixing_leaks_locality_as_theory_says() {
    // Of a share m of places that change, the used part u gets used pages; of these, 3 of 4 lie on another node.
    for mixing in [0.1, 0.4, 1.0] {
        let spec = MemorySpec { pages_per_node: 20_000, pages_per_worker: 4000, mixing, ..spec() };
        let used: f64 = 0.8;
        let [host, remote] = values(&spec, ["warm.host_share", "warm.remote_share"]);
        let near = |got: f64, wanted: f64| {
            let error = (wanted * (1.0 - wanted) / 64_000.0).sqrt();
            assert!((got - wanted).abs() < 4.0 * error, "{mixing}: {got}, expected {wanted} ± {error}");
        };
        near(host, mixing * (1.0 - used));
        near(remote, mixing * used * 0.75);
    }
}

#[test]
fn threads_fault_once_and_use_their_pages_where_they_are() {
    let threads = MemorySpec { workers: WorkersSpec::Threads, shared_share: 0.5, mixing: 1.0, ..spec() };
    let replication = run(&threads, 5);
    assert_eq!(value(&replication, "warm.faults"), Some(0.0));
    assert_eq!(value(&replication, "warm.host_share"), None);
    // Of the shared half, three quarters lie on other nodes, in the first run as in the last.
    assert_eq!(value(&replication, "cold.remote_share"), Some(0.375));
    assert_eq!(value(&replication, "warm.remote_share"), Some(0.375));
    let alone = MemorySpec { shared_share: 0.0, ..threads };
    assert_eq!(values(&alone, ["cold.remote_share", "warm.remote_share"]), [0.0, 0.0]);
}

#[test]
fn the_host_moves_only_what_it_sees() {
    let seen =
        MemorySpec { mixing: 0.5, refault_share: 0.1, migration: true, pages_per_worker: 450, ..spec() };
    let [moved, remote] = values(&seen, ["warm.moved_share", "warm.remote_share"]);
    let without = MemorySpec { migration: false, ..seen.clone() };
    let [before] = values(&without, ["warm.remote_share"]);
    assert!((remote + moved - before).abs() < 1e-9, "{remote} + {moved} is not {before}");
    assert!((moved / before - 0.1).abs() < 0.03, "{moved} of {before}");
    let blind = MemorySpec { refault_share: 0.0, ..seen };
    let [moved] = values(&blind, ["warm.moved_share"]);
    assert!(moved < 1e-9, "{moved}");
}

#[test]
fn limits_are_kept_between_runs() {
    let many = MemorySpec { runs: 50, ..spec() };
    let each = run_within(&MemorySpec { runs: 1, ..spec() }, 1, &UNLIMITED, &Brake::default()).events;
    let stopped = run_within(&many, 1, &LimitSpec { events: 3 * each, ..UNLIMITED }, &Brake::default());
    assert_eq!(stopped.events, 4 * each);
    assert!(stopped.trouble.unwrap().contains("after 4 of 50 runs"));
    let late = run_within(&many, 1, &LimitSpec { simulated_s: 0, ..UNLIMITED }, &Brake::default());
    assert!(late.trouble.unwrap().contains("limits.simulated_s"));
    assert_eq!(run(&many, 1).trouble, None);
}

fn any_spec() -> impl Strategy<Value = MemorySpec> {
    let counts = (1u32..5, 1u32..4, 1u64..30, 0u64..60, 1u32..5);
    let shares = (0.0..=1.0f64, 0.0..=1.0f64, 0.0..=1.0f64, 0.0..=1.0f64);
    (counts, shares, any::<[bool; 3]>()).prop_map(|(counts, drawn, [one, threads, migration])| {
        let (nodes, workers, pages, more, runs) = counts;
        let (mixing, refault_share, shared_share, miss_share) = drawn;
        MemorySpec {
            nodes,
            pages_per_node: pages * u64::from(workers) + more,
            vms: if one { VmsSpec::OneOverAll } else { VmsSpec::OnePerNode },
            workers: if threads { WorkersSpec::Threads } else { WorkersSpec::Processes },
            workers_in_all: nodes * workers,
            pages_per_worker: pages,
            shared_share: if threads { shared_share } else { 0.0 },
            runs,
            miss_share,
            mixing,
            refault_share,
            migration,
            ..spec()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn what_must_hold_holds(spec in any_spec(), seed: u64) {
        let mut host = Host::new(&spec, seed);
        for number in 0..spec.runs {
            let outcome = host.run(number);
            // No page of the host is lost or given out twice.
            for (free, used) in host.balance() {
                prop_assert_eq!(free + used, spec.pages_per_node);
            }
            prop_assert!(outcome.host_faults <= outcome.faults && outcome.moved <= outcome.host_faults);
            prop_assert!((0.0..=1.0).contains(&outcome.remote_share()));
            if spec.vms == VmsSpec::OnePerNode || spec.nodes == 1 {
                prop_assert_eq!(outcome.remote_share(), 0.0);
            }
            if number == 0 {
                prop_assert_eq!(outcome.host_faults, outcome.faults);
                prop_assert_eq!(outcome.faults, outcome.pages);
            }
            let page = spec.touches_per_page as f64 * (1.0 + spec.miss_share * 300.0) + 7000.0;
            prop_assert!(outcome.time.as_f64() <= page * spec.pages_per_worker as f64 + 1.0);
        }
        prop_assert_eq!(run(&spec, seed), run(&spec, seed));
        prop_assert!(run(&spec, seed).figures.iter().all(|figure| figure.value.is_finite()));
    }
}
