//! Runs several partitions with a network between them as one: the first one's program, streams and end are those of the
//! whole, the others are there for it.
//!
//! ```text
//!  switch ─► first: Created ─► the others, a few boot at once ─► all run ─┬─ first ended ───────► grace ─► others killed
//!                                                                         ├─ another one broke ─► all killed, the reason
//!                                                                         ├─ switch ended ──────► all killed, the reason
//!                                                                         └─ asked, 10 s or twice ► all killed
//! ```
//! Everything is a child of this process, and written down in its ledger: nothing outlives it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::network::own_switch::OwnSwitch;
use super::run::{self, Event, Failed, Order, Orders, Outcome, Streams, Surroundings};
use model::partition::{PartitionSpec, ProgramEnd};
use platforms::spawn::own_cpus;

/// How long the others may take to end by themselves after the first one has.
const GRACE: Duration = Duration::from_secs(2);
/// How long the first one may take to end after it was asked to; asked twice, it is ended at once.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How often orders and the switch are looked at.
const SLICE: Duration = Duration::from_millis(20);
/// So many boot at once on the smallest host: the one that waits costs little.
const LEAST_BOOTING: usize = 2;
/// What the program of one of the others ends with when it could not do its part.
pub const OTHER_FAILED: u8 = 125;

/// Partitions that run as one.
#[derive(Debug)]
pub struct Team<'a> {
    /// Who they are, the first one first; each has a card at the network.
    pub members: &'a [PartitionSpec],
    /// Folder for the sockets of the network's plugs, 0700, where the members' cards say they are.
    pub link: &'a Path,
    /// First five bytes of the hardware addresses in the network.
    pub prefix: [u8; 5],
}

/// What a member's thread says.
enum Told {
    Happened(Event),
    Ended(Outcome),
}

/// How far a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    ToStart,
    Boots,
    Runs,
    Ended,
}

struct Member {
    phase: Phase,
    orders: Option<Sender<Order>>,
}

/// How a team ended.
#[derive(Debug)]
pub struct End {
    /// That of the first member, or why it is none.
    pub outcome: Outcome,
    /// The signal with which somebody outside had asked for it.
    pub asked: Option<i32>,
}

/// Runs the team until its first member's program ends or something breaks; nothing is left when this returns.
/// `tell` gets the number of a member, from 0, and what happened to it; what `watch` says, which is asked all the time
/// while the first member runs, ends it.
pub fn run(
    team: &Team<'_>,
    streams: Streams,
    around: &Surroundings,
    orders: &Orders,
    tell: &mut dyn FnMut(usize, &Event),
    watch: &mut dyn FnMut() -> Option<Failed>,
) -> End {
    let failed = |error: io::Error| {
        let outcome = Outcome::Failed(Failed::own(format!("the switch of the network: {error}")));
        End { outcome, asked: None }
    };
    let (switch, error) = match OwnSwitch::start(team.link, team.prefix, around)
        .and_then(|switch| Ok((switch, streams.error.try_clone()?)))
    {
        Ok(made) => made,
        Err(error) => return failed(error),
    };
    let (sender, told) = channel();
    std::thread::scope(|scope| {
        let members = team.members.iter().map(|_| Member { phase: Phase::ToStart, orders: None });
        let mut work = Work {
            scope,
            team,
            around,
            sender,
            first: Some(streams),
            error,
            is_engine_known: false,
            members: members.collect(),
            switch,
            outcome: None,
            kill_at: None,
            asked: None,
        };
        work.until_all_ended(&told, orders, tell, watch)
    })
}

struct Work<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    team: &'env Team<'env>,
    around: &'env Surroundings,
    sender: Sender<(usize, Told)>,
    /// Streams of the first member, until it is started.
    first: Option<Streams>,
    /// Where the others write to.
    error: OwnedFd,
    /// Whether KVM works is tried by the first member alone.
    is_engine_known: bool,
    members: Vec<Member>,
    switch: OwnSwitch,
    outcome: Option<Outcome>,
    kill_at: Option<Instant>,
    /// The ending signal that came, and when all is killed that has not ended by it.
    asked: Option<(i32, Instant)>,
}

