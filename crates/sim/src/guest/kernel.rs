//! A guest's kernel: brings threads onto virtual CPUs by priority and in turns, and lets them spin for its locks.
//!
//! ```text
//!            attend                                    the host runs it so long, then
//!  host ───────────────► what next? ─► Demand ─────────────────────────────► progress, attend …
//!            poke ◄──────── a lock was handed over, a thread has work (to another virtual CPU)
//! ```

mod line;
mod locking;
mod shooting_down;
mod waiting;

use std::collections::VecDeque;

use self::line::Line;
use super::costs::GuestCosts;
use super::interrupts::Interrupts;
use super::lock::{Lock, LockKind, LockReport, OnLongWait};
use super::program::{Moment, Op, Program, Seen};
use super::thread::{Doing, Thread, Wait};
use crate::host::{Mode, VcpuId, VmId};
use crate::packed::Packed;
use crate::random::{Draw, Stream};
use crate::speed::Speed;
use crate::time::{Span, Time};

/// Operations without any time in a row after which a program is taken for one that never does anything.
const IDLE_OPERATIONS: u32 = 1_000_000;

/// What a virtual CPU wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// To run so long; then it is to be attended again.
    Run(Span),
    /// It spins: somebody else in the host runs to better effect.
    Help,
    /// Nothing, until it is poked.
    Halt,
    /// It has done a million operations that take no time: it would never come to an end.
    Stuck,
    /// Threads wait for each other's locks in a circle, or for one that will never be given back.
    Deadlock,
}

/// What a guest does to others.
#[derive(Debug, Default)]
pub struct Effects {
    /// Virtual CPUs that have something new to look at.
    pub pokes: VecDeque<VcpuId>,
    /// Timers: when, whose, and which.
    pub timers: Vec<(Time, VmId, u32)>,
}

/// A thread to be made.
pub struct ThreadPlan {
    /// What it does.
    pub program: Box<dyn Program>,
    /// Higher ones are preferred.
    pub priority: u8,
    /// The only one of the guest's virtual CPUs that it uses.
    pub bound: Option<u32>,
}

/// A guest to be made.
pub struct GuestPlan {
    /// Its VM.
    pub vm: VmId,
    /// Its first virtual CPU.
    pub first: VcpuId,
    /// How many it has.
    pub vcpus: u32,
    /// Turn of a thread while others of its priority wait.
    pub quantum: Span,
    /// Its threads.
    pub threads: Vec<ThreadPlan>,
    /// Number of locks.
    pub locks: u32,
    /// What the locks are like.
    pub lock_kind: LockKind,
    /// What long waiting leads to.
    pub on_long_wait: OnLongWait,
    /// Clock rate, for the bins of waiting times.
    pub mhz: u32,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// What became of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadReport {
    /// CPU time it had, kernel and spinning included, as CPUs of its own would have given it: where CPUs slow each other,
    /// its work.
    pub cpu: Span,
    /// Of it in the kernel.
    pub kernel: Span,
    /// Of it spinning.
    pub spin: Span,
    /// When it finished.
    pub ended: Option<Time>,
    /// What its program has seen.
    pub seen: Seen,
}

#[derive(Debug, Clone, Copy, Default)]
struct GuestCpu {
    /// The thread on it.
    current: Packed,
    left: Span,
    /// Whether the host runs it just now.
    runs: bool,
    /// Whether it has halted while its thread waits for a lock.
    parked: bool,
}

/// Counts here come from numbers of 32 bits.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A guest.
pub struct Guest {
    vm: VmId,
    first: VcpuId,
    quantum: Span,
    cpus: Vec<GuestCpu>,
    threads: Vec<Thread>,
    /// Threads that wait for a virtual CPU.
    line: Line,
    locks: Vec<Lock>,
    on_long_wait: OnLongWait,
    mhz: u32,
    /// How each thread waits for a lock; empty where there are none.
    waits: Vec<Wait>,
    /// At how much spinning in all each thread halts; empty where none does by itself.
    patience: Vec<Span>,
    /// How many times longer each virtual CPU spins before it tells the host; empty where that never grows.
    windows: Vec<u32>,
    /// Interrupts on their way; none before the first.
    interrupts: Option<Box<Interrupts>>,
    costs: GuestCosts,
    random: Stream,
    seed: u64,
    unfinished: u32,
    /// Whom to ask next to make room.
    turn: u32,
}

