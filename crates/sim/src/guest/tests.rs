//! Guests' locks: mutual exclusion, order, waiting times, wake-ups and deadlocks, seen by the programs that use them.

mod kinds;
mod orders;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::lock::{Lock, Waiting};
use super::*;
use crate::host::{CpuSet, Habits, Limits, Machine, Stopped, VcpuId, Vm, VmId};
use crate::policy::equal_per_vm;
use crate::time::{Span, Time};

/// What the threads of a guest see of its locks.
#[derive(Debug, Default)]
struct Log {
    inside: Vec<Option<usize>>,
    /// Who asked and has not got it yet, in order.
    asked: Vec<VecDeque<usize>>,
    out_of_order: u32,
    acquired: u64,
    waited: Span,
    broken: Option<String>,
}

/// Does what is on its list and takes down what it sees.
struct Listed {
    number: usize,
    ops: VecDeque<Op>,
    asked: Option<(u32, Time)>,
    log: Arc<Mutex<Log>>,
}

impl Program for Listed {
    fn next(&mut self, moment: Moment<'_>) -> Op {
        let mut log = self.log.lock().unwrap();
        if let Some((lock, since)) = self.asked.take() {
            let place = lock as usize;
            if let Some(other) = log.inside[place].replace(self.number) {
                log.broken =
                    Some(format!("{} and {other} are in lock {lock} at {}", self.number, moment.now));
            }
            log.out_of_order += u32::from(log.asked[place].front() != Some(&self.number));
            let number = self.number;
            log.asked[place].retain(|asked| *asked != number);
            log.acquired += 1;
            log.waited += moment.now.since(since);
        }
        let op = self.ops.pop_front().unwrap_or(Op::Finish);
        match op {
            Op::Acquire(lock) => {
                self.asked = Some((lock, moment.now));
                log.asked[lock as usize].push_back(self.number);
            }
            Op::Release(lock) => log.inside[lock as usize] = None,
            _ => {}
        }
        op
    }

    fn seen(&self) -> Seen {
        Seen::default()
    }

    fn is_finite(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone)]
struct World {
    cpus: u32,
    vcpus: u32,
    locks: u32,
    kind: LockKind,
    on_long_wait: OnLongWait,
    costs: GuestCosts,
    habits: Habits,
    threads: Vec<Vec<Op>>,
}

impl World {
    fn dedicated(kind: LockKind, threads: Vec<Vec<Op>>) -> Self {
        let cpus = u32::try_from(threads.len()).unwrap();
        let (on_long_wait, costs, habits) = (OnLongWait::Spin, GuestCosts::default(), Habits::default());
        Self { cpus, vcpus: cpus, locks: 2, kind, on_long_wait, costs, habits, threads }
    }

    /// Two guests with the same threads, so that they take CPUs from each other.
    fn run(&self, guests: u32) -> (Stopped, Machine, Vec<Arc<Mutex<Log>>>) {
        let (mut vms, mut made, mut logs) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..guests {
            let first = VcpuId(number * self.vcpus);
            let log = Arc::new(Mutex::new(Log {
                inside: vec![None; self.locks as usize],
                asked: vec![VecDeque::new(); self.locks as usize],
                ..Log::default()
            }));
            let thread = |(number, ops): (usize, &Vec<Op>)| ThreadPlan {
                program: Box::new(Listed {
                    number,
                    ops: ops.clone().into(),
                    asked: None,
                    log: Arc::clone(&log),
                }),
                priority: 0,
                bound: None,
            };
            let plan = GuestPlan {
                vm: VmId(number),
                first,
                vcpus: self.vcpus,
                quantum: Span::from_micros(50),
                threads: self.threads.iter().enumerate().map(thread).collect(),
                locks: self.locks,
                lock_kind: self.kind,
                on_long_wait: self.on_long_wait,
                mhz: 1000,
                seed: u64::from(number),
            };
            made.push(Guest::new(plan).with(self.costs));
            let (weight, reserved_cpus, limit_cpus) = (1.0, 0.0, None);
            vms.push(Vm { first, count: self.vcpus, weight, reserved_cpus, limit_cpus, phase: None });
            logs.push(log);
        }
        let policy = Box::new(equal_per_vm(Span::from_micros(100)));
        let affinity_of = vec![0; (guests * self.vcpus) as usize];
        let cpus = vec![CpuSet::first(self.cpus)];
        let mut machine = Machine::new(self.cpus, vms, cpus, &affinity_of, made, policy, self.habits);
        let stopped = machine.run(&Limits { until: Time::NEVER, events: 10_000_000, when_done: true });
        (stopped, machine, logs)
    }
}

