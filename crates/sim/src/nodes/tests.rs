//! The program against closed forms, against events in order of time, and against itself.

#![expect(clippy::float_cmp, reason = "times without noise are whole numbers, which floats hold exactly")]

use proptest::prelude::*;

use super::*;
use crate::queue::Queue;
use model::scenario::LogGp;
use units::{Micros, Nanos};

fn micros(value: u64) -> Micros {
    Micros::from_micros(value)
}

fn loggp(latency: u64, overhead: u64, gap: u64) -> LogGp {
    let nanos = Nanos::from_nanos;
    LogGp {
        latency_ns: nanos(latency),
        overhead_ns: nanos(overhead),
        gap_ns: nanos(gap),
        per_byte_ps: 333,
        bytes: 8,
    }
}

fn spec(count: u32, steps: u32, barrier: BarrierSpec, noise: NoiseSpec) -> NodesSpec {
    NodesSpec { count, work_us: micros(1000), steps, barrier, noise, together: false }
}

fn value(replication: &Replication, id: &str) -> f64 {
    let id = format!("nodes.{id}");
    let figure = replication.figures.iter().find(|figure| figure.id == id);
    figure.unwrap_or_else(|| panic!("no {id}: {replication:?}")).value
}

fn noises() -> [NoiseSpec; 3] {
    [
        NoiseSpec::Exponential { mean_us: micros(200) },
        NoiseSpec::Pareto { least_us: micros(100), shape: 4.0 },
        NoiseSpec::Rare { probability: 0.001, length_us: micros(500) },
    ]
}

