//! `SCHED_DEADLINE` against a brute force: the rules of the kernel's documentation, looked at from step to step for everybody,
//! written for itself; and against cases that can be computed by hand.

use std::fmt::Write as _;

use super::{ENDLESS, host, machine, run, shares, vm};
use crate::host::{Limits, Machine, Stopped};
use crate::random::Stream;
use crate::scenario::build;
use crate::time::{Span, Time};
use model::scenario::Scenario;

/// A virtual CPU with one task, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Server {
    budget: i64,
    period: i64,
    deadline: i64,
    work: i64,
    every: i64,
    offset: i64,
    jobs: i64,
}

impl Server {
    fn in_nanos(&self) -> Self {
        let Self { budget, period, deadline, work, every, offset, jobs } = *self;
        let [budget, period, deadline, work, every, offset] =
            [budget, period, deadline, work, every, offset].map(|micros| micros * 1000);
        Self { budget, period, deadline, work, every, offset, jobs }
    }
}

/// What one does; nanoseconds.
#[derive(Debug, Clone)]
struct State {
    left: i64,
    due: i64,
    wait_until: Option<i64>,
    job_left: i64,
    done: Vec<i64>,
    was_active: bool,
}

impl State {
    fn wake(&mut self, of: &Server, now: i64) {
        let next = self.due - of.deadline + of.period;
        if self.wait_until.is_some() {
            return;
        }
        if of.deadline < of.period && self.due < now && now < next {
            (self.left, self.wait_until) = (0, Some(next));
        } else if self.due < now || self.left * of.deadline > (self.due - now) * of.budget {
            if of.deadline < of.period && self.due >= now {
                self.left = (self.due - now) * of.budget / of.deadline;
                self.wait_until = (self.left == 0).then_some(next);
            } else {
                (self.due, self.left) = (now + of.deadline, of.budget);
            }
        }
    }

    fn replenish(&mut self, of: &Server, now: i64) {
        self.wait_until = None;
        self.due += of.period;
        self.left = of.budget;
        if self.due < now {
            self.due = now + of.deadline;
        }
    }
}

/// Ends of all jobs of each, up to `horizon`; none where it hangs on a tie who runs.
fn brute(servers: &[Server], cpus: usize, horizon: i64) -> Option<Vec<Vec<i64>>> {
    let servers: Vec<Server> = servers.iter().map(Server::in_nanos).collect();
    // Everybody comes up at the beginning, and sleeps at once.
    let fresh = |of: &Server| State {
        left: of.budget,
        due: of.deadline,
        wait_until: None,
        job_left: 0,
        done: Vec::new(),
        was_active: false,
    };
    let mut states: Vec<State> = servers.iter().map(fresh).collect();
    let mut now = 0;
    while now < horizon {
        // Nothing changes before then.
        let mut next = horizon;
        let mut ready: Vec<usize> = Vec::new();
        for (number, (state, of)) in states.iter_mut().zip(&servers).enumerate() {
            if state.wait_until.is_some_and(|until| until <= now) {
                state.replenish(of, now);
            }
            let begun = i64::try_from(state.done.len()).unwrap();
            let arrival = of.offset + begun * of.every;
            if state.job_left == 0 && begun < of.jobs {
                state.job_left = if arrival <= now { of.work } else { 0 };
                next = if arrival > now { next.min(arrival) } else { next };
            }
            if state.job_left > 0 && !state.was_active {
                state.wake(of, now);
            }
            state.was_active = state.job_left > 0;
            next = next.min(state.wait_until.unwrap_or(horizon));
            if state.job_left > 0 && state.wait_until.is_none() {
                ready.push(number);
            }
        }
        ready.sort_by_key(|number| states[*number].due);
        if ready.len() > cpus && states[ready[cpus - 1]].due == states[ready[cpus]].due {
            return None;
        }
        ready.truncate(cpus);
        let running = || ready.iter().map(|number| &states[*number]);
        let step = running().map(|state| state.left.min(state.job_left)).fold(next - now, i64::min);
        now += step;
        for number in ready {
            let (state, of) = (&mut states[number], &servers[number]);
            state.left -= step;
            state.job_left -= step;
            if state.job_left == 0 {
                state.done.push(now);
            }
            if state.left == 0 {
                state.wait_until = Some(state.due - of.deadline + of.period);
            }
        }
    }
    Some(states.into_iter().map(|state| state.done).collect())
}

fn random(number: u64) -> (Vec<Server>, usize) {
    let mut random = Stream::new(number, &[20]);
    let mut up_to = |most: i64| 1 + i64::try_from(random.below(u64::try_from(most).unwrap())).unwrap();
    let cpus = usize::try_from(up_to(3)).unwrap();
    let constrained = number.is_multiple_of(3);
    let mut free = 0.95 * cpus as f64;
    let mut servers = Vec::new();
    for _ in 0..=up_to(6) {
        let period = 100 + up_to(600);
        let budget = up_to(period / 2);
        free -= budget as f64 / period as f64;
        if free <= 0.0 {
            break;
        }
        let deadline = if constrained { budget + up_to(period - budget + 1) - 1 } else { period };
        let every = 50 + up_to(900);
        let work = up_to(every.min(300) * 7 / 10);
        servers.push(Server { budget, period, deadline, work, every, offset: up_to(300), jobs: 12 });
    }
    (servers, cpus)
}

