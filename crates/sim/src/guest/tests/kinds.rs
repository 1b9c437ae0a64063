//! What is peculiar to each kind of lock, and to shoot-downs, in scenes small enough to be reckoned by hand.

use super::*;

fn spins(machine: &Machine) -> Vec<u64> {
    machine.guests()[0].threads().iter().map(|thread| thread.spin.nanos() / 1000).collect()
}

fn ends(machine: &Machine) -> Vec<u64> {
    let threads = machine.guests()[0].threads();
    threads.iter().map(|thread| thread.ended.unwrap().since(Time::ZERO).nanos() / 1000).collect()
}

fn done(world: &World) -> Machine {
    let (stopped, machine, logs) = world.run(1);
    assert_eq!(stopped, Stopped::Done);
    assert_eq!(logs[0].lock().unwrap().broken, None);
    machine
}

#[test]
fn who_polls_one_line_pays_for_the_others_and_who_queues_does_not() {
    // The first holds it for 20 µs, three others come meanwhile and hold it for 10 µs each.
    let threads = vec![section(0, 20), section(1, 10), section(2, 10), section(3, 10)];
    let costs = GuestCosts { line: micros(2), ..GuestCosts::default() };
    let wall =
        |kind| ends(&done(&World { costs, ..World::dedicated(kind, threads.clone()) })).into_iter().max();
    // 20, then two others read it first: 2 µs, one: 1 µs, none.
    for kind in [LockKind::Ticket, LockKind::PvTicket(micros(500)), LockKind::TestAndSet] {
        assert_eq!(wall(kind), Some(20 + 2 + 10 + 1 + 10 + 10), "{kind:?}");
    }
    for kind in [LockKind::Mcs, LockKind::UnfairQueued, LockKind::PvQueued(micros(500)), LockKind::Mutex] {
        assert_eq!(wall(kind), Some(50), "{kind:?}");
    }
}

#[test]
fn who_halts_pays_for_it_and_who_wakes_it_does() {
    let costs = GuestCosts { halt: micros(3), kick: micros(4), wake: micros(7), ..GuestCosts::default() };
    for kind in [LockKind::PvTicket(micros(5)), LockKind::PvQueued(micros(5))] {
        let world = World { costs, ..World::dedicated(kind, vec![section(0, 100), section(0, 10)]) };
        let machine = done(&world);
        // The second spins 5 µs and takes 3 µs to halt; woken at 100 µs it is there at 107 µs.
        assert_eq!(spins(&machine), [0, 8], "{kind:?}");
        assert_eq!(ends(&machine), [104, 117], "{kind:?}");
        assert_eq!(machine.guests()[0].locks()[0].kicks, 1);
    }
    // Who gets the lock while it pays for halting does not halt.
    let world = World {
        costs,
        ..World::dedicated(LockKind::PvTicket(micros(5)), vec![section(0, 7), section(0, 10)])
    };
    let machine = done(&world);
    assert_eq!((spins(&machine), ends(&machine)), (vec![0, 8], vec![7, 18]));
}

#[test]
fn behind_one_that_has_halted_nobody_spins() {
    let kind = LockKind::PvQueued(micros(5));
    let sections = || vec![section(0, 100), section(0, 100), section(2, 100)];
    let machine = done(&World::dedicated(kind, sections()));
    // The first of the queue halts at 5 µs; the one behind, who came at 2 µs, at once.
    assert_eq!(spins(&machine), [0, 5, 3]);
    let machine = done(&World::dedicated(LockKind::PvTicket(micros(5)), sections()));
    assert_eq!(spins(&machine), [0, 5, 5]);
}

#[test]
fn who_comes_takes_the_lock_of_one_that_has_halted_and_not_of_one_that_spins() {
    let taken_by = |kind| {
        // The second waits from 1 µs on, and is woken at 50 µs; the third comes at 52 µs.
        let late = vec![Op::Work(micros(52)), Op::Acquire(0), Op::Kernel(micros(10)), Op::Release(0)];
        let costs = GuestCosts { wake: micros(7), ..GuestCosts::default() };
        let world = World { costs, ..World::dedicated(kind, vec![section(0, 50), section(1, 10), late]) };
        ends(&done(&world))
    };
    assert_eq!(taken_by(LockKind::PvQueued(micros(5))), [50, 72, 62], "it has halted: stolen");
    assert_eq!(taken_by(LockKind::PvTicket(micros(5))), [50, 67, 84], "it was handed over");
    assert_eq!(taken_by(LockKind::PvQueued(micros(500))), [50, 60, 70], "it spins");
}