fn micros(count: u64) -> Span {
    Span::from_micros(count)
}

/// Pieces of work, sleeps and critical sections; nothing is nested, so nothing can deadlock.
fn threads() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let section = (0..2u32, 0..30u64)
        .prop_map(|(lock, hold)| vec![Op::Acquire(lock), Op::Kernel(micros(hold)), Op::Release(lock)]);
    let piece = prop_oneof![
        (0..60u64).prop_map(|length| vec![Op::Work(micros(length))]),
        (0..300u64).prop_map(|at| vec![Op::SleepUntil(Time::ZERO + micros(at))]),
        Just(vec![Op::ShootDown]),
        section.clone(),
        section.clone(),
        section,
    ];
    let thread = proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    proptest::collection::vec(thread, 1..7)
}

fn kinds() -> impl Strategy<Value = LockKind> {
    prop_oneof![
        Just(LockKind::TestAndSet),
        Just(LockKind::UnfairQueued),
        Just(LockKind::Ticket),
        Just(LockKind::Mcs),
        (1..40u64).prop_map(|patience| LockKind::PvTicket(micros(patience))),
        (1..40u64).prop_map(|patience| LockKind::PvQueued(micros(patience))),
        Just(LockKind::Mutex),
    ]
}

fn costs() -> impl Strategy<Value = GuestCosts> {
    let cost = || prop_oneof![Just(0u64), 0..4u64].prop_map(micros);
    let locks = (cost(), cost(), cost(), cost(), cost());
    (locks, 1..4u32, cost(), cost(), any::<bool>()).prop_map(
        |((halt, kick, wake, exit, line), exit_growth, send, handle, pv_flush)| GuestCosts {
            halt,
            kick,
            wake,
            exit,
            exit_growth,
            line,
            send,
            handle,
            pv_flush,
        },
    )
}

fn worlds() -> impl Strategy<Value = World> {
    let long_wait = prop_oneof![
        Just(OnLongWait::Spin),
        (1..20u64).prop_map(|limit| OnLongWait::Help(micros(limit))),
        (1..20u64).prop_map(|limit| OnLongWait::Halt(micros(limit))),
    ];
    let habits = (0..2u64, proptest::option::of(any::<bool>()), 0..2u64, proptest::option::of(0..9u64))
        .prop_map(|(switch, help, grace, staggered)| Habits {
            switch: micros(switch),
            help,
            grace: micros(grace * 40),
            staggered,
        });
    (1..4u32, 1..5u32, kinds(), long_wait, costs(), habits, threads()).prop_map(
        |(cpus, vcpus, kind, on_long_wait, costs, habits, threads)| {
            let halts_itself = kind.patience().is_some() || kind == LockKind::Mutex;
            let on_long_wait = match on_long_wait {
                OnLongWait::Halt(limit) if halts_itself => OnLongWait::Help(limit),
                other => other,
            };
            World { cpus, vcpus, locks: 2, kind, on_long_wait, costs, habits, threads }
        },
    )
}