fn scenario(servers: &[Server], cpus: usize) -> String {
    let mut text = format!("name = \"x\"\n[host]\ncpus = {cpus}\npolicy = {{ name = \"deadline\" }}\n");
    for (number, of) in servers.iter().enumerate() {
        let Server { budget, period, deadline, work, every, offset, jobs } = of;
        let _ = write!(
            text,
            "[[vm]]\nname = \"V{number}\"\nvcpus = 1\nbudget_us = {budget}\nperiod_us = {period}\ndeadline_us = {deadline}\n\
             thread = [{{ run = {{ program = \"periodic\", period_us = {every}, work_us = {work}, offset_us = {offset}, \
             jobs = {jobs} }} }}]\n"
        );
    }
    text
}

fn responses(machine: &Machine, of: &Server, vm: usize) -> Vec<i64> {
    let samples = &machine.guests()[vm].threads()[0].seen.samples;
    let of = of.in_nanos();
    let end = |(job, span): (i64, &Span)| of.offset + job * of.every + i64::try_from(span.nanos()).unwrap();
    (0..).zip(samples).map(end).collect()
}

#[test]
fn every_job_ends_when_a_brute_force_of_the_kernels_rules_says() {
    let (mut same, mut jobs, mut ties) = (0, 0, 0);
    for number in 0..400 {
        let (servers, cpus) = random(number);
        let horizon = 60_000_000;
        let Some(right) = brute(&servers, cpus, horizon) else {
            ties += 1;
            continue;
        };
        let text = scenario(&servers, cpus);
        let scenario: Scenario = toml::from_str(&text).unwrap();
        // A backlog may grow: that is refused only where it is so on the whole CPU.
        scenario.check().unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        let mut machine = build(&scenario, 1);
        machine.check_everything();
        let until = Time::ZERO + Span::from_micros(60_000);
        let stopped = machine.run(&Limits { until, events: u64::MAX, when_done: false });
        assert_eq!(stopped, Stopped::Time, "{text}");
        for (vm, (of, right)) in servers.iter().zip(&right).enumerate() {
            assert_eq!(&responses(&machine, of, vm), right, "VM {vm} of case {number}: {text}");
            jobs += right.len();
        }
        same += 1;
    }
    assert!(same > 300 && jobs > 10_000, "{same} cases, {jobs} jobs; {ties} hang on ties");
}

#[test]
fn who_has_used_up_its_budget_waits_even_beside_an_idle_cpu_and_the_rest_share_by_weight() {
    let policy = "name = \"deadline\"";
    let server = "budget_us = 2000\nperiod_us = 10000";
    let mut alone = machine(&(host(2, policy) + &vm("A", 1, server, ENDLESS)));
    run(&mut alone, Span::from_secs(1));
    assert_eq!(shares(&alone), [0.2]);
    let rest = vm("B", 1, "weight = 3.0", ENDLESS) + &vm("C", 1, "", ENDLESS);
    let mut all = machine(&(host(1, policy) + &vm("A", 2, server, ENDLESS) + &rest));
    run(&mut all, Span::from_secs(2));
    for (got, right) in shares(&all).iter().zip([0.4, 0.45, 0.15]) {
        assert!((got - right).abs() < 0.01, "{:?}", shares(&all));
    }
}

#[test]
fn who_wakes_with_too_much_budget_for_the_time_left_gets_a_new_deadline() {
    // 2 ms per 10 ms. Runs 1 ms from 0, sleeps until 9 ms: the 1 ms left is more than 20 % of the 1 ms to its deadline, so it has
    // 2 ms until 19 ms, and then waits until 19 ms for the third of its 3 ms.
    let policy = "name = \"deadline\"";
    let task = "program = \"periodic\", period_us = 9000, work_us = 1000, jobs = 1";
    let late = "program = \"periodic\", period_us = 40000, offset_us = 9000, work_us = 3000, jobs = 1";
    let text = format!(
        "[[vm]]\nname = \"A\"\nvcpus = 1\nbudget_us = 2000\nperiod_us = 10000\nthread = [{{ run = {{ {task} }} }}, {{ run = {{ {late} }} }}]\n"
    );
    let mut woken = machine(&(host(1, policy) + &text));
    run(&mut woken, Span::from_millis(60));
    let threads = woken.guests()[0].threads();
    assert_eq!(threads[0].seen.samples, [Span::from_millis(1)]);
    assert_eq!(threads[1].seen.samples, [Span::from_millis(11)]);
}

#[test]
fn more_than_the_kernel_admits_is_refused() {
    let said = |budget: u32, more: &str| {
        let text = format!(
            "name = \"x\"\n[host]\ncpus = 2\npolicy = \"deadline\"\n[[vm]]\nname = \"A\"\nvcpus = 2\nbudget_us = {budget}\n{more}\n\
             thread = [{{ run = {{ program = \"endless\" }} }}]\n"
        );
        model::scenario::cases(&text, &[]).map(|_| ()).map_err(|error| error.to_string())
    };
    let period = "period_us = 10000";
    assert_eq!(said(9500, period), Ok(()));
    let refused = said(9501, period).unwrap_err();
    assert!(refused.contains("vm.A.budget_us") || refused.contains("vm.0.budget_us"), "{refused}");
    assert!(refused.contains("1.900 CPUs, and Linux admits 95 % of 2 CPUs, 1.90"), "{refused}");
    assert!(said(10, "").unwrap_err().contains("or neither"));
    assert!(said(10, &format!("{period}\nlimit_cpus = 1.0")).unwrap_err().contains("has none"));
    assert!(said(10, &format!("{period}\nweight = 2.0")).unwrap_err().contains("has none"));
    assert!(said(3000, &format!("{period}\ndeadline_us = 2000")).unwrap_err().contains("1 to 2000"));
}
