//! Builds the machine that a scenario describes. The scenario was checked: every number is within its bounds.

use super::names::Names;
use crate::guest::{Guest, GuestCosts, GuestPlan, LockKind, OnLongWait, ThreadPlan};
use crate::host::{CpuSet, Habits, Machine, Memory, Migration, Sharing, VcpuId, Vm, VmId};
use crate::random::Stream;
use crate::time::Span;
use crate::{policy, programs};
use model::scenario::{HelpSpec, HostSpec, LockKindSpec, LongWaitSpec, PolicySpec, Scenario, VmSpec};
use units::Micros;

/// The machine, before its first event. A scenario without a host gives one without VMs.
pub fn build(scenario: &Scenario, seed: u64) -> Machine {
    let names = Names::of(scenario);
    let cpus = scenario.host.as_ref().map_or(1, |host| host.cpus);
    let mhz = scenario.host.as_ref().map_or(1000, |host| host.mhz);
    let mut affinities = vec![CpuSet::first(cpus)];
    let (mut vms, mut guests, mut affinity_of) = (Vec::new(), Vec::new(), Vec::new());
    let dedicated: Vec<u32> = scenario.vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    let room = programs::room(
        (0..names.vms.len()).filter_map(|number| names.spec(scenario, number)).map(threads).sum(),
    );
    let mut first = 0;
    for number in 0..names.vms.len() {
        let Some(spec) = names.spec(scenario, number) else { continue };
        affinity_of.extend(places(spec, cpus, &dedicated, &mut affinities));
        let id = VmId(u32::try_from(number).unwrap_or(u32::MAX));
        let seed = Stream::new(seed, &[2, u64::from(id.0)]).seed();
        guests.push(Guest::new(guest(spec, (id, VcpuId(first)), mhz, seed, room)).with(costs(spec)));
        vms.push(Vm {
            first: VcpuId(first),
            count: spec.vcpus,
            weight: spec.weight,
            reserved_cpus: spec.reserved_cpus,
            limit_cpus: spec.limit_cpus,
            phase: spec.phase_us.map(micros),
        });
        first += spec.vcpus;
    }
    let policy = scenario.host.as_ref().map_or_else(
        || policy::make(&PolicySpec::PerThread { quantum_us: Micros::from_micros(1000) }, &names, scenario),
        |host| policy::make(&host.policy, &names, scenario),
    );
    let habits = scenario.host.as_ref().map(|host| habits(host, seed)).unwrap_or_default();
    let mut machine = Machine::new(cpus, vms, affinities, &affinity_of, guests, policy, habits);
    if let Some(host) = &scenario.host {
        machine.migrate_at(migration(host, &names, scenario));
        machine.share(sharing(host, &names, scenario));
    }
    machine
}

/// What migrations cost; an empty list where all are free.
fn migration(host: &HostSpec, names: &Names, scenario: &Scenario) -> Migration {
    let specs = (0..names.vms.len()).filter_map(|number| names.spec(scenario, number));
    let of_vm: Vec<Span> = specs.map(|vm| vm.migrate_ns.unwrap_or(host.migrate_ns).into()).collect();
    let is_free = of_vm.iter().all(|cost| cost.is_zero());
    Migration {
        of_vm: if is_free { Vec::new() } else { of_vm },
        group: host.cache_cpus,
        near: host.migrate_near_share,
    }
}

/// What the CPUs share.
fn sharing(host: &HostSpec, names: &Names, scenario: &Scenario) -> Sharing {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: between 0 and 1")]
    let billionths = (host.smt_speed * 1e9).round() as u64;
    let wants = |vm: usize| {
        let spec = names.spec(scenario, vm);
        let threads = spec.into_iter().flat_map(|spec| spec.threads.iter().map(move |thread| (spec, thread)));
        let each = threads.map(|(spec, thread)| (thread.count.unwrap_or(spec.vcpus), thread.memory_mb_s));
        each.flat_map(|(count, wants)| std::iter::repeat_n(wants, count as usize)).collect()
    };
    let memory = host.memory_mb_s.map(|bandwidth| Memory {
        bandwidth,
        nodes: host.memory_nodes,
        wants: (0..names.vms.len()).map(wants).collect(),
    });
    let smt = host.smt > 1;
    Sharing { smt, sibling: (smt && billionths < 1_000_000_000).then_some(billionths), memory }
}

