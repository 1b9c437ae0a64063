//! Random tasks and supplies, small enough for brute force.

use bounds::{Supply, Task, Window};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Nanos;

pub type Rng = Xoshiro256PlusPlus;

pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

pub fn ns(ticks: u64) -> Nanos {
    Nanos::from_nanos(ticks)
}

pub fn signed(ticks: u64) -> i64 {
    i64::try_from(ticks).unwrap()
}

/// Two to four tasks of all kinds; every other set without jitter.
pub fn tasks(rng: &mut Rng) -> Vec<Task> {
    let many = rng.random_range(2..5);
    let has_jitter = rng.random_range(0..2) == 1;
    let mut priorities: Vec<u32> = (0..many).collect();
    (0..many)
        .map(|_| {
            let period = rng.random_range(4..25);
            let execution = rng.random_range(1..=(period / u64::from(many)).max(1));
            let deadline = rng.random_range(execution..=2 * period);
            let jitter = if has_jitter { rng.random_range(0..period) } else { 0 };
            let priority = priorities.swap_remove(rng.random_range(0..priorities.len()));
            let task = Task::new(ns(execution), ns(period)).unwrap();
            task.with_deadline(ns(deadline)).with_jitter(ns(jitter)).with_priority(priority)
        })
        .collect()
}

/// A supply, and the ticks of each run of a host that may be its worst, from when waiting begins.
pub struct Made {
    pub what: String,
    pub supply: Supply,
    pub worst: Vec<Ticks>,
    /// After so long its ticks repeat.
    pub cycle: u64,
    /// Ticks that it has per cycle.
    pub budget: u64,
}

/// Whether a tick is there: `first` once, then `cycle` again and again.
#[derive(Clone, Debug)]
pub struct Ticks {
    pub first: Vec<bool>,
    pub cycle: Vec<bool>,
}

impl Ticks {
    pub fn at(&self, tick: i64) -> bool {
        let tick = usize::try_from(tick).unwrap();
        let cycle = || self.cycle[(tick - self.first.len()) % self.cycle.len()];
        self.first.get(tick).copied().unwrap_or_else(cycle)
    }
}

fn stretch(off: u64, on: u64) -> Vec<bool> {
    (0..off + on).map(|tick| tick >= off).collect()
}

/// A server whose first budget came as soon as its period began, all others by the end of their deadline.
pub fn server(period: u64, budget: u64, deadline: u64) -> Made {
    let mut first = stretch(period - budget, 0);
    // The period that begins now: its budget ends at the deadline, and nothing is left until the next one.
    first.extend(stretch(deadline - budget, 0));
    let cycle: Vec<bool> = (0..period).map(|tick| tick < budget).collect();
    Made {
        what: format!("{budget} of {period} by {deadline}"),
        supply: Supply::explicit_deadline(ns(period), ns(budget), ns(deadline)).unwrap(),
        worst: vec![Ticks { first, cycle }],
        cycle: period,
        budget,
    }
}

pub fn quota(period: u64, quota: u64) -> Made {
    let cycle = (0..period).map(|tick| tick < quota).collect();
    Made {
        what: format!("quota of {quota} per {period}"),
        supply: Supply::quota(ns(quota), ns(period)).unwrap(),
        worst: vec![Ticks { first: stretch(period - quota, 0), cycle }],
        cycle: period,
        budget: quota,
    }
}

pub fn turns(quantum: u64, others: u64) -> Made {
    Made {
        what: format!("turns of {quantum}, {others} others"),
        supply: Supply::round_robin(ns(quantum), others).unwrap(),
        worst: vec![Ticks { first: Vec::new(), cycle: stretch(others * quantum, quantum) }],
        cycle: quantum * (others + 1),
        budget: quantum,
    }
}

/// A random table; every tick of it is tried as the beginning.
pub fn table(rng: &mut Rng) -> Made {
    let length = rng.random_range(3..20_usize);
    let mut ticks: Vec<bool> = (0..length).map(|_| rng.random_range(0..5) > 1).collect();
    let place = rng.random_range(0..length);
    ticks[place] = true;
    table_of(&ticks)
}

pub fn table_of(ticks: &[bool]) -> Made {
    let on = (0..).zip(ticks).filter(|(_, tick)| **tick);
    let windows: Vec<Window> = on.map(|(start, _)| Window { start: ns(start), length: ns(1) }).collect();
    let turned = |by: usize| {
        let mut cycle = ticks.to_vec();
        cycle.rotate_left(by);
        Ticks { first: Vec::new(), cycle }
    };
    Made {
        what: format!("table {ticks:?}"),
        supply: Supply::table(ns(ticks.len() as u64), &windows).unwrap(),
        worst: (0..ticks.len()).map(turned).collect(),
        cycle: ticks.len() as u64,
        budget: windows.len() as u64,
    }
}

/// A supply that some run of its host reaches.
pub fn exact_supply(rng: &mut Rng) -> Made {
    let period = rng.random_range(2..12_u64);
    let budget = rng.random_range(period.div_ceil(2)..=period);
    match rng.random_range(0..6) {
        0 => server(1, 1, 1),
        1 => server(period, budget, period),
        2 => server(period, budget, rng.random_range(budget..=period)),
        3 => quota(period, budget),
        4 => turns(rng.random_range(1..4), rng.random_range(0..2)),
        _ => table(rng),
    }
}

/// How what is asked for in the long run compares with what there is, by counting over a common multiple.
pub fn load(tasks: &[Task], made: &Made) -> std::cmp::Ordering {
    let multiple = tasks.iter().fold(u128::from(made.cycle), |multiple, task| {
        let period = u128::from(task.period().get());
        (1..).map(|times| times * multiple).find(|all| all.is_multiple_of(period)).unwrap()
    });
    let asked = tasks
        .iter()
        .map(|task| multiple / u128::from(task.period().get()) * u128::from(task.execution().get()));
    asked.sum::<u128>().cmp(&(multiple / u128::from(made.cycle) * u128::from(made.budget)))
}

/// Counts how often a bound is reached.
#[derive(Default)]
pub struct Tally {
    pub reached: u64,
    pub of: u64,
}

impl Tally {
    pub fn count(&mut self, is_reached: bool) {
        self.of += 1;
        self.reached += u64::from(is_reached);
    }

    /// At least so many in 100, of at least so many.
    pub fn holds(&self, percent: u64, least: u64, what: &str) {
        eprintln!("{what}: reached {} of {}", self.reached, self.of);
        assert!(self.of >= least, "{what}: only {} bounds", self.of);
        assert!(self.reached * 100 >= self.of * percent, "{what}: {} of {}", self.reached, self.of);
    }
}
