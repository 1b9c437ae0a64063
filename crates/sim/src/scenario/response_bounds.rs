//! What is proven of the responses of a scenario's real-time tasks, beside what is simulated: the host as a supply, the guest as tasks
//! with fixed priorities (`bounds`). A bound holds for every phase and every draw; a response above it is a defect of ours.
//!
//! ```text
//!  host, policy, who may run where ─► supply of a VM with one virtual CPU ─┐
//!                                                                          ├─► bound per task, or why there is none
//!  its threads: tasks, and what is less important than they are ───────────┘
//! ```

use bounds::{Longest, NoGuarantee, Supply, Task, Window, admission, fixed_priority};

use model::scenario::{
    HostSpec, PolicySpec, ProgramSpec, Scenario, TableCell, TaskSpec, ThreadSpec, VmSpec, table,
};
use units::{Micros, Nanos, Reason};

/// Servers of one CPU that are looked at together.
const MOST_SERVERS: usize = 1000;

/// What is proven of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proven {
    /// No job takes longer.
    pub(super) response: Nanos,
    /// Some phase and draw reaches it; else the worst case may be less.
    pub(super) is_exact: bool,
}

/// The bound of a task, or why there is none.
type Bound = Result<Proven, Reason>;

/// The bound of the tasks of an entry of threads, by its number.
pub(super) type TaskBound = (usize, Bound);

/// Those of an entry of VMs, whose copies are alike.
pub(super) type VmBounds = Vec<TaskBound>;

/// Bounds of the tasks of each entry of VMs.
pub(super) fn of(scenario: &Scenario) -> Vec<VmBounds> {
    scenario.vms.iter().map(|vm| of_vm(scenario, vm)).collect()
}

fn of_vm(scenario: &Scenario, vm: &VmSpec) -> VmBounds {
    let is_task = |entry: &&(usize, &ThreadSpec)| matches!(entry.1.run, ProgramSpec::Periodic(_));
    let entries: Vec<(usize, &ThreadSpec)> = vm.threads.iter().enumerate().collect();
    let of_entries = |why: Reason| {
        let all = entries.iter().filter(is_task);
        all.map(|(entry, _)| (*entry, Err(why.clone()))).collect::<Vec<_>>()
    };
    if !entries.iter().any(|entry| is_task(&entry)) {
        return Vec::new();
    }
    let supply = match supply(scenario, vm) {
        Ok(supply) => supply,
        Err(why) => return of_entries(why),
    };
    match tasks(vm) {
        Err(why) => of_entries(why),
        Ok(tasks) => responses(vm, &tasks, &supply, gets_no_more(scenario, vm)),
    }
}

/// A thread of a task: its entry, and what it is for the analysis.
type Thread = (usize, Task);

fn responses(vm: &VmSpec, threads: &[Thread], supply: &Supply, gets_no_more: bool) -> VmBounds {
    let tasks: Vec<Task> = threads.iter().map(|(_, task)| *task).collect();
    let mut all = VmBounds::new();
    for ((entry, _), longest) in threads.iter().zip(fixed_priority::responses(&tasks, supply)) {
        let own = vm.threads.get(*entry);
        // What works all along beside it, and is as important, is none of the tasks that the analysis knows.
        let is_beside = |other: &ThreadSpec| {
            !matches!(other.run, ProgramSpec::Periodic(_))
                && own.is_some_and(|own| other.priority >= own.priority)
        };
        let bound = if vm.threads.iter().any(is_beside) {
            Err("something that is no task is as important as it".into())
        } else {
            let proven = |longest: Longest| Proven {
                response: longest.response,
                is_exact: longest.is_reached
                    && gets_no_more
                    && own.is_some_and(|own| goes_on(vm, own, longest.response)),
            };
            longest.map(proven).map_err(|why| why.to_string().into())
        };
        // Threads of one entry are alike.
        if all.iter().all(|(known, _)| known != entry) {
            all.push((*entry, bound));
        }
    }
    all
}

