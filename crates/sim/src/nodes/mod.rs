//! Noise at scale: a bulk-synchronous program on many nodes, each of which loses time to noise, so that all wait for the
//! slowest at every barrier.
//!
//! ```text
//!  NodesSpec ─► noise ──┬─ drawn per step ───┐            ┌─ maximum: the last arrival ends it
//!  NoiseTrace ──────────┴─ interruptions ────┴─► steps ─► ├─ dissemination  messages with LogGP costs
//!                                                         └─ tree
//!                                                 books ─► figures, with the closed form where there is one
//! ```
//! Source: the question is Van Hensbergen's (*The effect of virtualization on OS interference*, 2005); the models are
//! Petrini, Kerbyson, Pakin 2003 (noise and barriers) and `LogGP` (see `barrier`). At most 56 bytes per node.

mod barrier;
mod books;
mod interruptions;
mod noise;
mod recorded;
#[cfg(test)]
mod tests;
mod trace;

pub use trace::{Interruption, MOST_INTERRUPTIONS, NoiseTrace};

use barrier::{Costs, Mail, Node};
use books::{Books, Bounds, Moments};
use interruptions::{Interruptions, NodeCpu, Place, Quiet};
use noise::{Drawn, Noise, micros};

use crate::brake::Brake;
use crate::closed::noise as closed;
use crate::scenario::catalogue::Kind;
use crate::scenario::{Figure, Replication};
use crate::time::{Span, Time};
use model::scenario::{BarrierSpec, LimitSpec, NodesSpec, NoiseSpec};
use probes::ProbeKind;
use units::metric::{Better, Unit};

/// Nodes after which it is looked whether the brake was pulled: a hundredth of a second's worth.
const PIECE_NODES: u32 = 1 << 18;
/// The same as a length.
const PIECE: usize = PIECE_NODES as usize;

/// Runs the program once, to its end. The scenario was checked; `trace` is what its noise names, if it names one.
pub fn run(spec: &NodesSpec, trace: Option<&NoiseTrace>, seed: u64) -> Replication {
    let limits = LimitSpec { simulated_s: u64::MAX, events: u64::MAX };
    run_within(spec, trace, seed, &limits, &Brake::default())
}

/// Runs the program once, as many steps as fit into the limits and until the brake is pulled. An event is a message or a
/// node's step.
pub fn run_within(
    spec: &NodesSpec,
    trace: Option<&NoiseTrace>,
    seed: u64,
    limits: &LimitSpec,
    brake: &Brake,
) -> Replication {
    let is_tree = matches!(spec.barrier, BarrierSpec::Tree(_));
    let messages = match spec.barrier {
        BarrierSpec::Maximum {} => 0,
        _ => barrier::messages(spec.count, is_tree),
    };
    let each = messages.saturating_add(spec.count.into());
    let program = Program { spec, seed, bounds: Bounds { steps: spec.steps, each, limits, brake } };
    let noise = match Noise::of(spec, trace) {
        Ok(noise) => noise,
        Err(trouble) => return Replication { trouble: Some(trouble.into()), ..Replication::default() },
    };
    let books = match (&spec.barrier, &noise) {
        (BarrierSpec::Maximum {}, Noise::Drawn(drawn)) => program.maximum_drawn(drawn),
        (BarrierSpec::Maximum {}, Noise::Interruptions(noise)) => program.maximum_interrupted(noise),
        (_, Noise::Drawn(drawn)) => program.messages(Some(drawn), &Quiet, None),
        (_, Noise::Interruptions(noise)) => program.messages(None, noise, Some(noise)),
    };
    let quiet = program.quiet(books.steps());
    Replication {
        // Of no step there is nothing to tell.
        figures: if books.steps() > 0 { figures(spec, &books, quiet) } else { Vec::new() },
        interrupted: brake.is_pulled() && books.trouble.is_some(),
        trouble: books.trouble,
        events: books.events,
        ..Replication::default()
    }
}

/// What is to be run.
struct Program<'a> {
    spec: &'a NodesSpec,
    seed: u64,
    bounds: Bounds<'a>,
}