fn habits(host: &HostSpec, seed: u64) -> Habits {
    Habits {
        switch: host.switch_ns.into(),
        help: match host.help {
            HelpSpec::None => None,
            HelpSpec::KernelFirst => Some(true),
            HelpSpec::Anyone => Some(false),
        },
        grace: micros(host.grace_us),
        staggered: host.is_staggered().then_some(seed),
    }
}

/// Which set of CPUs each virtual CPU of a VM may use, of those that are dedicated to nobody or to it; new sets are added to
/// the list.
fn places(spec: &VmSpec, cpus: u32, dedicated: &[u32], affinities: &mut Vec<CpuSet>) -> Vec<u32> {
    let allowed = spec.places(cpus, dedicated);
    let mut place = |set: CpuSet| {
        let at = affinities.iter().position(|known| *known == set).unwrap_or_else(|| {
            affinities.push(set);
            affinities.len() - 1
        });
        u32::try_from(at).unwrap_or(0)
    };
    if !spec.pinned {
        let at = place(allowed.into_iter().collect());
        return vec![at; spec.vcpus as usize];
    }
    allowed.into_iter().map(|cpu| place(std::iter::once(cpu).collect())).collect()
}

/// Threads of a VM.
fn threads(spec: &VmSpec) -> u64 {
    let counts = spec.threads.iter().map(|thread| u64::from(thread.count.unwrap_or(spec.vcpus)));
    counts.sum()
}

/// The guest of a VM, whose threads keep so many samples each.
fn guest(spec: &VmSpec, (vm, first): (VmId, VcpuId), mhz: u32, seed: u64, room: usize) -> GuestPlan {
    let threads = spec.threads.iter().flat_map(|thread| {
        let count = thread.count.unwrap_or(spec.vcpus);
        (0..count).map(|_| ThreadPlan {
            program: programs::make(&thread.run, spec.locks.count, room),
            priority: thread.priority,
            bound: thread.bound,
        })
    });
    let limit = cycles(spec.locks.long_wait_cycles, mhz);
    let patience = cycles(spec.locks.halt_cycles, mhz);
    GuestPlan {
        vm,
        first,
        vcpus: spec.vcpus,
        quantum: micros(spec.turn_us),
        threads: threads.collect(),
        locks: spec.locks.count,
        lock_kind: match spec.locks.kind {
            LockKindSpec::TestAndSet => LockKind::TestAndSet,
            LockKindSpec::UnfairQueued => LockKind::UnfairQueued,
            LockKindSpec::Ticket => LockKind::Ticket,
            LockKindSpec::Mcs => LockKind::Mcs,
            LockKindSpec::PvTicket => LockKind::PvTicket(patience),
            LockKindSpec::PvQueued => LockKind::PvQueued(patience),
            LockKindSpec::Mutex => LockKind::Mutex,
        },
        on_long_wait: match spec.locks.on_long_wait {
            LongWaitSpec::Spin => OnLongWait::Spin,
            LongWaitSpec::TellHost => OnLongWait::Help(limit),
            LongWaitSpec::Halt => OnLongWait::Halt(limit),
        },
        mhz,
        seed,
    }
}

fn costs(spec: &VmSpec) -> GuestCosts {
    let (locks, interrupts) = (&spec.locks, &spec.interrupts);
    GuestCosts {
        halt: locks.halt_ns.into(),
        kick: locks.kick_ns.into(),
        wake: locks.wake_ns.into(),
        exit: locks.exit_ns.into(),
        exit_growth: locks.exit_growth,
        line: locks.line_ns.into(),
        send: interrupts.send_ns.into(),
        handle: interrupts.handle_ns.into(),
        pv_flush: interrupts.pv_flush,
    }
}

/// So many cycles of spinning. A limit of no time would never let anybody spin.
fn cycles(count: u64, mhz: u32) -> Span {
    Span::from_nanos(count.saturating_mul(1000) / u64::from(mhz.max(1))).max(Span::from_nanos(1))
}

/// A length of time that somebody wrote down.
pub fn micros(micros: Micros) -> Span {
    Span::from_micros(micros.get())
}