#[test]
fn the_first_that_spins_is_not_passed_over_though_it_is_preempted() {
    let kind = LockKind::PvQueued(micros(1000));
    let mut lock = Lock::new(kind);
    assert!(lock.acquire(0) && !lock.acquire(1) && !lock.look(1) && !lock.acquire(2));
    let preempted = |_| Waiting::Preempted;
    assert_eq!((lock.release(0, preempted, |_| 0).tell, lock.holder), (None, None));
    assert!(!lock.acquire(3) && !lock.look(2) && !lock.look(3), "it is kept");
    assert!(lock.look(1));
    // The next one has not looked since it is the first: whoever comes is quicker.
    assert_eq!((lock.release(1, preempted, |_| 0).tell, lock.holder), (None, None));
    assert!(lock.acquire(4) && !lock.look(2));
    // Halted, it is told every time, and others come before it.
    lock.gives_way(2);
    let parked = |_| Waiting::Parked;
    for thief in 5..8 {
        assert_eq!(lock.release(thief - 1, parked, |_| 0).tell, Some(2));
        assert!(lock.acquire(thief));
    }
    assert_eq!(lock.report.taken, 6);
}

#[test]
fn a_mutex_lets_others_run_and_hands_itself_to_who_was_woken_in_vain() {
    // One virtual CPU: who waits sleeps, and the owner, which sleeps for a while, gets on when it wakes.
    let owner =
        vec![Op::Acquire(0), Op::SleepUntil(Time::ZERO + micros(100)), Op::Kernel(micros(5)), Op::Release(0)];
    let threads = vec![owner, section(0, 10), vec![Op::Work(micros(60))]];
    let world = World { cpus: 1, vcpus: 1, ..World::dedicated(LockKind::Mutex, threads) };
    let machine = done(&world);
    assert_eq!(spins(&machine), [0, 0, 0], "its owner does not run, so it sleeps at once");
    assert_eq!(ends(&machine), [105, 115, 60]);
    // Woken in vain: the next one that spins was quicker; then it is handed over, whoever spins.
    let mut lock = Lock::new(LockKind::Mutex);
    let spins = |_| Waiting::Spins;
    assert!(lock.acquire(0) && !lock.acquire(1));
    lock.sleeps(1);
    assert!(!lock.acquire(2));
    let released = lock.release(0, spins, |_| 0);
    assert_eq!((released.tell, released.wake, lock.holder), (Some(2), Some(1), Some(2)));
    assert!(!lock.acquire(3) && !lock.look(1), "woken in vain");
    let released = lock.release(2, spins, |_| 0);
    assert_eq!((released.wake, lock.holder), (Some(1), Some(1)));
}

#[test]
fn who_tells_the_host_pays_and_waits_longer_every_time() {
    // Telling costs 1 µs. Windows of 10 µs: it spins 10, pays 1, 10, 1 …; growing twofold: 10, 1, 20, 1, 40.
    let count = |exit_growth| {
        let costs = GuestCosts { exit: micros(1), exit_growth, ..GuestCosts::default() };
        let on_long_wait = OnLongWait::Help(micros(10));
        let threads = vec![section(0, 70), section(0, 1)];
        let world = World { on_long_wait, costs, ..World::dedicated(LockKind::Ticket, threads) };
        let machine = done(&world);
        assert_eq!(spins(&machine), [0, 70]);
        machine.report().events
    };
    assert!(count(2) < count(1), "fewer times, so fewer events");
}

#[test]
fn a_shoot_down_waits_for_who_is_preempted_unless_it_is_paravirtual() {
    // Two guests of two virtual CPUs on two CPUs, turns of 100 µs; the first thread asks at 50 µs of its own time.
    let asks = vec![Op::Work(micros(50)), Op::ShootDown, Op::Work(micros(10))];
    let works = vec![Op::Work(micros(500))];
    let took = |costs| {
        let world = World { costs, ..World::dedicated(LockKind::Ticket, vec![asks.clone(), works.clone()]) };
        spins(&done(&world))[0]
    };
    assert_eq!(took(GuestCosts::default()), 0);
    assert_eq!(took(GuestCosts { handle: micros(3), ..GuestCosts::default() }), 3);
    // One CPU for both: who asks runs, so the other one does not.
    let asks = [Op::Work(micros(30)), Op::ShootDown].repeat(12);
    let spun = |pv_flush| {
        let costs = GuestCosts { pv_flush, ..GuestCosts::default() };
        let world = World { costs, ..World::dedicated(LockKind::Ticket, vec![asks.clone(), works.clone()]) };
        let machine = done(&World { cpus: 1, ..world });
        spins(&machine)[0]
    };
    assert_eq!(spun(true), 0);
    assert!(spun(false) > 0, "until its turn is over");
}