impl Program<'_> {
    /// Barriers that cost nothing, noise that is drawn: nodes need no memory at all.
    fn maximum_drawn(&self, drawn: &Drawn) -> Books {
        let Self { spec, seed, bounds } = self;
        let work = micros(spec.work_us);
        let mut books = Books::new(Time::ZERO, spec.count, bounds.limits);
        while books.may_go_on(bounds) {
            let begin = books.now() + work;
            let mut stream = noise::draws_of(*seed, books.steps());
            let mut arrived = books.moments();
            if spec.together || matches!(drawn, Drawn::Nothing) {
                arrived.add_all(spec.count, begin + drawn.draw(&mut stream));
            } else {
                for first in (0..spec.count).step_by(PIECE).take_while(|_| !bounds.brake.is_pulled()) {
                    let piece = first..spec.count.min(first.saturating_add(PIECE_NODES));
                    piece.for_each(|node| arrived.add(node, begin + drawn.draw(&mut stream)));
                }
            }
            books.step(bounds, arrived, self.leaving(&books, arrived.last), 0);
        }
        books
    }

    /// Barriers that cost nothing, interruptions in time.
    fn maximum_interrupted(&self, noise: &Interruptions) -> Books {
        let Self { spec, bounds, .. } = self;
        let work = micros(spec.work_us);
        let begin = Time::ZERO + noise.round();
        let mut books = Books::new(begin, spec.count, bounds.limits);
        // Nodes that meet the same at the same time are one.
        let mut places: Vec<Place> =
            self.places(Some(noise), begin).take(if spec.together { 1 } else { usize::MAX }).collect();
        while books.may_go_on(bounds) {
            let now = books.now();
            let mut arrived = books.moments();
            if let ([place], true) = (places.as_mut_slice(), spec.together) {
                arrived.add_all(spec.count, noise.run(place, now, work));
            } else {
                let mut node = 0;
                for piece in places.chunks_mut(PIECE).take_while(|_| !bounds.brake.is_pulled()) {
                    for place in piece {
                        arrived.add(node, noise.run(place, now, work));
                        node += 1;
                    }
                }
            }
            books.step(bounds, arrived, self.leaving(&books, arrived.last), 0);
        }
        books
    }

    /// All nodes leave at this moment.
    fn leaving(&self, books: &Books, at: Time) -> Moments {
        let mut left = books.moments();
        left.add_all(self.spec.count, at);
        left
    }

    /// Where the nodes begin in the noise.
    fn places<'a>(
        &'a self,
        noise: Option<&'a Interruptions>,
        begin: Time,
    ) -> impl Iterator<Item = Place> + 'a {
        let mut stream = noise::begins(self.seed);
        let mut offset = None;
        (0..self.spec.count).map(move |_| {
            noise.map_or(Place::NOWHERE, |noise| {
                if offset.is_none() || !self.spec.together {
                    offset = Some(Span::from_nanos(stream.below(noise.round().nanos())));
                }
                noise.place(offset.unwrap_or_default(), begin)
            })
        })
    }

    /// Barriers made of messages.
    fn messages(&self, drawn: Option<&Drawn>, cpu: &impl NodeCpu, noise: Option<&Interruptions>) -> Books {
        let Self { spec, seed, bounds } = self;
        let (costs, is_tree) = match &spec.barrier {
            BarrierSpec::Dissemination(costs) => (Costs::of(costs), false),
            BarrierSpec::Tree(costs) => (Costs::of(costs), true),
            BarrierSpec::Maximum {} => return Books::new(Time::ZERO, spec.count, bounds.limits),
        };
        let work = micros(spec.work_us);
        let begin = Time::ZERO + noise.map_or(Span::ZERO, Interruptions::round);
        let mut books = Books::new(begin, spec.count, bounds.limits);
        let mut nodes: Vec<Node> = self.places(noise, begin).map(|place| Node::new(begin, place)).collect();
        let mut mail = Mail::for_nodes(nodes.len());
        while books.may_go_on(bounds) {
            let mut stream = noise::draws_of(*seed, books.steps());
            let mut draw = || drawn.map_or(Span::ZERO, |drawn| drawn.draw(&mut stream));
            let common = spec.together.then(&mut draw);
            let mut arrived = books.moments();
            for (number, node) in (0u32..).zip(&mut nodes) {
                node.ready = cpu.run(&mut node.place, node.ready, work) + common.unwrap_or_else(&mut draw);
                arrived.add(number, node.ready);
            }
            let messages = if is_tree {
                barrier::tree(&mut nodes, &mut mail, &costs, cpu)
            } else {
                barrier::dissemination(&mut nodes, &mut mail, &costs, cpu, bounds.brake)
            };
            let mut left = books.moments();
            for (number, node) in (0u32..).zip(&nodes) {
                left.add(number, node.ready);
            }
            books.step(bounds, arrived, left, messages);
        }
        books
    }

    /// How long so many steps take without noise.
    fn quiet(&self, steps: u32) -> Span {
        let work = micros(self.spec.work_us);
        match &self.spec.barrier {
            BarrierSpec::Maximum {} => Span::from_nanos(work.nanos().saturating_mul(steps.into())),
            BarrierSpec::Dissemination(costs) => {
                let (mut node, costs) = (Node::new(Time::ZERO, Place::NOWHERE), Costs::of(costs));
                for _ in 0..steps {
                    node.ready = node.ready + work;
                    barrier::dissemination_of_equals(&mut node, self.spec.count, &costs);
                }
                node.ready.since(Time::ZERO)
            }
            BarrierSpec::Tree(_) => {
                // Nodes leave a tree one after the other, so the steps have to be made.
                let spec = NodesSpec { noise: NoiseSpec::None {}, steps, ..self.spec.clone() };
                let program =
                    Program { spec: &spec, bounds: Bounds { steps, ..self.bounds }, seed: self.seed };
                program.messages(None, &Quiet, None).whole()
            }
        }
    }
}