fn is_fifo(kind: LockKind) -> bool {
    matches!(kind, LockKind::Ticket | LockKind::Mcs | LockKind::PvTicket(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn nobody_enters_a_lock_that_is_held_and_everybody_gets_through(world in worlds(), guests in 1..3u32) {
        let (stopped, machine, logs) = world.run(guests);
        // A lost wake-up would end in a deadlock or run out of events; broken books in words.
        prop_assert_eq!(stopped, Stopped::Done);
        let wanted = world.threads.concat().iter().filter(|op| matches!(op, Op::Acquire(_))).count() as u64;
        for (log, guest) in logs.iter().zip(machine.guests()) {
            let log = log.lock().unwrap();
            prop_assert_eq!(&log.broken, &None);
            prop_assert_eq!(log.acquired, wanted);
            if is_fifo(world.kind) {
                prop_assert_eq!(log.out_of_order, 0);
            }
            let locks = guest.locks();
            prop_assert_eq!(locks.iter().map(|lock| lock.taken).sum::<u64>(), wanted);
            let waited: u64 = locks.iter().flat_map(|lock| lock.waits.nanos).sum();
            prop_assert_eq!(waited, log.waited.nanos());
            prop_assert!(locks.iter().map(|lock| lock.waits.count()).sum::<u64>() <= wanted);
            let work: Span = world.threads.concat().iter().fold(Span::ZERO, |sum, op| match op {
                Op::Work(span) | Op::Kernel(span) => sum + *span,
                _ => sum,
            });
            let threads = guest.threads();
            let cpu = threads.iter().fold(Span::ZERO, |sum, thread| sum + thread.cpu);
            let spin = threads.iter().fold(Span::ZERO, |sum, thread| sum + thread.spin);
            let kicks = locks.iter().map(|lock| lock.kicks).sum::<u64>();
            let kicked = Span::from_nanos(world.costs.kick.nanos() * kicks);
            let shoots = world.threads.concat().contains(&Op::ShootDown);
            let spun: u64 = locks.iter().flat_map(|lock| lock.spins.nanos).sum();
            if shoots {
                prop_assert!(cpu >= work + spin + kicked && spun <= spin.nanos());
            } else {
                prop_assert_eq!(cpu, work + spin + kicked);
                prop_assert_eq!(spun, spin.nanos());
            }
        }
    }
}

fn section(before: u64, hold: u64) -> Vec<Op> {
    vec![Op::Work(micros(before)), Op::Acquire(0), Op::Kernel(micros(hold)), Op::Release(0)]
}

#[test]
fn waits_fall_into_their_bins_and_tickets_keep_the_order() {
    // At 1000 MHz a microsecond is 1000 cycles. The first holds it from 1 to 21 µs.
    for kind in [LockKind::Ticket, LockKind::TestAndSet] {
        let world = World::dedicated(kind, vec![section(1, 20), section(3, 20), section(2, 20)]);
        let (stopped, machine, logs) = world.run(1);
        assert_eq!(stopped, Stopped::Done);
        let report = machine.guests()[0].locks().remove(0);
        assert_eq!((report.taken, report.waits.count()), (3, 2));
        let spin: u64 = machine.guests()[0].threads().iter().map(|thread| thread.spin.nanos()).sum();
        assert_eq!(spin, report.waits.nanos.iter().sum::<u64>());
        if kind == LockKind::Ticket {
            // 21 − 2 = 19 µs: 2^14 to 2^15; 41 − 3 = 38 µs: 2^15 to 2^16.
            assert_eq!((report.waits.counts[14], report.waits.counts[15]), (1, 1));
            assert_eq!((report.waits.nanos[14], report.waits.nanos[15]), (19_000, 38_000));
            assert_eq!(logs[0].lock().unwrap().out_of_order, 0);
        } else {
            assert_eq!(spin, 19_000 + 38_000, "in either order");
        }
    }
}

#[test]
fn test_and_set_passes_over_who_is_preempted_and_tickets_wait_for_him() {
    let held = |kind| {
        let mut lock = Lock::new(kind);
        assert!(lock.acquire(0) && !lock.acquire(1) && !lock.acquire(2) && !lock.acquire(3));
        lock
    };
    let doing =
        |thread| [Waiting::Spins, Waiting::Preempted, Waiting::Parked, Waiting::Spins][thread as usize];
    let mut ticket = held(LockKind::Ticket);
    assert_eq!((ticket.release(0, doing, |_| 0).tell, ticket.holder), (Some(1), Some(1)));
    let mut test_and_set = held(LockKind::TestAndSet);
    assert_eq!((test_and_set.release(0, doing, |_| 0).tell, test_and_set.holder), (Some(3), Some(3)));
    // Nobody spins: it is free, and who has halted must be told.
    assert_eq!((test_and_set.release(3, doing, |_| 0).tell, test_and_set.holder), (Some(2), None));
    assert!(test_and_set.look(1) && !test_and_set.look(2));
}

#[test]
fn who_waits_long_halts_and_is_woken() {
    for kind in [LockKind::Ticket, LockKind::TestAndSet] {
        let on_long_wait = OnLongWait::Halt(micros(5));
        let sections = vec![section(0, 100), section(1, 100), section(2, 100)];
        let world = World { on_long_wait, ..World::dedicated(kind, sections) };
        let (stopped, machine, _) = world.run(1);
        assert_eq!(stopped, Stopped::Done);
        assert_eq!(machine.report().wall, micros(300));
        let spins: Vec<Span> = machine.guests()[0].threads().iter().map(|thread| thread.spin).collect();
        assert_eq!(spins, [Span::ZERO, micros(5), micros(5)]);
    }
}

#[test]
fn a_deadlock_is_told_as_one() {
    let (a, b) = (0, 1);
    let crossed = |one, other| {
        vec![
            Op::Acquire(one),
            Op::Kernel(micros(10)),
            Op::Acquire(other),
            Op::Release(other),
            Op::Release(one),
        ]
    };
    let worlds = [
        vec![vec![Op::Acquire(a), Op::Acquire(a)]],
        vec![crossed(a, b), crossed(b, a)],
        vec![vec![Op::Acquire(a)], section(5, 1)],
        vec![vec![Op::Acquire(a), Op::Kernel(micros(9))], section(5, 1)],
    ];
    for threads in worlds {
        for kind in [LockKind::Ticket, LockKind::TestAndSet] {
            let (stopped, machine, _) = World::dedicated(kind, threads.clone()).run(1);
            assert_eq!(stopped, Stopped::Deadlock, "{threads:?}");
            let told = machine.guests()[0].waiting();
            let is_told =
                |told: &String| told.contains("spins for lock") || told.contains("which it holds itself");
            assert!(told.iter().any(is_told), "{told:?}");
        }
    }
    // Of who waits for himself it says so, and of nobody else.
    let twice = vec![vec![Op::Work(micros(5))], vec![Op::Acquire(b), Op::Kernel(micros(9)), Op::Acquire(b)]];
    for kind in [LockKind::Ticket, LockKind::TestAndSet, LockKind::PvQueued(micros(3)), LockKind::Mutex] {
        let (stopped, machine, _) = World::dedicated(kind, twice.clone()).run(1);
        assert_eq!(stopped, Stopped::Deadlock);
        let told = machine.guests()[0].waiting().remove(0);
        assert!(
            told.starts_with("thread 1 waits for lock 1, which it holds itself; since"),
            "{kind:?}: {told}"
        );
    }
    let (_, machine, _) = World::dedicated(LockKind::Ticket, vec![crossed(a, b), crossed(b, a)]).run(1);
    assert!(machine.guests()[0].waiting().iter().all(|told| !told.contains("itself")));
    // In the same order there is none.
    let (stopped, ..) = World::dedicated(LockKind::Ticket, vec![crossed(a, b), crossed(a, b)]).run(1);
    assert_eq!(stopped, Stopped::Done);
}

#[test]
fn giving_back_what_one_does_not_hold_changes_nothing() {
    let thief = vec![Op::Work(micros(5)), Op::Release(0), Op::Acquire(0), Op::Release(0)];
    let (stopped, machine, _) = World::dedicated(LockKind::TestAndSet, vec![section(0, 50), thief]).run(1);
    assert_eq!(stopped, Stopped::Done);
    assert_eq!(machine.guests()[0].threads()[1].spin, micros(45));
}

#[test]
fn who_is_left_on_for_his_lock_goes_when_he_has_given_it_back() {
    // Both guests' first threads hold a lock at the end of their turns of 100 µs, for 10 µs more.
    let threads = vec![vec![
        Op::Work(micros(95)),
        Op::Acquire(0),
        Op::Kernel(micros(15)),
        Op::Release(0),
        Op::Work(micros(90)),
    ]];
    let habits = Habits { grace: micros(50), ..Habits::default() };
    let world = World { habits, ..World::dedicated(LockKind::Ticket, threads) };
    let (stopped, machine, _) = world.run(2);
    assert_eq!(stopped, Stopped::Done);
    let ends: Vec<Time> = machine.guests().iter().filter_map(|guest| guest.threads()[0].ended).collect();
    // 110, 110, 90, 90.
    assert_eq!(ends, [Time::ZERO + micros(310), Time::ZERO + micros(400)]);
}