impl Work<'_, '_> {
    fn until_all_ended(
        &mut self,
        told: &Receiver<(usize, Told)>,
        orders: &Orders,
        tell: &mut dyn FnMut(usize, &Event),
        watch: &mut dyn FnMut() -> Option<Failed>,
    ) -> End {
        loop {
            if self.outcome.is_none()
                && let Err(error) = self.start_what_may()
            {
                self.break_off(Failed::own(format!("starting a partition: {error}")));
            }
            match told.recv_timeout(SLICE) {
                Ok((number, Told::Happened(event))) => self.note(number, &event, tell),
                Ok((number, Told::Ended(outcome))) => self.note_end(number, outcome),
                Err(RecvTimeoutError::Timeout) => {}
                // Cannot be: a sender is kept here.
                Err(RecvTimeoutError::Disconnected) => self.break_off(Failed::own("its threads are gone")),
            }
            while let Ok(order) = orders.try_recv() {
                self.pass_on(order);
            }
            if self.outcome.is_none()
                && let Some(failed) = watch()
            {
                self.break_off(failed);
            }
            if let Some((number, at)) = self.asked
                && self.outcome.is_none()
                && Instant::now() >= at
            {
                self.outcome = Some(Outcome::Ended(ProgramEnd::Signal(number)));
                self.kill_at = Some(Instant::now());
            }
            if self.outcome.is_none()
                && let Some(how) = self.switch.how_it_ended()
            {
                self.break_off(Failed::own(format!("the switch of the network {how}")));
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                self.kill_at = None;
                (0..self.members.len()).for_each(|number| self.order(number, Order::Kill));
            }
            let is_over = |member: &Member| matches!(member.phase, Phase::ToStart | Phase::Ended);
            if self.members.iter().all(is_over)
                && let Some(outcome) = self.outcome.take()
            {
                return End { outcome, asked: self.asked.map(|(number, _)| number) };
            }
        }
    }

    /// The first one alone until it is known what runs CPUs; then as many at once as there are CPUs.
    fn start_what_may(&mut self) -> io::Result<()> {
        let boots = self.members.iter().filter(|member| member.phase == Phase::Boots).count();
        let most = if self.is_engine_known { own_cpus().len().max(LEAST_BOOTING) } else { 1 };
        let waiting = (0..).zip(&self.members).filter(|(_, member)| member.phase == Phase::ToStart);
        let next: Vec<usize> = waiting.map(|(number, _)| number).take(most.saturating_sub(boots)).collect();
        next.into_iter().try_for_each(|number| self.start(number))
    }

    fn start(&mut self, number: usize) -> io::Result<()> {
        let Some(spec) = self.team.members.get(number) else { return Ok(()) };
        let streams = match self.first.take() {
            Some(streams) => streams,
            None => Streams {
                input: File::open("/dev/null")?.into(),
                output: self.error.try_clone()?,
                error: self.error.try_clone()?,
            },
        };
        let (orders, inbox) = channel();
        let (sender, around) = (self.sender.clone(), self.around);
        std::thread::Builder::new().name(spec.name.clone()).spawn_scoped(self.scope, move || {
            // Whoever listens is there until the last member has ended.
            let mut tell = |event: Event| drop(sender.send((number, Told::Happened(event))));
            let outcome = run::run(spec, streams, around, inbox, &mut tell);
            let _ = sender.send((number, Told::Ended(outcome)));
        })?;
        if let Some(member) = self.members.get_mut(number) {
            *member = Member { phase: Phase::Boots, orders: Some(orders) };
        }
        Ok(())
    }

    fn note(&mut self, number: usize, event: &Event, tell: &mut dyn FnMut(usize, &Event)) {
        match event {
            Event::Created { .. } => self.is_engine_known = true,
            Event::Started => {
                if let Some(member) = self.members.get_mut(number) {
                    member.phase = Phase::Runs;
                }
            }
            _ => {}
        }
        tell(number, event);
    }

    fn note_end(&mut self, number: usize, outcome: Outcome) {
        let before = self.members.get_mut(number).map(|member| {
            member.orders = None;
            std::mem::replace(&mut member.phase, Phase::Ended)
        });
        if self.outcome.is_some() {
            return;
        }
        if number == 0 {
            self.outcome = Some(outcome);
            self.kill_at =
                Some(Instant::now() + if before == Some(Phase::Runs) { GRACE } else { Duration::ZERO });
            return;
        }
        let name = self.team.members.get(number).map_or("", |spec| spec.name.as_str());
        match outcome {
            Outcome::Failed(mut failed) => {
                failed.reason = format!("partition {name}: {}", failed.reason);
                self.break_off(failed);
            }
            Outcome::Ended(ProgramEnd::Exit(OTHER_FAILED) | ProgramEnd::Signal(_)) => {
                self.break_off(Failed::own(format!("partition {name} could not do its part")));
            }
            Outcome::Ended(ProgramEnd::Exit(_)) => {}
        }
    }

    /// The first member's program is told, which may not be able to end: another partition stands still, and it waits.
    fn pass_on(&mut self, order: Order) {
        if let (Order::Signal(number), true) = (order, run::is_ending(order)) {
            let now = Instant::now();
            self.asked = Some(self.asked.map_or((number, now + ENDS_WITHIN), |(first, _)| (first, now)));
        }
        self.order(0, order);
    }

    /// Ends all of it at once.
    fn break_off(&mut self, failed: Failed) {
        if self.outcome.is_none() {
            self.outcome = Some(Outcome::Failed(failed));
            self.kill_at = Some(Instant::now());
        }
    }

    fn order(&self, number: usize, order: Order) {
        if let Some(orders) = self.members.get(number).and_then(|member| member.orders.as_ref()) {
            // It may have ended a moment ago.
            let _ = orders.send(order);
        }
    }
}