const STEP_MEAN: Kind = Kind(
    "step_mean_ns",
    "mean step, from the last node's leaving a barrier to the next",
    Unit::Nanoseconds,
    Better::Lower,
);
const STEP_MAX: Kind = Kind("step_max_ns", "longest step", Unit::Nanoseconds, Better::Lower);
const SLOWDOWN: Kind = Kind(
    "slowdown",
    "time of all steps, in times of the same program without noise",
    Unit::Count,
    Better::Lower,
);
const BARRIER: Kind = Kind(
    "barrier_ns",
    "a barrier, from the last arrival to the last leaving",
    Unit::Nanoseconds,
    Better::Lower,
);
const WAIT: Kind =
    Kind("wait_ns", "a node's time in a barrier, on average", Unit::Nanoseconds, Better::Lower);
const MESSAGES: Kind = Kind("messages", "messages sent", Unit::Count, Better::Neither);
pub(crate) const CLOSED_FORM: Kind =
    Kind("closed_form_ns", "mean step by closed form", Unit::Nanoseconds, Better::Neither);
/// All of them.
pub(crate) const FIGURES: [&Kind; 7] =
    [&STEP_MEAN, &STEP_MAX, &SLOWDOWN, &BARRIER, &WAIT, &MESSAGES, &CLOSED_FORM];

fn figures(spec: &NodesSpec, books: &Books, quiet: Span) -> Vec<Figure> {
    let figure = |Kind(id, title, unit, better): &Kind, value| Figure {
        id: format!("nodes.{id}"),
        title: (*title).to_owned(),
        unit: *unit,
        better: *better,
        probe: ProbeKind::Mpi,
        is_exact: None,
        value,
    };
    let mut figures =
        vec![figure(&STEP_MEAN, books.mean_step()), figure(&STEP_MAX, books.longest().as_f64())];
    if !quiet.is_zero() {
        figures.push(figure(&SLOWDOWN, books.whole().as_f64() / quiet.as_f64()));
    }
    figures.push(figure(&BARRIER, books.mean_cost()));
    figures.push(figure(&WAIT, books.mean_wait()));
    figures.push(figure(&MESSAGES, books.messages as f64));
    figures.extend(closed_form(spec).map(|value| figure(&CLOSED_FORM, value)));
    figures
}

/// Expected time of a step, where theory knows it: noise that is drawn, with a barrier that costs the same whoever comes
/// when; and a single node that is interrupted periodically.
pub fn closed_form(spec: &NodesSpec) -> Option<f64> {
    let work = micros(spec.work_us);
    let independent = if spec.together { 1 } else { u64::from(spec.count) };
    let is_noiseless = spec.noise == NoiseSpec::None {};
    let barrier = match &spec.barrier {
        _ if spec.count == 1 => 0.0,
        BarrierSpec::Maximum {} => 0.0,
        BarrierSpec::Dissemination(costs) if spec.together || is_noiseless => {
            let costs = Costs::of(costs);
            costs
                .gap_is_hidden()
                .then(|| costs.message().as_f64() * f64::from(barrier::rounds(spec.count)))?
        }
        BarrierSpec::Dissemination(_) | BarrierSpec::Tree(_) => return None,
    };
    let noise = match &spec.noise {
        NoiseSpec::None {} => 0.0,
        NoiseSpec::Exponential { mean_us } => closed::exponential_maximum(independent, micros(*mean_us)),
        NoiseSpec::Pareto { least_us, shape } => {
            closed::pareto_maximum(independent, micros(*least_us), *shape)?
        }
        NoiseSpec::Rare { probability, length_us } => {
            closed::rare_maximum(independent, *probability, micros(*length_us))
        }
        NoiseSpec::Periodic { period_us, length_us } => {
            // Only where nobody waits for anybody is the program one long piece of work.
            let is_one = independent == 1 && (spec.count == 1 || spec.barrier == BarrierSpec::Maximum {});
            let whole = Span::from_nanos(work.nanos().saturating_mul(spec.steps.into()));
            let expected = closed::periodic_single(whole, micros(*period_us), micros(*length_us));
            return (is_one && !whole.is_zero()).then(|| expected / f64::from(spec.steps));
        }
        NoiseSpec::Trace { .. } => return None,
    };
    Some(work.as_f64() + noise + barrier)
}