impl Guest {
    /// What it keeps for a virtual CPU and the one thread on it, in a guest with locks; what the thread's program keeps
    /// and the randomness of one that draws (32 bytes) are left out.
    pub const BYTES_PER_VCPU: usize = size_of::<GuestCpu>() + size_of::<Thread>() + size_of::<Wait>();

    /// Makes it; all threads want to run.
    pub fn new(plan: GuestPlan) -> Self {
        let mut line = Line::new(plan.threads.iter().map(|thread| (thread.bound, thread.priority)));
        let mut threads: Vec<Thread> = Vec::with_capacity(plan.threads.len());
        for (thread, number) in plan.threads.into_iter().zip(0u32..) {
            let kind = line.kind(thread.bound, thread.priority);
            line.push(number, kind);
            threads.push(Thread {
                program: thread.program,
                random: None,
                doing: Doing::Asking,
                on: Packed::NONE,
                kind,
                locks: 0,
                cpu: Span::ZERO,
                kernel: Span::ZERO,
                spin: Span::ZERO,
            });
        }
        Self {
            vm: plan.vm,
            first: plan.first,
            quantum: plan.quantum,
            cpus: vec![GuestCpu::default(); plan.vcpus as usize],
            line,
            unfinished: small(threads.iter().filter(|thread| thread.program.is_finite()).count()),
            waits: vec![Wait::NONE; if plan.locks > 0 { threads.len() } else { 0 }],
            patience: vec![
                Span::ZERO;
                if plan.locks > 0 && plan.lock_kind.patience().is_some() {
                    threads.len()
                } else {
                    0
                }
            ],
            windows: Vec::new(),
            interrupts: None,
            costs: GuestCosts::default(),
            threads,
            locks: (0..plan.locks).map(|_| Lock::new(plan.lock_kind)).collect(),
            on_long_wait: plan.on_long_wait,
            mhz: plan.mhz,
            random: Stream::new(plan.seed, &[0]),
            seed: plan.seed,
            turn: 0,
        }
    }

    /// What locks and interrupts cost it; nothing unless said.
    #[must_use]
    pub fn with(mut self, costs: GuestCosts) -> Self {
        let grows = costs.exit_growth > 1 && matches!(self.on_long_wait, OnLongWait::Help(_));
        self.windows = vec![1; if grows && !self.locks.is_empty() { self.cpus.len() } else { 0 }];
        self.costs = costs;
        self
    }

    /// Virtual CPUs that have something to do at the beginning.
    pub fn begin(&self, effects: &mut Effects) {
        effects.pokes.extend((0u32..).take(self.cpus.len()).map(|index| self.vcpu(index)));
    }

    /// Threads that have an end and have not reached it.
    pub const fn unfinished(&self) -> u32 {
        self.unfinished
    }

    /// What its virtual CPU `index`, which runs at this speed, wants now.
    pub fn attend(&mut self, index: u32, now: Time, speed: Speed, effects: &mut Effects) -> Demand {
        let cpu = &mut self.cpus[index as usize];
        (cpu.runs, cpu.parked) = (true, false);
        if let Some(demand) = self.interrupted(index, effects) {
            return demand;
        }
        for _ in 0..IDLE_OPERATIONS {
            if let Some(demand) = self.look(index, now, speed, effects) {
                return demand;
            }
        }
        Demand::Stuck
    }

    /// One step; none when there is more to look at.
    fn look(&mut self, index: u32, now: Time, speed: Speed, effects: &mut Effects) -> Option<Demand> {
        // What has been worked off is over, even for who is to make room at this moment.
        if let Some(number) = self.worked_off(index, now) {
            return self.ask(index, number, now, effects);
        }
        self.make_room(index, effects);
        let Some(number) = self.cpus[index as usize].current.get() else {
            return if self.bring_next(index) { None } else { Some(Demand::Halt) };
        };
        match self.threads[number as usize].doing {
            Doing::Asking => self.ask(index, number, now, effects),
            Doing::Working { left, kernel } => {
                let left = speed.time_for(left);
                let others = !kernel && self.line.next(index).is_some();
                let turn = self.cpus[index as usize].left;
                let patience = self.threads[number as usize].program.aborts_at().map(|end| end.since(now));
                let left = patience.map_or(left, |patience| left.min(patience));
                Some(Demand::Run(if others { left.min(turn) } else { left }))
            }
            Doing::Spinning { lock } => self.spin(index, number, lock, now, effects),
            Doing::Paying { left, bill, lock } if left.is_zero() => {
                self.paid(index, number, (bill, lock), now, effects)
            }
            Doing::Paying { left, .. } => Some(Demand::Run(left)),
            Doing::Awaiting => self.awaits(number),
            Doing::Sleeping | Doing::Blocked { .. } | Doing::Done(_) => {
                self.leave_cpu(index);
                None
            }
        }
    }