/// Mean of `step_mean_ns` over seeds, and its standard error.
fn mean_and_error(spec: &NodesSpec, seeds: u64) -> (f64, f64) {
    let means: Vec<f64> = (0..seeds).map(|seed| value(&run(spec, None, seed), "step_mean_ns")).collect();
    let count = seeds as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

#[test]
fn the_maximum_over_nodes_is_what_theory_expects() {
    for noise in noises() {
        for (count, steps) in [(1, 200), (7, 1000), (1000, 10)] {
            let spec = spec(count, steps, BarrierSpec::Maximum {}, noise.clone());
            let closed = closed_form(&spec).unwrap();
            let (mean, error) = mean_and_error(&spec, 20);
            assert!((mean - closed).abs() < 3.0 * error, "{spec:?}: {mean} ± {error}, expected {closed}");
            assert!((closed - 1e6).abs() > 6.0 * error || count == 1, "{spec:?}: too few draws to tell");
        }
    }
}

#[test]
fn together_everybody_loses_what_one_does() {
    for noise in noises() {
        for barrier in [BarrierSpec::Maximum {}, BarrierSpec::Dissemination(loggp(1000, 500, 0))] {
            let many = NodesSpec { together: true, ..spec(9, 200, barrier, noise.clone()) };
            let closed = closed_form(&many).unwrap();
            let (mean, error) = mean_and_error(&many, 20);
            assert!((mean - closed).abs() < 3.0 * error, "{many:?}: {mean} ± {error}, expected {closed}");
        }
    }
}

#[test]
fn one_node_is_interrupted_as_the_slot_model_says() {
    for (period, length) in [(1000, 100), (700, 350), (130, 7)] {
        let noise = NoiseSpec::Periodic { period_us: micros(period), length_us: micros(length) };
        let spec = spec(1, 3, BarrierSpec::Maximum {}, noise);
        let (mean, error) = mean_and_error(&spec, 400);
        let closed = closed_form(&spec).unwrap();
        assert!((mean - closed).abs() < 3.0 * error, "{spec:?}: {mean} ± {error}, expected {closed}");
    }
}

#[test]
fn a_dissemination_without_noise_ends_after_its_rounds() {
    for count in [1, 2, 3, 4, 5, 8, 9, 100, 1000, 1024, 1025] {
        let costs = loggp(1700, 400, 2000);
        let replication =
            run(&spec(count, 3, BarrierSpec::Dissemination(costs), NoiseSpec::None {}), None, 1);
        // 7 bytes after the first take 2331 ps: 3 ns.
        let rounds = f64::from(count).log2().ceil();
        assert_eq!(value(&replication, "barrier_ns"), rounds * (2.0 * 400.0 + 1700.0 + 3.0));
        assert_eq!(value(&replication, "messages"), 3.0 * rounds * f64::from(count));
        assert_eq!(value(&replication, "slowdown"), 1.0);
        assert_eq!(value(&replication, "closed_form_ns"), value(&replication, "step_mean_ns"));
    }
}

#[test]
fn without_noise_a_tree_takes_its_depth_up_and_down() {
    let whole = |count| {
        let costs = LogGp { bytes: 1, ..loggp(1000, 100, 0) };
        let replication = run(&spec(count, 1, BarrierSpec::Tree(costs), NoiseSpec::None {}), None, 1);
        (value(&replication, "barrier_ns"), value(&replication, "messages"), value(&replication, "slowdown"))
    };
    assert_eq!(whole(1), (0.0, 0.0, 1.0));
    // One message up, one down.
    assert_eq!(whole(2), (2.0 * 1200.0, 2.0, 1.0));
    // The parent takes two that arrive together and sends two, one after the other.
    assert_eq!(whole(3), (2.0 * 1200.0 + 2.0 * 100.0, 4.0, 1.0));
    assert_eq!(whole(7), (2.0 * (2.0 * 1200.0 + 2.0 * 100.0), 12.0, 1.0));
}

#[test]
fn a_wide_gap_holds_messages_back() {
    let held = |gap| {
        let costs = LogGp { bytes: 1, ..loggp(1000, 100, gap) };
        value(&run(&spec(8, 1, BarrierSpec::Dissemination(costs), NoiseSpec::None {}), None, 1), "barrier_ns")
    };
    assert_eq!(held(1200), 3.0 * 1200.0);
    // The second and the third message leave a gap after the one before.
    assert_eq!(held(5000), 100.0 + 2.0 * 5000.0 + 1000.0 + 100.0);
    let wide = spec(8, 1, BarrierSpec::Dissemination(loggp(1000, 100, 5000)), NoiseSpec::None {});
    assert_eq!(closed_form(&wide), None);
}

/// When each node leaves a dissemination barrier, by events in the order of time.
fn by_events(begin: &[Time], noise: &Interruptions, places: &[Place], costs: &LogGp) -> Vec<Time> {
    #[derive(Clone, Copy)]
    enum Event {
        Free { node: usize, round: u32, has_sent: bool },
        Arrives { node: usize, round: u32 },
    }
    let count = begin.len();
    let rounds = barrier::rounds(u32::try_from(count).unwrap());
    let overhead = Span::from(costs.overhead_ns);
    let wire = Span::from_nanos(costs.latency_ns.get() + (7_u64 * 333).div_ceil(1000));
    let gap = Span::from(costs.gap_ns);
    let mut places = places.to_vec();
    let mut queue = Queue::default();
    let mut here: Vec<Vec<Option<Time>>> = vec![vec![None; rounds as usize]; count];
    let mut waits: Vec<Option<(u32, Time)>> = vec![None; count];
    let (mut out, mut taken, mut left) = (vec![None; count], vec![None; count], vec![Time::ZERO; count]);
    for (node, at) in begin.iter().enumerate() {
        queue.push(*at, Event::Free { node, round: 0, has_sent: false });
    }
    while let Some((now, event)) = queue.pop() {
        let node = match event {
            Event::Free { node, round, .. } if round == rounds => {
                left[node] = now;
                continue;
            }
            Event::Free { node, round, has_sent: false } => {
                let done = noise.run(&mut places[node], now, overhead);
                let leaves = out[node].map_or(done, |last: Time| done.max(last + gap));
                let bytes = Span::from_nanos((7_u64 * 333).div_ceil(1000));
                out[node] = Some(leaves + bytes);
                let to = (node + (1 << round)) % count;
                queue.push(leaves + wire, Event::Arrives { node: to, round });
                queue.push(done, Event::Free { node, round, has_sent: true });
                continue;
            }
            Event::Free { node, round, .. } => {
                waits[node] = Some((round, now));
                node
            }
            Event::Arrives { node, round } => {
                here[node][round as usize] = Some(now);
                node
            }
        };
        if let Some((round, since)) = waits[node]
            && let Some(arrival) = here[node][round as usize]
        {
            waits[node] = None;
            let from =
                taken[node].map_or(since.max(arrival), |last: Time| since.max(arrival).max(last + gap));
            taken[node] = Some(from);
            let done = noise.run(&mut places[node], from, overhead);
            queue.push(done, Event::Free { node, round: round + 1, has_sent: false });
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn going_round_by_round_is_what_events_in_order_give(
        begins in prop::collection::vec(0u64..3000, 1..40), offsets in prop::collection::vec(0u64..500, 40),
        latency in 0u64..1000, overhead in 0u64..300, gap in 0u64..900, period in 50u64..500, share in 1u64..49,
    ) {
        let one = Interruption { start: Span::ZERO, length: Span::from_nanos(share) };
        let trace = NoiseTrace::new(vec![one], Span::from_nanos(period)).unwrap();
        let noise = Interruptions::of(&trace);
        let costs = loggp(latency, overhead, gap);
        let begin = Time::from_nanos(period);
        let places: Vec<Place> =
            offsets.iter().map(|at| noise.place(Span::from_nanos(at % period), begin)).take(begins.len()).collect();
        let begins: Vec<Time> = begins.iter().map(|at| begin + Span::from_nanos(*at)).collect();
        let mut nodes: Vec<Node> =
            begins.iter().zip(&places).map(|(at, place)| Node::new(*at, *place)).collect();
        let mut mail = Mail::for_nodes(nodes.len());
        barrier::dissemination(&mut nodes, &mut mail, &Costs::of(&costs), &noise, &Brake::default());
        let left: Vec<Time> = nodes.iter().map(|node| node.ready).collect();
        let wanted = by_events(&begins, &noise, &places, &costs);
        prop_assert_eq!(&left, &wanted);
        // Nobody leaves before the last has come; nor from a tree.
        prop_assert!(nodes.len() == 1 || left.iter().min() >= begins.iter().max());
        let mut nodes: Vec<Node> =
            begins.iter().zip(&places).map(|(at, place)| Node::new(*at, *place)).collect();
        let messages = barrier::tree(&mut nodes, &mut mail, &Costs::of(&costs), &noise);
        let first = nodes.iter().map(|node| node.ready).min();
        prop_assert!(first >= begins.iter().max().copied() && messages == 2 * (nodes.len() as u64 - 1));
    }

    #[test]
    fn figures_keep_their_order(
        count in 1u32..50, steps in 1u32..6, which in 0usize..3, kind in 0usize..3, together: bool, seed: u64
    ) {
        let noise = [
            NoiseSpec::None {},
            NoiseSpec::Exponential { mean_us: micros(300) },
            NoiseSpec::Periodic { period_us: micros(777), length_us: micros(100) },
        ][which].clone();
        let barrier = [
            BarrierSpec::Maximum {},
            BarrierSpec::Dissemination(loggp(5000, 1000, 100)),
            BarrierSpec::Tree(loggp(5000, 1000, 100)),
        ][kind].clone();
        let spec = NodesSpec { together, ..spec(count, steps, barrier, noise) };
        let replication = run(&spec, None, seed);
        let value = |id| value(&replication, id);
        prop_assert!(value("step_mean_ns") <= value("step_max_ns"));
        prop_assert!(value("step_mean_ns") >= 1e6 && value("slowdown") >= 1.0);
        prop_assert!(value("barrier_ns") <= value("step_mean_ns"));
        prop_assert!(kind == 0 || count == 1 || value("wait_ns") > 0.0);
        prop_assert!(which > 0 || value("slowdown") == 1.0);
        prop_assert_eq!(run(&spec, None, seed), replication);
    }

    #[test]
    fn whatever_trace_can_be_read_can_be_run(lines in prop::collection::vec((0u64..1 << 60, 1u64..1 << 60), 0..6), bits in 0u32..60) {
        let mut at = 0_u64;
        let line = |(gap, length): (u64, u64)| {
            let start = at + (gap >> bits);
            at = start + (length >> bits).max(1);
            format!("{start}\t{}\n", (length >> bits).max(1))
        };
        let text: String = lines.into_iter().map(line).collect();
        if let Ok(trace) = NoiseTrace::parse(&text) {
            let named = NoiseSpec::Trace { file: "trace.tsv".to_owned(), platform: None };
            for barrier in [BarrierSpec::Maximum {}, BarrierSpec::Tree(loggp(5000, 1000, 100))] {
                let replication = run(&spec(5, 3, barrier, named.clone()), Some(&trace), 1);
                // Free time may be so rare that the first step takes longer than anybody simulates.
                if replication.figures.is_empty() {
                    prop_assert!(replication.trouble.unwrap().contains("was over in step 1 of 3"));
                } else {
                    prop_assert!(value(&replication, "slowdown") >= 1.0 && value(&replication, "wait_ns") >= 0.0);
                }
            }
        }
    }

    #[test]
    fn more_nodes_never_wait_less(few in 1u32..200, more in 1u32..200, seed: u64) {
        // The first nodes draw the same, so this holds for every seed and not only on average.
        let whole = |count| {
            let noise = NoiseSpec::Exponential { mean_us: micros(300) };
            value(&run(&spec(count, 3, BarrierSpec::Maximum {}, noise), None, seed), "step_mean_ns")
        };
        prop_assert!(whole(few) <= whole(few + more));
    }
}

#[test]
fn a_trace_is_the_periodic_noise_that_it_records() {
    let trace = NoiseTrace::parse("length_ns\t1000000\n0\t100000\n").unwrap();
    let named = NoiseSpec::Trace { file: "trace.tsv".to_owned(), platform: None };
    let periodic = NoiseSpec::Periodic { period_us: micros(1000), length_us: micros(100) };
    for barrier in [BarrierSpec::Maximum {}, BarrierSpec::Dissemination(loggp(1000, 100, 0))] {
        let traced = run(&spec(33, 5, barrier.clone(), named.clone()), Some(&trace), 9);
        assert_eq!(traced, run(&spec(33, 5, barrier, periodic.clone()), None, 9));
    }
    let missing = run(&spec(3, 1, BarrierSpec::Maximum {}, named), None, 9);
    assert_eq!(missing.trouble.as_deref(), Some("the trace trace.tsv was not given"));
}

#[test]
fn co_scheduled_interruptions_cost_a_node_alone_and_not_their_number() {
    let noise = NoiseSpec::Periodic { period_us: micros(10_000), length_us: micros(100) };
    let apart = spec(1000, 20, BarrierSpec::Dissemination(loggp(1000, 100, 0)), noise);
    let together = NodesSpec { together: true, ..apart.clone() };
    let slowdown = |spec| value(&run(spec, None, 4), "slowdown");
    // Of 1000 nodes one is nearly always hit within 1 ms; together all are hit in one step of ten.
    assert!(slowdown(&apart) > 1.09, "{}", slowdown(&apart));
    assert!(slowdown(&together) < 1.02, "{}", slowdown(&together));
}

#[test]
fn it_ends_at_its_limits_and_says_so() {
    let spec = spec(10, 1000, BarrierSpec::Dissemination(loggp(1000, 100, 0)), NoiseSpec::None {});
    let within = |spec: &NodesSpec, simulated_s, events| {
        run_within(spec, None, 1, &LimitSpec { simulated_s, events }, &Brake::default())
    };
    // Ten nodes that send four messages each: fifty events a step.
    let limited = within(&spec, 1000, 120);
    let words = "(limits.events = 120) does not suffice for another step, which takes 50; at 2.01 ms, after 2 of 1000 steps: \
                 10 nodes have their next step before them";
    assert!(limited.trouble.as_ref().unwrap().ends_with(words), "{:?}", limited.trouble);
    assert_eq!((limited.events, value(&limited, "slowdown")), (100, 1.0));
    // Not even one step: nothing is told of it.
    assert_eq!(within(&spec, 1000, 49).figures, []);
    let wild = NoiseSpec::Pareto { least_us: micros(3_600_000_000), shape: 0.1 };
    let wild = run(&super::NodesSpec { noise: wild, ..spec }, None, 1);
    assert!(wild.trouble.unwrap().contains("was over in step"));
}

#[test]
fn who_waits_for_whom_is_told_when_the_time_is_over() {
    // One of a thousand nodes is hit, for longer than the limit allows.
    let rare = NoiseSpec::Rare { probability: 0.000_4, length_us: micros(5_000_000) };
    for barrier in [BarrierSpec::Maximum {}, BarrierSpec::Tree(loggp(1000, 100, 0))] {
        let spec = spec(1000, 100_000, barrier, rare.clone());
        let limits = LimitSpec { simulated_s: 3, events: u64::MAX };
        let trouble = run_within(&spec, None, 1, &limits, &Brake::default()).trouble.unwrap();
        assert!(
            trouble.contains("limits.simulated_s) was over in step") && trouble.contains("at 3 s: 99"),
            "{trouble}"
        );
        assert!(
            trouble.contains("of 1000 nodes wait at its barrier, the last to come is node "),
            "{trouble}"
        );
    }
}

#[test]
fn the_brake_ends_it_between_two_pieces_of_a_step() {
    let brake = Brake::default();
    brake.pull();
    let limits = LimitSpec { simulated_s: u64::MAX, events: u64::MAX };
    for barrier in [BarrierSpec::Maximum {}, BarrierSpec::Dissemination(loggp(1000, 100, 0))] {
        let spec = spec(10, 1000, barrier, NoiseSpec::None {});
        let stopped = run_within(&spec, None, 1, &limits, &brake);
        assert!(stopped.interrupted && stopped.figures.is_empty());
        let words = "interrupted; at 0 ns, after 0 of 1000 steps: 10 nodes have their next step before them";
        assert_eq!(stopped.trouble.as_deref(), Some(words));
    }
}

#[test]
fn a_node_takes_few_bytes() {
    let mail = 2 * std::mem::size_of::<Time>();
    assert!(std::mem::size_of::<Node>() + mail <= 56);
}