/// Whether a VM that has a supply has nothing beside it, whatever the others do: budgets are also served before they have to be, what
/// others leave may be dealt out.
fn gets_no_more(scenario: &Scenario, vm: &VmSpec) -> bool {
    let Some(host) = &scenario.host else { return false };
    match &host.policy {
        PolicySpec::Slots { yield_when_idle, .. } => {
            !yield_when_idle && (host.cpus == 1 || !host.is_staggered())
        }
        PolicySpec::Table { second_level_us, .. } => second_level_us.get() == 0 || vm.capped,
        policy => !is_bound_to_time(policy),
    }
}

/// Whether the task of these threads, and all that are more urgent, have jobs for as long as the longest response takes, and
/// finish them. Where it is longer than the period, an earlier job is part of it, and nothing is said.
fn goes_on(vm: &VmSpec, own: &ThreadSpec, response: Nanos) -> bool {
    let is_there = |thread: &ThreadSpec| match &thread.run {
        ProgramSpec::Periodic(task) => {
            !task.abort && nanos(task.period_us).get().saturating_mul(task.jobs.into()) >= response.get()
        }
        _ => true,
    };
    let ends_within = matches!(&own.run, ProgramSpec::Periodic(task) if response <= nanos(task.period_us));
    ends_within && vm.threads.iter().filter(|other| other.priority >= own.priority).all(is_there)
}

fn nanos(time: Micros) -> Nanos {
    Nanos::from_nanos(time.get().saturating_mul(1000))
}

fn tasks(vm: &VmSpec) -> Result<Vec<Thread>, Reason> {
    let has_kernel =
        |thread: &ThreadSpec| matches!(thread.run, ProgramSpec::Compile { .. } | ProgramSpec::Unmap { .. });
    if vm.threads.iter().any(has_kernel) {
        return Err("its kernel makes tasks wait, for how long is drawn".into());
    }
    let mut threads = Vec::new();
    for (entry, thread) in vm.threads.iter().enumerate() {
        let ProgramSpec::Periodic(spec) = &thread.run else { continue };
        let task = task(spec, thread.priority).map_err(|wrong| Reason::from(wrong.to_string()))?;
        let count = thread.count.unwrap_or(vm.vcpus) as usize;
        threads.extend(std::iter::repeat_n((entry, task), count));
    }
    Ok(threads)
}

fn task(spec: &TaskSpec, priority: u8) -> Result<Task, bounds::Malformed> {
    let task = Task::new(nanos(spec.work_us), nanos(spec.period_us))?;
    Ok(task
        .with_deadline(nanos(spec.deadline_us()))
        .with_jitter(nanos(spec.jitter_us))
        .with_priority(priority.into()))
}

