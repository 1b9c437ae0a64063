//! nexosim: prints events per second after as many as it is told. One thread, as fits a comparison on one core; models that schedule themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nexosim::model::{schedulable, Context, Model};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

static EVENTS: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct Timer {
    state: u64,
}

#[Model]
impl Timer {
    fn sleep(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_nanos(1 + self.state % 1_000_000)
    }

    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        let sleep = self.sleep();
        cx.schedule_event(sleep, schedulable!(Self::tick), ()).unwrap();
    }

    #[nexosim(schedulable)]
    async fn tick(&mut self, _: (), cx: &Context<Self>) {
        EVENTS.fetch_add(1, Ordering::Relaxed);
        let sleep = self.sleep();
        cx.schedule_event(sleep, schedulable!(Self::tick), ()).unwrap();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, work, count, wanted] = words.as_slice() else { return Err("wanted: timers N EVENTS".into()) };
    let wanted = wanted.parse::<u64>()?;
    if work != "timers" {
        return Err("it has no CPUs to share".into());
    }
    let mut bench = SimInit::with_num_threads(1);
    for number in 0..count.parse::<u64>()? {
        let timer = Timer { state: (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) };
        bench = bench.add_model(timer, Mailbox::with_capacity(1), &format!("timer-{number}"));
    }
    let mut simulation = bench.init(MonotonicTime::EPOCH)?;
    let began = Instant::now();
    while EVENTS.load(Ordering::Relaxed) < wanted {
        simulation.step_until(Duration::from_micros(20))?;
    }
    println!("{}", EVENTS.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64());
    Ok(())
}
