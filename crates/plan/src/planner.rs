//! The whole way: from a system and its hosts to a plan that is proven best, or to what cannot hold together.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::Plan;
use model::system::{KnownHost, System};

use crate::assemble::{self, Places};
use crate::decide::{Outcome, best};
use crate::elsewhere;
use crate::encode::encode;
use crate::pb::{Log, Solver};
use crate::problem::{Piece, Problem};
use crate::search::{floors, soon};

/// How often the search that comes first shakes what it has.
const SHAKES: usize = 300;

/// Pieces times nodes with more of which nothing is proven but by sums.
const MOST_PLACES: usize = 20_000;

/// Replicas that fit nowhere of which is told.
const MOST_NAMED: usize = 8;

/// What is planned, and with what.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The system.
    pub system: &'a System,
    /// Its hosts.
    pub hosts: &'a [KnownHost],
    /// The plan from which as few as possible are moved.
    pub from: Option<&'a Plan>,
    /// Whether a certificate is wanted.
    pub proof: bool,
    /// Asked now and then; true ends the search with the best so far.
    pub is_over: &'a dyn Fn() -> bool,
}

/// What came out.
#[derive(Debug)]
pub enum Answer {
    /// A plan.
    Planned(Box<Planned>),
    /// The needs cannot hold together.
    Impossible {
        /// The certificate, if one was wanted.
        certificate: Option<String>,
    },
    /// The time was over before a plan was found.
    Ended,
    /// None was found of a system too large for a proof, in as many tries as are made.
    NotFound {
        /// Replicas that fit no empty node, or too few of a host that they may be on: for them there is none. The first few.
        without_room: Vec<String>,
    },
    /// Room for when a host dies is planned by the exact search alone, and this is too large for it.
    TooLarge,
}

/// A plan, and how it was found.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The certificate, if one was wanted.
    pub certificate: Option<String>,
    /// Conflicts of the search.
    pub conflicts: u64,
}

/// Plans.
pub fn plan(question: &Question<'_>) -> Answer {
    let mut problem = Problem::new(question.system, question.hosts, &BTreeSet::new());
    if let Some(from) = question.from {
        problem.was = problem.nodes_in(from);
    }
    answer(question, &problem)
}

fn answer(question: &Question<'_>, problem: &Problem) -> Answer {
    let size = problem.pieces.len() * problem.site.nodes.len();
    if size > MOST_PLACES {
        return if problem.has_downtimes() { Answer::TooLarge } else { roughly(question, problem) };
    }
    let state = soon(problem, SHAKES, question.is_over);
    let encoded = encode(problem);
    let mut log = if question.proof { Log::kept() } else { Log::default() };
    for (piece, nodes) in encoded.x.iter().enumerate() {
        for (node, x) in nodes.iter().enumerate() {
            let Some(x) = x else { continue };
            let here = &problem.site.nodes[node];
            log.name(*x, &problem.pieces[piece].name, &problem.site.hosts[here.host].name, here.number);
        }
    }
    let mut solver = Solver::new(&encoded.formula, log);
    if let Some(state) = &state {
        encoded.suggest(state, &mut solver);
    }
    let outcome = best(&encoded.formula, &mut solver, question.is_over);
    let conflicts = solver.conflicts();
    let certificate = std::mem::take(&mut solver.log).finish();
    match outcome {
        Outcome::Nothing => Answer::Impossible { certificate },
        Outcome::Ended => Answer::Ended,
        Outcome::Found(found) => {
            let places = Places::of_solution(problem, &encoded, &found.values);
            let goals = assemble::goal_values(&found.goals);
            let mut plan = assemble::plan(question.system, problem, &places, goals);
            let solution = (&encoded, found.values.as_slice());
            elsewhere::tell(&mut plan, problem, solution, elsewhere::MOST_WORK, question.is_over);
            Answer::Planned(Box::new(Planned { plan, certificate, conflicts }))
        }
    }
}

/// Replicas that fit nowhere, whatever the others do.
fn without_room(problem: &Problem) -> Vec<String> {
    let fits_on = |piece: &Piece, host: usize| {
        let nodes = problem.site.hosts[host].nodes.clone();
        let fitting = nodes.filter(|node| piece.fits(&problem.site.nodes[*node])).count();
        piece.parts > 0 && fitting >= piece.parts as usize
    };
    let has_none = |piece: &&Piece| !piece.hosts.iter().any(|host| fits_on(piece, *host));
    problem.pieces.iter().filter(has_none).take(MOST_NAMED).map(|piece| piece.name.clone()).collect()
}

/// The best that is found soon, of a system too large for more.
fn roughly(question: &Question<'_>, problem: &Problem) -> Answer {
    let Some(state) = soon(problem, 0, question.is_over) else {
        return if (question.is_over)() {
            Answer::Ended
        } else {
            Answer::NotFound { without_room: without_room(problem) }
        };
    };
    let (moves, hosts, spanned, between_hosts, between_nodes) = state.worth(problem);
    let (least_hosts, least_percent) = floors(problem);
    let goals = [
        (moves, 0),
        (hosts, least_hosts),
        (spanned, 0),
        (between_hosts, 0),
        (between_nodes, 0),
        (state.fullest(problem), least_percent),
    ];
    let places = Places {
        nodes: state.nodes.clone(),
        disk: state.disk.clone(),
        card: state.card.clone(),
        spare: vec![Vec::new(); problem.pieces.len()],
        counts: BTreeMap::new(),
    };
    let mut plan = assemble::plan(question.system, problem, &places, assemble::goal_values(&goals));
    plan.notes.push(format!(
        "where else each could be is looked at up to {MOST_PLACES} replicas times nodes; this system has more"
    ));
    Answer::Planned(Box::new(Planned { plan, certificate: None, conflicts: 0 }))
}