    /// The thread on a virtual CPU whose operation has just been worked off, or aborted.
    pub fn worked_off(&self, index: u32, now: Time) -> Option<u32> {
        let is_over = |number: &u32| {
            let thread = &self.threads[*number as usize];
            matches!(thread.doing, Doing::Working { left, .. }
                if left.is_zero() || thread.program.aborts_at().is_some_and(|end| end <= now))
        };
        self.cpus[index as usize].current.get().filter(is_over)
    }

    /// Thread `number` is asked what it does next.
    fn ask(&mut self, index: u32, number: u32, now: Time, effects: &mut Effects) -> Option<Demand> {
        let Thread { program, random, cpu, .. } = &mut self.threads[number as usize];
        let random = Draw::new(random, self.seed, [1, number.into()]);
        let op = program.next(Moment { now, cpu: *cpu, random });
        self.begin_op(index, number, op, now, effects)
    }

    /// Begins an operation; answers a demand only when that is a deadlock.
    fn begin_op(
        &mut self,
        index: u32,
        number: u32,
        op: Op,
        now: Time,
        effects: &mut Effects,
    ) -> Option<Demand> {
        let doing = match op {
            Op::Work(left) => Doing::Working { left, kernel: false },
            Op::Kernel(left) => Doing::Working { left, kernel: true },
            Op::Acquire(lock) => {
                if self.locks[lock as usize].acquire(number) {
                    self.threads[number as usize].locks += 1;
                    Doing::Asking
                } else {
                    self.begin_wait(number, lock, now)
                }
            }
            Op::Release(lock) => self.release(number, lock, now, effects),
            Op::ShootDown => self.shoot_down(index, now, effects),
            Op::SleepUntil(at) if at <= now => Doing::Asking,
            Op::SleepUntil(at) => {
                effects.timers.push((at, self.vm, number));
                Doing::Sleeping
            }
            Op::Finish => {
                self.unfinished = self.unfinished.saturating_sub(1);
                Doing::Done(now)
            }
        };
        self.threads[number as usize].doing = doing;
        if matches!(doing, Doing::Sleeping | Doing::Done(_)) {
            self.leave_cpu(index);
            self.stops_running(number, effects);
        }
        self.is_deadlock(number).then_some(Demand::Deadlock)
    }

    fn leave_cpu(&mut self, index: u32) {
        if let Some(number) = self.cpus[index as usize].current.take() {
            self.threads[number as usize].on = Packed::NONE;
        }
    }

    /// Brings the thread on that should run here next; says whether there was one.
    fn bring_next(&mut self, index: u32) -> bool {
        let next = self.line.pop(index);
        if let Some(number) = next {
            self.threads[number as usize].on = Packed::some(index);
            self.cpus[index as usize].current = Packed::some(number);
            self.cpus[index as usize].left = self.quantum;
        }
        next.is_some()
    }

    /// Takes the current thread off when another should run instead.
    fn make_room(&mut self, index: u32, effects: &mut Effects) {
        let GuestCpu { current, left, .. } = self.cpus[index as usize];
        let Some(number) = current.get() else { return };
        let thread = &self.threads[number as usize];
        if thread.is_in_kernel() || self.line.is_empty() {
            return;
        }
        let Some(next) = self.line.next(index) else { return };
        let priority = self.line.priority(thread.kind);
        let other = self.line.priority(self.threads[next as usize].kind);
        if other > priority || (other == priority && left.is_zero()) {
            self.leave_cpu(index);
            // Another virtual CPU may be idle, or do less important work. This one takes the other thread first.
            self.bring_next(index);
            self.find_place(number, priority.into(), effects);
        } else if left.is_zero() {
            self.cpus[index as usize].left = self.quantum;
        }
    }

