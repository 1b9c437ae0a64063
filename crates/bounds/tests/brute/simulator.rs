//! A VM on one virtual CPU, tick by tick: jobs wait, the host says of each tick whether it is there, the most urgent job
//! takes it.

use bounds::Task;

/// Who comes first.
#[derive(Clone, Copy)]
pub enum Order {
    /// The larger priority, then who was released first.
    Priority,
    /// The earlier deadline; of equal ones this task comes last, then who was released first.
    Deadline { last: usize },
}

/// One job to be.
#[derive(Clone, Copy)]
pub struct Release {
    pub task: usize,
    pub arrival: i64,
    pub at: i64,
}

/// Whether a tick is there. Time begins at 0.
pub trait Host {
    fn tick(&mut self, now: i64, has_work: bool) -> bool;
}

/// Fixed ticks, whatever is wanted.
impl<F: FnMut(i64) -> bool> Host for F {
    fn tick(&mut self, now: i64, _has_work: bool) -> bool {
        self(now)
    }
}

/// What was seen.
pub struct Seen {
    /// Longest response of each task among jobs that ended.
    pub longest: Vec<u64>,
    /// Whether all jobs ended.
    pub all_ended: bool,
}

pub fn whole(nanos: units::Nanos) -> i64 {
    i64::try_from(nanos.get()).unwrap()
}

struct Job {
    release: Release,
    left: i64,
}

/// Runs until `horizon`, or until nothing waits any more and `until_idle`. First of all `block` ticks of work that nobody
/// preempts.
pub fn run(
    tasks: &[Task],
    releases: &mut [Release],
    host: &mut impl Host,
    order: Order,
    block: i64,
    horizon: i64,
) -> Seen {
    releases.sort_by_key(|release| release.at);
    let mut coming = releases.iter().peekable();
    let mut waiting: Vec<Job> = Vec::new();
    let mut longest = vec![0; tasks.len()];
    let mut block = block;
    for now in 0..horizon {
        while let Some(release) = coming.next_if(|release| release.at <= now) {
            waiting.push(Job { release: *release, left: whole(tasks[release.task].execution()) });
        }
        if !host.tick(now, block > 0 || !waiting.is_empty()) {
            continue;
        }
        if block > 0 {
            block -= 1;
            continue;
        }
        let key = |job: &Job| {
            let task = &tasks[job.release.task];
            match order {
                Order::Priority => (-i64::from(task.priority()), false, job.release.arrival),
                Order::Deadline { last } => {
                    let due = job.release.arrival + whole(task.deadline());
                    (due, job.release.task == last, job.release.arrival)
                }
            }
        };
        let Some(place) = (0..waiting.len()).min_by_key(|place| key(&waiting[*place])) else { continue };
        waiting[place].left -= 1;
        if waiting[place].left == 0 {
            let Release { task, arrival, .. } = waiting.remove(place).release;
            longest[task] = u64::try_from(now + 1 - arrival).unwrap().max(longest[task]);
        }
    }
    Seen { longest, all_ended: waiting.is_empty() }
}

/// The densest releases: each task's first at its offset after full jitter, then as often as it can.
pub fn dense(tasks: &[Task], offsets: &[i64], horizon: i64) -> Vec<Release> {
    let mut releases = Vec::new();
    for (task, (its, offset)) in tasks.iter().zip(offsets).enumerate() {
        let mut arrival = offset - whole(its.jitter());
        while arrival < horizon {
            releases.push(Release { task, arrival, at: arrival.max(*offset) });
            arrival += whole(its.period());
        }
    }
    releases
}