/// What a VM with one virtual CPU can count on.
fn supply(scenario: &Scenario, vm: &VmSpec) -> Result<Supply, Reason> {
    let Some(host) = &scenario.host else { return Err("there is no host".into()) };
    if vm.vcpus > 1 {
        return Err("it has several virtual CPUs, for which there is no exact analysis".into());
    }
    if !host.switch_ns.get().eq(&0) {
        return Err("switches take time (host.switch_ns), which is no part of the analysis".into());
    }
    if vm.migrate_ns.unwrap_or(host.migrate_ns).get() > 0 {
        return Err("migrations take time (migrate_ns), which is no part of the analysis".into());
    }
    if host.smt > 1 || host.memory_mb_s.is_some() {
        return Err(
            "CPUs slow each other (host.smt, host.memory_mb_s), which is no part of the analysis".into()
        );
    }
    if vm.limit_cpus.is_some() {
        return Err("it has a limit (limit_cpus), whose period begins anywhere".into());
    }
    if has_a_cpu(scenario, vm, host.cpus) && !is_bound_to_time(&host.policy) {
        return Ok(Supply::whole_cpu());
    }
    if host.grace_us.get() > 0 {
        return Err(
            "who holds a lock is left on beyond its time (host.grace_us), which is no part of the analysis"
                .into(),
        );
    }
    let wrong = |malformed: bounds::Malformed| Reason::from(malformed.to_string());
    match &host.policy {
        PolicySpec::Slots { slot_us, round, dynamic: None, .. } => {
            let own: Vec<bool> = round.iter().map(|name| *name == vm.name).collect();
            if vm.count > 1 {
                return Err("its copies share its slots".into());
            }
            Supply::slots(nanos(*slot_us), &own).map_err(wrong)
        }
        PolicySpec::Rtds {} if host.cpus == 1 => {
            let (Some(budget), Some(period)) = (vm.budget_us, vm.period_us) else {
                return Err("it has no budget".into());
            };
            servers(scenario)
                .ok_or("budgets that are kept for later may meet, and then do not fit onto the CPU")?;
            Supply::periodic(nanos(period), nanos(budget)).map_err(wrong)
        }
        PolicySpec::Rtds {} => Err(NoGuarantee::Global.to_string().into()),
        PolicySpec::Deadline { .. } => {
            let (Some(budget), Some(period)) = (vm.budget_us, vm.period_us) else {
                return Err("it has no budget, and gets what the others leave".into());
            };
            reservations(scenario, vm, host.cpus)?;
            Supply::reservation(nanos(budget), nanos(period), nanos(vm.deadline_us.unwrap_or(period)))
                .map_err(wrong)
        }
        PolicySpec::Table { .. } => of_table(host, scenario, vm),
        PolicySpec::Credit { .. } => Err(NoGuarantee::Credit.to_string().into()),
        _ => Err(NoGuarantee::NotProven.to_string().into()),
    }
}

/// Whether a policy keeps CPUs idle while somebody waits.
const fn is_bound_to_time(policy: &PolicySpec) -> bool {
    matches!(
        policy,
        PolicySpec::Slots { .. }
            | PolicySpec::Rtds {}
            | PolicySpec::Deadline { .. }
            | PolicySpec::Table { .. }
    )
}

/// Whether there is always a CPU for it: as many CPUs as virtual ones that may use them.
fn has_a_cpu(scenario: &Scenario, vm: &VmSpec, cpus: u32) -> bool {
    if vm.dedicated {
        return vm.count == 1 && vm.cpus.as_ref().is_some_and(|own| own.len() >= vm.vcpus as usize);
    }
    let is_free = scenario.vms.iter().all(|other| other.cpus.is_none() && !other.pinned);
    let wanted = scenario.vms.iter().map(|other| u64::from(other.vcpus) * u64::from(other.count));
    is_free && wanted.sum::<u64>() <= u64::from(cpus)
}

/// The only CPU that a VM may use.
fn only_cpu(vm: &VmSpec, cpus: u32) -> Option<u32> {
    match vm.cpus.as_deref() {
        Some([cpu]) => Some(*cpu),
        None if cpus == 1 => Some(0),
        _ => None,
    }
}

/// Whether the servers that may use a VM's only CPU are bound to it, and fit together.
fn reservations(scenario: &Scenario, vm: &VmSpec, cpus: u32) -> Result<(), Reason> {
    let global = || Reason::from(NoGuarantee::Global.to_string());
    let own = only_cpu(vm, cpus).ok_or_else(global)?;
    let mut servers = Vec::new();
    for spec in &scenario.vms {
        let (Some(budget), Some(period)) = (spec.budget_us, spec.period_us) else { continue };
        match only_cpu(spec, cpus) {
            Some(cpu) if cpu != own => continue,
            Some(_) => {}
            None if spec.cpus.as_ref().is_some_and(|cpus| !cpus.contains(&own)) => continue,
            None => return Err(global()),
        }
        let count = spec.vcpus as usize * spec.count as usize;
        if servers.len() + count > MOST_SERVERS {
            return Err("there are too many servers on its CPU".into());
        }
        let server = Task::new(nanos(budget), nanos(period));
        let server = server.map_err(|wrong| Reason::from(wrong.to_string()))?;
        servers.extend(std::iter::repeat_n(
            server.with_deadline(nanos(spec.deadline_us.unwrap_or(period))),
            count,
        ));
    }
    let fit = admission::reservations(&servers).is_schedulable();
    fit.then_some(()).ok_or_else(|| "the servers of its CPU do not all fit together".into())
}

