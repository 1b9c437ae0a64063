//! The limit of small quanta: shares of the event model against those of a fluid that is divided all the time.
//!
//! ```text
//!  lag(t) = | CPU time had by t  −  fluid share × t |  ≤  c × quantum, at every t, with a c that grows with no t
//!  relative error at t  ≤  c × quantum / (share × t)   so it falls as the quantum does, without end
//!  at the end of a whole round of turns the lag is nothing at all
//! ```
//! The model knows no length of time but the quantum: scaling quantum and t scales every event. With c at most 24 here (6 is
//! the most that was seen), an error of 10⁻⁹ in the middle of a round takes some 10¹⁰ quanta; nobody simulates these, the
//! bound on the lag says what they would show.

use super::tests::machine;
use super::{Habits, Limits, Machine, Pause};
use crate::policy::{Policy, equal_per_vm, per_thread, proportional};
use crate::programs::Endless;
use crate::random::Stream;
use crate::time::{Span, Time};
use stats::water::{Claim, fill};

const CPUS: u32 = 8;
const NO_END: Limits = Limits { until: Time::NEVER, events: u64::MAX, when_done: false };

/// VMs by their threads, and the policy they are dealt CPUs by.
struct Given {
    threads: &'static [u32],
    policy: fn(Span) -> Box<dyn Policy>,
    weight: fn(u32) -> f64,
}

fn all() -> Vec<Given> {
    type Weighed = (fn(Span) -> Box<dyn Policy>, fn(u32) -> f64);
    let policies: [Weighed; 3] = [
        (|quantum| Box::new(equal_per_vm(quantum)), |_| 1.0),
        (|quantum| Box::new(proportional(quantum)), |count| f64::from(count.min(CPUS))),
        (|quantum| Box::new(per_thread(quantum)), f64::from),
    ];
    let threads: [&[u32]; 4] = [&[8, 16], &[4, 16], &[3, 5, 7], &[1, 2, 30]];
    let pairs = policies.into_iter().flat_map(|policy| threads.map(|threads| (policy, threads)));
    pairs.map(|((policy, weight), threads)| Given { threads, policy, weight }).collect()
}

impl Given {
    fn begin(&self, quantum: Span) -> Machine {
        machine(CPUS, self.threads, (self.policy)(quantum), Habits::default(), |_| Box::new(Endless))
    }

    /// CPUs that each VM gets of the fluid.
    fn fluid(&self) -> Vec<f64> {
        let claim = |count: &u32| Claim { need: f64::from(*count), weight: (self.weight)(*count) };
        fill(&self.threads.iter().map(claim).collect::<Vec<_>>(), f64::from(CPUS))
    }
}

/// CPU time of each VM up to `at`, in nanoseconds.
fn had(machine: &mut Machine, at: Time) -> Vec<f64> {
    machine.run_to(&NO_END, Pause { at, ..Pause::NEVER });
    let state = machine.state(at);
    let of = |vm: &super::Vm| vm.vcpus().map(|vcpu| state.vcpus[vcpu.index()].run_ns.get() as f64).sum();
    machine.view().vms.iter().map(of).collect()
}

/// The longest lag of any VM at so many random moments up to `end`, in quanta.
fn lag(given: &Given, quantum: Span, end: Span, looks: u64) -> f64 {
    let mut random = Stream::new(quantum.nanos(), &[end.nanos()]);
    let mut moments: Vec<u64> = (0..looks).map(|_| random.below(end.nanos())).collect();
    moments.sort_unstable();
    let (mut machine, fluid) = (given.begin(quantum), given.fluid());
    let lags = moments.into_iter().flat_map(|at| {
        let had = had(&mut machine, Time::from_nanos(at));
        let lag = |(had, share): (f64, &f64)| (had - share * at as f64).abs();
        had.into_iter().zip(&fluid).map(lag).collect::<Vec<_>>()
    });
    lags.fold(0.0, f64::max) / quantum.as_f64()
}

#[test]
fn the_lag_behind_the_fluid_is_some_quanta_however_long_it_runs_and_however_short_they_are() {
    for given in all() {
        let most = f64::from(CPUS + given.threads.iter().max().unwrap());
        for quantum in [Span::from_millis(10), Span::from_micros(100), Span::from_micros(1)] {
            let times = |quanta: u64| Span::from_nanos(quantum.nanos() * quanta);
            let (early, late) =
                (lag(&given, quantum, times(100), 300), lag(&given, quantum, times(2_000), 600));
            assert!(late <= most, "{:?}, {quantum}: {late} quanta after 2000", given.threads);
            assert!(late <= early * 1.5 + 1.0, "{:?}: {early} quanta grow to {late}", given.threads);
        }
    }
}

#[test]
fn the_error_falls_as_the_quantum_does() {
    let at = Span::from_nanos(99_999_989);
    for given in all() {
        let fluid = given.fluid();
        let c = f64::from(CPUS + given.threads.iter().max().unwrap());
        for quantum in (0..5).map(|step| Span::from_nanos(6_400_000 >> (2 * step))) {
            let had = had(&mut given.begin(quantum), Time::ZERO + at);
            for (had, share) in had.iter().zip(&fluid) {
                let error = (had / at.as_f64() / share - 1.0).abs();
                assert!(error <= c * quantum.as_f64() / at.as_f64() / share, "{quantum}: {error}");
            }
        }
    }
}

#[test]
fn at_the_end_of_whole_rounds_shares_are_the_fluids_to_the_last_digit() {
    for given in all() {
        let fluid = given.fluid();
        let quantum = Span::from_micros(10);
        let mut machine = given.begin(quantum);
        let mut least = f64::INFINITY;
        // Whole rounds of all of these fit into 9240 = 2³ × 3 × 5 × 7 × 11 turns, of most of them into a quarter of that.
        for quanta in [2310, 4620, 6930, 9240] {
            let at = Time::from_nanos(quantum.nanos() * quanta);
            let had = had(&mut machine, at);
            let error = |(had, share): (&f64, &f64)| (had / at.nanos() as f64 / share - 1.0).abs();
            least = least.min(had.iter().zip(&fluid).map(error).fold(0.0, f64::max));
        }
        assert!(least < 1e-9, "{:?}: {least}", given.threads);
    }
}