    /// So much CPU time went by on its virtual CPU `index`, and did so much work.
    pub fn progress(&mut self, index: u32, span: Span, work: Span) {
        let cpu = &mut self.cpus[index as usize];
        cpu.left = cpu.left.less(span);
        let current = cpu.current.get();
        if self.handles(index, span) {
            return;
        }
        if let Some(number) = current {
            let thread = &mut self.threads[number as usize];
            thread.pass(span, work);
            if matches!(thread.doing, Doing::Spinning { .. }) {
                self.waits[number as usize].spun += span;
            }
        }
    }

    /// The host takes its virtual CPU `index` off; says whether that was in its kernel.
    pub fn off(&mut self, index: u32, effects: &mut Effects) -> bool {
        let cpu = &mut self.cpus[index as usize];
        cpu.runs = false;
        if let Some(window) = self.windows.get_mut(index as usize) {
            *window = 1;
        }
        let Some(number) = cpu.current.get() else { return false };
        self.stops_running(number, effects);
        self.threads[number as usize].is_in_kernel()
    }

    /// The thread whose work its virtual CPU `index` is at.
    pub fn at_work(&self, index: u32) -> Option<u32> {
        let works = |number: &u32| matches!(self.threads[*number as usize].doing, Doing::Working { .. });
        self.cpus[index as usize].current.get().filter(works)
    }

    /// Whether its virtual CPU `index` holds a lock.
    pub fn holds_lock(&self, index: u32) -> bool {
        let current = self.cpus[index as usize].current.get();
        current.is_some_and(|number| self.threads[number as usize].locks > 0)
    }

    /// What its virtual CPU `index` is at, for pictures.
    pub fn mode(&self, index: u32) -> Mode {
        let current = self.cpus[index as usize].current.get();
        match current.map(|number| &self.threads[number as usize]) {
            Some(thread) if thread.is_spinning() => Mode::Spin,
            Some(thread) if thread.is_in_kernel() => Mode::Kernel,
            _ => Mode::User,
        }
    }

    /// A timer of its thread `number` is due; above all threads, the wake-up of a virtual CPU.
    pub fn timer(&mut self, number: u32, effects: &mut Effects) {
        if let Some(index) = number.checked_sub(small(self.threads.len())) {
            effects.pokes.push_back(self.vcpu(index));
            return;
        }
        let thread = &mut self.threads[number as usize];
        if thread.doing == Doing::Sleeping {
            thread.doing = Doing::Asking;
            let most = 1 + u16::from(self.line.priority(thread.kind));
            self.find_place(number, most, effects);
        }
    }

    /// Lets a thread wait for a virtual CPU and tells one that it does: an idle one, or else the one that does the least
    /// important work, if its rank is `most` at most: 0 for an idle one, above it 1 and the priority. Says which idle one it is.
    fn find_place(&mut self, number: u32, most: u16, effects: &mut Effects) -> Option<u32> {
        let kind = self.threads[number as usize].kind;
        self.line.push(number, kind);
        let may = |index: &u32| self.line.may_use(kind, *index);
        let count = small(self.cpus.len());
        let in_turn = (0..count).map(|step| (self.turn + step) % count).filter(may);
        let rank = |index: u32| match self.cpus[index as usize].current.get() {
            None => 0u16,
            Some(current) => 1 + u16::from(self.line.priority(self.threads[current as usize].kind)),
        };
        let index = in_turn.min_by_key(|index| rank(*index)).filter(|index| rank(*index) <= most)?;
        let is_idle = rank(index) == 0;
        self.turn = (index + 1) % count;
        effects.pokes.push_back(self.vcpu(index));
        is_idle.then_some(index)
    }

    fn vcpu(&self, index: u32) -> VcpuId {
        VcpuId(self.first.0 + index)
    }

    /// Its threads, in the order of the plan.
    pub fn threads(&self) -> Vec<ThreadReport> {
        let report = |thread: &Thread| ThreadReport {
            cpu: thread.cpu,
            kernel: thread.kernel,
            spin: thread.spin,
            ended: thread.ended(),
            seen: thread.program.seen(),
        };
        self.threads.iter().map(report).collect()
    }

    /// Its locks, in the order of the plan.
    pub fn locks(&self) -> Vec<LockReport> {
        self.locks.iter().map(|lock| lock.report.clone()).collect()
    }
}
