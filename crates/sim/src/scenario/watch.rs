//! One replication of a host that can be looked at on its way; its end is that of one nobody looked at.

use super::names::Names;
use super::{Replication, build, figures, response_bounds};
use crate::brake::Brake;
use crate::host::{Limits, Machine, Pause, State, Stopped, Vm};
use crate::time::{Span, Time};
use model::host_state::HostState;
use model::scenario::Scenario;

/// VMs of which it is said what they had, when somebody interrupts.
const NAMED: usize = 4;

/// A replication under way.
pub struct Watch<'a> {
    scenario: &'a Scenario,
    names: Names,
    machine: Machine,
    limits: Limits,
    stretches: usize,
}

impl<'a> Watch<'a> {
    /// Before its first event; so many stretches of who ran where will be kept.
    pub fn new(scenario: &'a Scenario, seed: u64, stretches: usize) -> Self {
        let mut machine = build(scenario, seed);
        machine.keep_trace(stretches);
        let limits = Limits {
            until: Time::ZERO + Span::from_secs(scenario.limits.simulated_s),
            events: scenario.limits.events,
            when_done: machine.guests().iter().any(|guest| guest.unfinished() > 0),
        };
        Self { scenario, names: Names::of(scenario), machine, limits, stretches }
    }

    /// Goes on up to a pause; says whether there is more to come.
    pub fn go_on(&mut self, pause: Pause) -> bool {
        self.machine.run_to(&self.limits, pause).is_none()
    }

    /// How many events were handled so far.
    pub const fn events(&self) -> u64 {
        self.machine.events()
    }

    /// What the host looks like at this moment, or at the last event if that is later.
    pub fn state(&self, at: Time) -> HostState {
        self.machine.state(at)
    }

    /// Names of the virtual CPUs, by number.
    pub fn vcpus(&self) -> Vec<String> {
        self.names.vcpus(self.scenario)
    }

    /// What was still waiting, and what each VM had until then, for whoever interrupts it here.
    pub fn interrupted(&self) -> String {
        let view = self.machine.view();
        let wall = view.now.since(Time::ZERO).as_f64().max(1.0);
        let of = |vm: &Vm| vm.vcpus().map(|vcpu| view.ran(vcpu).as_f64()).sum::<f64>() / wall;
        let had = view.vms.iter().zip(&self.names.vms).take(NAMED);
        let mut had: Vec<String> = had.map(|(vm, name)| format!("{name} {:.3}", of(vm))).collect();
        had.extend((view.vms.len() > NAMED).then(|| format!("{} more VMs", view.vms.len() - NAMED)));
        let waits = still_waiting("interrupted", &self.machine, &self.names);
        format!("{waits}; CPUs had so far: {}", had.join(", "))
    }

    /// Goes on to the end, or until the brake is pulled, and reads the figures off.
    pub fn finish(mut self, brake: &Brake) -> Replication {
        self.machine.stop_with(brake);
        let Some(stopped) = self.machine.run_to(&self.limits, Pause::NEVER) else {
            let (trouble, events) = (Some(self.interrupted()), self.machine.events());
            return Replication { trouble, events, interrupted: true, ..Replication::default() };
        };
        let Self { scenario, names, machine, limits, stretches } = self;
        let bounds = response_bounds::of(scenario);
        let figures = figures::of(&machine, &names, scenario, &bounds);
        let wrong = figures::above_their_bounds(&figures);
        Replication {
            notes: [figures::notes(&figures), figures::without_bounds(scenario, &bounds)].concat(),
            figures,
            waits: figures::waits(&machine, &names),
            time_line: (stretches > 0).then(|| figures::time_line(&machine, names.vcpus(scenario))),
            trouble: wrong.or_else(|| trouble(&stopped, &machine, &names, limits.when_done)),
            interrupted: false,
            events: machine.events(),
        }
    }
}

/// Why a simulation did not end as it should, and who still waited.
fn trouble(stopped: &Stopped, machine: &Machine, names: &Names, was_to_end: bool) -> Option<String> {
    let why = match stopped {
        Stopped::Done => return None,
        Stopped::Time if !was_to_end => return None,
        Stopped::Time => {
            "the stated time (limits.simulated_s) was over before every program had ended".to_owned()
        }
        Stopped::Events => "the stated number of events (limits.events) was used up".to_owned(),
        Stopped::Deadlock => "nothing will ever happen again: a deadlock".to_owned(),
        Stopped::Circles => "a program went round in circles without time going on".to_owned(),
        Stopped::Broken(words) => format!("the simulator is wrong: {words}"),
    };
    Some(still_waiting(&why, machine, names))
}

/// Why it ended, when, and who still waited for what.
fn still_waiting(why: &str, machine: &Machine, names: &Names) -> String {
    let waiting = machine
        .guests()
        .iter()
        .zip(&names.vms)
        .flat_map(|(guest, vm)| guest.waiting().into_iter().map(move |words| format!("{vm}: {words}")));
    let mut waiting: Vec<String> = waiting.take(4).collect();
    waiting.extend(without_a_cpu(machine, names));
    if waiting.is_empty() {
        waiting.push("nobody waits".to_owned());
    }
    format!("{why}; at {}: {}", machine.view().now, waiting.join("; "))
}

/// How many virtual CPUs are ready and have no CPU, and who has waited longest.
fn without_a_cpu(machine: &Machine, names: &Names) -> Option<String> {
    let view = machine.view();
    let ready = || view.vcpus.iter().filter(|vcpu| vcpu.state == State::Ready);
    let longest = ready().min_by_key(|vcpu| vcpu.since)?;
    let vm = names.vms.get(longest.vm.index()).map_or("?", |name| name.as_str());
    let (count, waited) = (ready().count(), view.now.since(longest.since));
    Some(format!("{count} virtual CPUs wait for a CPU, one of {vm} for {waited}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::scenario::cases;

    const TEXT: &str = "name = \"x\"\nlimits = { events = 1000 }\n[host]\ncpus = 2\npolicy = { name = \"equal-per-vm\", quantum_us = 50 }\n[[vm]]\nname = \"A\"\n\
                        vcpus = 4\nlocks = { count = 1, kind = \"ticket\" }\nthread = [{ count = 1, run = { program = \"endless\" } }, \
                        { count = 3, run = { program = \"compile\", work_us = 100000, between_ns = 2000, kernel_ns = 100, \
                        hold_ns = 5000, locks_per_entry = 1, hot_share = 1.0 } }]\n";

    #[test]
    fn who_was_handed_a_lock_while_it_had_no_cpu_is_not_said_to_wait_for_itself() {
        let mut handed = 0;
        for events in 100..600 {
            let put = [("limits.events".to_owned(), toml::Value::Integer(events))];
            let scenario = cases(TEXT, &put).unwrap().remove(0).scenario;
            let told = Watch::new(&scenario, 1, 0).finish(&Brake::default()).trouble.unwrap();
            for thread in 0..4 {
                assert!(
                    !told.contains(&format!("thread {thread} spins for lock 0 (held by thread {thread},")),
                    "{told}"
                );
            }
            assert!(!told.contains("itself"), "{told}");
            handed += u32::from(told.contains("was handed lock 0 and has not seen it: its virtual CPU"));
        }
        assert!(handed > 0);
    }
}