/// The cells of a VM with one virtual CPU, wherever they are.
fn of_table(host: &HostSpec, scenario: &Scenario, vm: &VmSpec) -> Result<Supply, Reason> {
    if vm.count > 1 {
        return Err("its copies have cells of their own; write them as VMs of their own".into());
    }
    let before = scenario.vms.iter().take_while(|other| other.name != vm.name);
    let number: usize = before.map(|other| other.count as usize).sum();
    let planned = table(host, &scenario.vms).map_err(|wrong| Reason::from(wrong.to_string()))?;
    let planned = planned.ok_or("there is no table")?;
    let cells = planned.cpus.iter().flatten().filter(|cell| cell.vm == number);
    let window = |cell: &TableCell| Window { start: cell.from, length: cell.to.saturating_sub(cell.from) };
    let windows: Vec<Window> = cells.map(window).collect();
    if windows.is_empty() {
        return Err("it has no cells, and gets what is left".into());
    }
    Supply::table(planned.length, &windows).map_err(|wrong| wrong.to_string().into())
}

/// Whether all servers of one CPU fit together.
fn servers(scenario: &Scenario) -> Option<()> {
    let mut servers = Vec::new();
    for spec in &scenario.vms {
        let count = spec.vcpus as usize * spec.count as usize;
        if servers.len() + count > MOST_SERVERS {
            return None;
        }
        let server = Task::new(nanos(spec.budget_us?), nanos(spec.period_us?)).ok()?;
        servers.extend(std::iter::repeat_n(server, count));
    }
    admission::deferrable(&servers).is_schedulable().then_some(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::Figure;
    use super::super::run;
    use crate::brake::Brake;
    use crate::random::Stream;
    use model::scenario::cases;

    const SLOTS: &str = r#"{ name = "slots", slot_us = 2000, round = ["A", "B", "A", "C"] }"#;

    /// With a second level, which gives more than is proven.
    const TABLE: &str = "{ name = \"table\", length_us = 10000, second_level_us = 500, cell = [\
                         { cpu = 0, vm = \"A\", from_us = 0, to_us = 2000 }, { cpu = 0, vm = \"B\", from_us = 2500, to_us = 5000 }, \
                         { cpu = 0, vm = \"A\", vcpu = 0, from_us = 5000, to_us = 6000 }, { cpu = 0, vm = \"C\", from_us = 8000, to_us = 10000 }] }";

    fn simulated(text: &str) -> (Vec<Figure>, Option<String>, Vec<String>) {
        let scenario = cases(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}")).remove(0).scenario;
        let replication = run(&scenario, scenario.seed, 0, None, &Brake::default());
        (replication.figures, replication.trouble, replication.notes)
    }

    fn value(figures: &[Figure], id: &str) -> Option<f64> {
        figures.iter().find(|figure| figure.id == id).map(|figure| figure.value)
    }

    /// Up to three tasks that use half of a CPU at most, all of them different in priority.
    fn tasks(random: &mut Stream, phases: bool) -> String {
        let mut text = String::new();
        for priority in 0..=random.below(3) {
            let period = 5000 + 1000 * random.below(30);
            let work = 100 + random.below(period / 8);
            let (offset, jitter) = if phases { (random.below(period), random.below(1000)) } else { (0, 0) };
            let _ = write!(
                text,
                "{{ priority = {priority}, run = {{ program = \"periodic\", period_us = {period}, work_us = {work}, offset_us = {offset}, \
                 jitter_us = {jitter}, jobs = 40 }} }}, "
            );
        }
        text
    }

    fn scenario(policy: &str, servers: [&str; 3], random: &mut Stream, phases: bool) -> String {
        let mut text =
            format!("name = \"x\"\nseed = {}\n[host]\ncpus = 1\npolicy = {policy}\n", random.below(1000));
        for (name, server) in ["A", "B", "C"].iter().zip(servers) {
            let threads = tasks(random, phases);
            let _ = write!(text, "[[vm]]\nname = \"{name}\"\nvcpus = 1\n{server}\nthread = [{threads}]\n");
        }
        text
    }

    #[test]
    fn no_task_is_ever_later_than_its_bound() {
        let (mut random, mut with, mut without) = (Stream::new(5, &[0]), 0, 0);
        let deadline = [(2000, 10_000, 10_000), (1000, 8000, 4000), (1500, 20_000, 20_000)].map(
            |(budget, period, deadline)| {
                format!("budget_us = {budget}\nperiod_us = {period}\ndeadline_us = {deadline}")
            },
        );
        let tableau = [
            "reserved_cpus = 0.4\nlatency_us = 20000",
            "reserved_cpus = 0.25\nlatency_us = 5000",
            "reserved_cpus = 0.2\nlatency_us = 30000",
        ];
        for turn in 0..800 {
            let rtds = [(2000, 10_000), (1000, 8000), (1500, 20_000)].map(|(budget, period)| {
                let phase = random.below(period);
                format!("budget_us = {budget}\nperiod_us = {period}\nphase_us = {phase}")
            });
            let text = match turn % 5 {
                0 => scenario(SLOTS, [""; 3], &mut random, true),
                1 => scenario("\"rtds\"", rtds.each_ref().map(String::as_str), &mut random, true),
                // Who has no budget takes what is left: no bound for it.
                2 => scenario("\"deadline\"", deadline.each_ref().map(String::as_str), &mut random, true),
                3 => {
                    let policy = ["\"table\"", TABLE][usize::from(turn % 2 == 0)];
                    let needs = if policy == TABLE { [""; 3] } else { tableau };
                    scenario(policy, needs, &mut random, true)
                }
                // One VM alone has the CPU whole.
                _ => {
                    let threads = tasks(&mut random, true);
                    format!(
                        "name = \"x\"\n[host]\ncpus = 1\npolicy = \"credit\"\n[[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{threads}]\n"
                    )
                }
            };
            let Ok(mut all) = cases(&text, &[]) else { continue };
            let scenario = all.remove(0).scenario;
            let replication = run(&scenario, scenario.seed, 0, None, &Brake::default());
            let told = replication.trouble.filter(|trouble| trouble.contains("later than its bound"));
            assert_eq!(told, None, "{text}");
            let is = |id: &str, what: &str| id.ends_with(what);
            with += replication.figures.iter().filter(|figure| is(&figure.id, ".response_bound_ns")).count();
            without += replication.figures.iter().filter(|figure| is(&figure.id, ".deadline_ns")).count();
        }
        assert!(with > 600 && with * 2 > without, "{with} of {without} tasks have a bound");
    }

    #[test]
    fn released_at_once_on_a_whole_cpu_the_bound_is_reached() {
        let mut random = Stream::new(6, &[0]);
        for _ in 0..100 {
            let threads = tasks(&mut random, false);
            let (figures, trouble, notes) = simulated(&format!(
                "name = \"x\"\n[host]\ncpus = 1\npolicy = \"eevdf\"\n[[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{threads}]\n"
            ));
            assert_eq!((trouble, notes.len()), (None, 0));
            for task in 0..4 {
                let of = |what: &str| value(&figures, &format!("vm.A.thread.{task}.{what}"));
                assert_eq!(of("response_max_ns"), of("response_bound_ns"), "{threads}");
            }
            let bounds = figures.iter().filter_map(|figure| figure.is_exact);
            assert!(bounds.clone().count() > 0 && bounds.min() == Some(true), "{figures:?}");
        }
    }

    /// One that is called exact is reached by an offset; the others need not be.
    #[test]
    fn a_bound_is_called_exact_only_where_it_is_reached() {
        let budgets = ["budget_us = 2000\nperiod_us = 10000"; 2];
        let yields = SLOTS.replace("slot_us", "yield_when_idle = true, slot_us");
        let table = TABLE.replace("second_level_us = 500, ", "");
        let task = "priority = 1, run = { program = \"periodic\", period_us = 40000, work_us = 1500, jobs = 3, offset_us = 0 }";
        for (policy, of_vm, task, wanted) in [
            (SLOTS, ["", ""], task.to_owned(), true),
            (yields.as_str(), ["", ""], task.to_owned(), false),
            (table.as_str(), ["", ""], task.to_owned(), true),
            (TABLE, ["", ""], task.to_owned(), false),
            (TABLE, ["capped = true", ""], task.to_owned(), true),
            ("\"rtds\"", budgets, task.to_owned(), false),
            ("\"deadline\"", budgets, task.to_owned(), false),
            // It ends before it can be late, or is not finished.
            (
                SLOTS,
                ["", ""],
                task.replace("40000", "2500").replace("work_us = 1500", "work_us = 1000"),
                false,
            ),
            (SLOTS, ["", ""], task.replace("offset_us", "abort = true, offset_us"), false),
        ] {
            let of = |offset: u32| {
                let task = task.replace("offset_us = 0", &format!("offset_us = {offset}"));
                let vm = |name: &str, more: &str, thread: &str| {
                    format!("[[vm]]\nname = \"{name}\"\nvcpus = 1\n{more}\nthread = [{{ {thread} }}]\n")
                };
                let others = "run = { program = \"io\", work_us = 10, wait_us = 1000, rounds = 50 }";
                let host = format!("name = \"x\"\n[host]\ncpus = 1\npolicy = {policy}\n");
                let vms = vm("A", of_vm[0], &task) + &vm("B", of_vm[1], others) + &vm("C", of_vm[1], others);
                simulated(&(host + &vms)).0
            };
            let figures = of(0);
            let bound = figures.iter().find(|figure| figure.id.ends_with(".response_bound_ns")).unwrap();
            assert_eq!(bound.is_exact, Some(wanted), "{policy} {of_vm:?} {task}");
            let worst = (0..10_000)
                .step_by(500)
                .filter_map(|offset| value(&of(offset), "vm.A.thread.0.response_max_ns"));
            let worst = worst.fold(0.0, f64::max);
            assert!(!wanted || (worst - bound.value).abs() < 1.0, "{policy}: {worst} of {}", bound.value);
        }
    }

    #[test]
    fn where_there_is_no_bound_it_says_why() {
        let vm = |name: &str, more: &str| {
            format!(
                "[[vm]]\nname = \"{name}\"\nvcpus = 1\n{more}\nthread = [{{ run = {{ program = \"periodic\", period_us = 10000, \
                 work_us = 1000, jobs = 5 }} }}]\n"
            )
        };
        let why = |policy: &str, host: &str, [of_a, of_b]: [&str; 2]| {
            let host = format!("name = \"x\"\n[host]\ncpus = 1\npolicy = {policy}\n{host}\n");
            let (figures, _, notes) = simulated(&(host + &vm("A", of_a) + &vm("B", of_b)));
            assert_eq!(value(&figures, "vm.A.thread.0.response_bound_ns"), None, "{notes:?}");
            notes.into_iter().next().unwrap_or_default()
        };
        for (policy, host, more, wanted) in [
            ("\"credit\"", "", ["", ""], "credit scheduler"),
            ("\"eevdf\"", "", ["", ""], "nobody has proven"),
            ("\"eevdf\"", "switch_ns = 100", ["", ""], "switches take time"),
            // Half of the CPU each, and yet budgets that are kept meet.
            (
                "\"rtds\"",
                "",
                ["budget_us = 2000\nperiod_us = 4000", "budget_us = 3000\nperiod_us = 6000"],
                "may meet",
            ),
            ("\"eevdf\"", "", ["limit_cpus = 0.5", "limit_cpus = 0.5"], "limit"),
        ] {
            let why = why(policy, host, more);
            assert!(why.contains(wanted), "{policy}: {why}");
        }
    }
}
