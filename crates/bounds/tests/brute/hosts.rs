//! Hosts as they behave, not as their supply is described: servers that count what was used, wake up, and are given their
//! time by somebody who means no good.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::simulator::Host;

/// When within its deadline a server is given its budget.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Only when it could not be given any later.
    Late,
    /// Whenever a coin says so, and when it could not be given any later.
    Coin,
    /// At once.
    Soon,
}

/// `SCHED_DEADLINE`, as the kernel's documentation and `update_dl_entity` have it: a hard constant-bandwidth server, for
/// deadlines below the period with the revised wake-up rule.
pub struct HardCbs {
    pub budget: i64,
    pub period: i64,
    pub deadline: i64,
    pub mood: Mood,
    pub rng: Xoshiro256PlusPlus,
    left: i64,
    began: i64,
    was_active: bool,
}

impl HardCbs {
    pub fn new([budget, period, deadline]: [i64; 3], mood: Mood, rng: Xoshiro256PlusPlus) -> Self {
        Self { budget, period, deadline, mood, rng, left: 0, began: -2 * period, was_active: false }
    }

    fn wake(&mut self, now: i64) {
        let laxity = self.began + self.deadline - now;
        if laxity <= 0 {
            if now >= self.began + self.period {
                (self.began, self.left) = (now, self.budget);
            } else {
                // Constrained: woken after its deadline and before its next period, it waits for that.
                self.left = 0;
            }
        } else if self.left * self.deadline > laxity * self.budget {
            if self.deadline < self.period {
                self.left = laxity * self.budget / self.deadline;
            } else {
                (self.began, self.left) = (now, self.budget);
            }
        }
    }
}

impl Host for HardCbs {
    fn tick(&mut self, now: i64, has_work: bool) -> bool {
        if has_work && !self.was_active {
            self.wake(now);
        }
        self.was_active = has_work;
        if has_work && self.left == 0 && now >= self.began + self.period {
            (self.began, self.left) = (self.began.max(now - self.period) + self.period, self.budget);
        }
        if !has_work || self.left == 0 {
            return false;
        }
        let slack = self.began + self.deadline - now - self.left;
        let given = match self.mood {
            Mood::Late => slack <= 0,
            Mood::Coin => slack <= 0 || self.rng.random_range(0..3) == 0,
            Mood::Soon => true,
        };
        self.left -= i64::from(given);
        given
    }
}

/// A deferrable server (Xen's RTDS) whose periods go on by themselves: the budget is kept while nothing is wanted, is full
/// again at each period, and is owed by the end of it.
pub struct Deferrable {
    pub budget: i64,
    pub period: i64,
    pub phase: i64,
    pub mood: Mood,
    pub rng: Xoshiro256PlusPlus,
    pub left: i64,
}

impl Host for Deferrable {
    fn tick(&mut self, now: i64, has_work: bool) -> bool {
        let within = (now + self.phase) % self.period;
        if within == 0 {
            self.left = self.budget;
        }
        if !has_work || self.left == 0 {
            return false;
        }
        let slack = self.period - within - self.left;
        let given = match self.mood {
            Mood::Late => slack <= 0,
            Mood::Coin => slack <= 0 || self.rng.random_range(0..3) == 0,
            Mood::Soon => true,
        };
        self.left -= i64::from(given);
        given
    }
}

/// Turns: others always want theirs, and who wakes goes to the end of the line.
pub struct Turns {
    pub quantum: i64,
    pub others: i64,
    /// Ticks until it is its turn, while it waits in line.
    ahead: Option<i64>,
    left: i64,
}

impl Turns {
    pub const fn new(quantum: i64, others: i64) -> Self {
        Self { quantum, others, ahead: None, left: 0 }
    }
}

impl Host for Turns {
    fn tick(&mut self, _now: i64, has_work: bool) -> bool {
        if !has_work {
            (self.ahead, self.left) = (None, 0);
            return false;
        }
        if self.left == 0 && self.ahead.is_none() {
            self.ahead = Some(self.others * self.quantum);
        }
        if let Some(ahead @ 1..) = self.ahead {
            self.ahead = Some(ahead - 1);
            return false;
        }
        if self.left == 0 {
            self.left = self.quantum;
        }
        self.left -= 1;
        self.ahead = (self.left > 0).then_some(0);
        true
    }
}

/// Who asks for a CPU under earliest eligible virtual deadline first, in multiples that keep all fractions whole.
#[derive(Clone, Copy)]
pub struct Client {
    pub weight: i64,
    /// Virtual time at which its request is eligible.
    eligible: i64,
}

/// Which client has each tick when all always want the CPU, by Stoica and Abdel-Wahab's rules, requests of `slice`. Virtual
/// time is counted in 1/(`total` · `scale`) ticks, `scale` a multiple of every weight.
pub fn eevdf(weights: &[i64], slice: i64, ticks: i64) -> Vec<usize> {
    let total: i64 = weights.iter().sum();
    let scale: i64 = weights.iter().product();
    let mut clients: Vec<Client> =
        weights.iter().map(|weight| Client { weight: *weight, eligible: 0 }).collect();
    let length = |client: &Client| slice * total * (scale / client.weight);
    let mut who = Vec::new();
    while i64::try_from(who.len()).unwrap() < ticks {
        let now = i64::try_from(who.len()).unwrap() * scale;
        let eligible = (0..clients.len()).filter(|number| clients[*number].eligible <= now);
        let due = |number: &usize| clients[*number].eligible + length(&clients[*number]);
        let chosen = eligible.min_by_key(due).expect("somebody is behind");
        clients[chosen].eligible += length(&clients[chosen]);
        who.extend(std::iter::repeat_n(chosen, usize::try_from(slice).unwrap()));
    }
    who
}

/// Which client has each tick by start-time fair queueing, turns of `quantum`: client 0 always wants the CPU, the others come
/// and go as a coin says, each for some turns. Tags are counted in 1/`scale`, a multiple of every weight.
pub fn fair_queue(weights: &[i64], quantum: i64, ticks: i64, rng: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let scale: i64 = weights.iter().product();
    let mut finish = vec![0; weights.len()];
    // Start tags of those who wait.
    let mut start: Vec<Option<i64>> = vec![None; weights.len()];
    let mut virtual_time = 0;
    let mut who = Vec::new();
    while i64::try_from(who.len()).unwrap() < ticks {
        for client in 0..weights.len() {
            if start[client].is_none() && (client == 0 || rng.random_range(0..3) > 0) {
                start[client] = Some(finish[client].max(virtual_time));
            }
        }
        let waiting = (0..weights.len()).filter(|client| start[*client].is_some());
        // Ties are lost by the one that is looked at.
        let chosen = waiting.min_by_key(|client| (start[*client], *client == 0)).expect("client 0 waits");
        virtual_time = start[chosen].take().expect("it waits");
        finish[chosen] = virtual_time + quantum * (scale / weights[chosen]);
        who.extend(std::iter::repeat_n(chosen, usize::try_from(quantum).unwrap()));
        if chosen == 0 {
            start[0] = Some(finish[0]);
        }
    }
    who
}
