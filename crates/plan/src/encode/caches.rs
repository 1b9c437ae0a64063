//! Who must have no last-level cache in common, on nodes with several: rule `isolation` and `apart` by `cache`.
//!
//! ```text
//!  of a node:   cache 0 ▇▇▇▇▒▒··   cache 1 ▇▇░░░░░░     ▇ ▒ who must not meet somebody: counted by cache
//!                                                       ░ the pool, if somebody in it must not; · anybody else: goes where there is room
//! ```
//! Nobody else's place is decided here: what is left of caches takes them, whole cores for those that want whole cores.

use model::plan::Rule;
use model::system::Level;

use super::{At, Count, Encoder, Group, kind};
use crate::pb::Lit;

/// Bits of counts: more CPUs than a node can have.
const BITS: u32 = 13;

impl Encoder<'_> {
    pub(super) fn keep_caches(&mut self) {
        for node in 0..self.problem.site.nodes.len() {
            let meetings: Vec<(Rule, (usize, usize))> = self
                .problem
                .meetings
                .iter()
                .filter(|(meeting, _)| meeting.level == Level::Cache)
                .map(|(meeting, rule)| (*rule, meeting.pieces))
                .filter(|(_, (a, b))| self.x[*a][node].is_some() && self.x[*b][node].is_some())
                .collect();
            if !meetings.is_empty() && self.problem.site.nodes[node].caches.len() > 1 {
                self.keep_caches_of(node, &meetings);
            }
        }
    }

    fn keep_caches_of(&mut self, node: usize, meetings: &[(Rule, (usize, usize))]) {
        self.group(Group::Caches);
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let is_shared = |piece: usize| problem.pieces[piece].share.is_some();
        let mut wary: Vec<usize> = meetings.iter().flat_map(|(_, (a, b))| [*a, *b]).collect();
        wary.sort_unstable();
        wary.dedup();
        let has_pool = wary.iter().any(|piece| is_shared(*piece));
        wary.retain(|piece| !is_shared(*piece));
        let mut at: Vec<(Option<usize>, Vec<Lit>)> = Vec::new();
        let mut of_cache: Vec<Vec<(i64, Lit)>> = vec![Vec::new(); here.caches.len()];
        for piece in wary.iter().copied().map(Some).chain(has_pool.then_some(None)) {
            at.push((piece, self.counts(node, piece, &mut of_cache)));
        }
        if has_pool {
            self.pool(node);
        }
        self.cores_for_others(node, &wary, &mut of_cache);
        for (cache, terms) in of_cache.into_iter().enumerate() {
            self.at_most(terms, here.caches[cache].len() as i64);
        }
        let spots = |piece: usize| {
            at.iter().find(|(of, _)| *of == (!is_shared(piece)).then_some(piece)).map(|of| &of.1)
        };
        for (rule, (a, b)) in meetings.iter().copied() {
            self.group(Group::Rule(rule));
            let (Some(x_a), Some(x_b)) = (self.x[a][node], self.x[b][node]) else { continue };
            let (Some(at_a), Some(at_b)) = (spots(a).cloned(), spots(b).cloned()) else { continue };
            if is_shared(a) && is_shared(b) {
                self.clause([!x_a, !x_b]);
                continue;
            }
            for (one, other) in at_a.into_iter().zip(at_b) {
                self.clause([!x_a, !x_b, !one, !other]);
            }
        }
    }

    /// How many CPUs a piece, or the pool, has at each cache, and whether it has any.
    fn counts(&mut self, node: usize, piece: Option<usize>, of_cache: &mut [Vec<(i64, Lit)>]) -> Vec<Lit> {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let unit = match piece {
            Some(piece) if problem.pieces[piece].cores => i64::from(here.threads),
            _ => 1,
        };
        let whole = piece.map(|piece| problem.pieces[piece].whole(here));
        let (mut sum, mut spots) = (Vec::new(), Vec::new());
        let who = piece.map_or(usize::MAX, |piece| piece);
        for (cache, cpus) in here.caches.iter().enumerate() {
            let there = self.variable(At::Node(node), (kind::AT_CACHE, who, cache));
            let most = (cpus.len() as i64).min(whole.unwrap_or(i64::MAX)) / unit;
            let mut terms = Vec::new();
            for bit in (0..BITS).take_while(|bit| 1i64 << bit <= most) {
                let lit =
                    self.variable(At::Node(node), (kind::COUNT, who, cache * BITS as usize + bit as usize));
                terms.push((unit << bit, lit));
                self.clause([!lit, there]);
            }
            of_cache[cache].extend(terms.iter().copied());
            self.counts.push(Count { node, piece, cache, terms: terms.clone() });
            sum.extend(terms);
            spots.push(there);
        }
        if let (Some(whole), Some(Some(x))) = (whole, piece.map(|piece| self.x[piece][node])) {
            self.at_least(sum.iter().copied().chain([(-whole, x)]), 0);
            self.at_most(sum.into_iter().chain([(-whole, x)]), 0);
        }
        spots
    }

    /// The pool is large enough for those who share it.
    fn pool(&mut self, node: usize) {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let guests = self.guests(node);
        let pool: Vec<(i64, Lit)> = self
            .counts
            .iter()
            .filter(|count| count.node == node && count.piece.is_none())
            .flat_map(|count| count.terms.clone())
            .collect();
        let sharing = guests.iter().filter(|(piece, _)| problem.pieces[*piece].share.is_some());
        let milli = sharing.clone().map(|(piece, x)| (-problem.pieces[*piece].milli(here), *x));
        self.at_least(pool.iter().map(|(count, lit)| (1000 * count, *lit)).chain(milli), 0);
        for (piece, x) in sharing {
            let wanted = (-problem.pieces[*piece].cpus, *x);
            self.at_least(pool.iter().copied().chain([wanted]), 0);
        }
        let whole = guests.iter().map(|(piece, x)| (problem.pieces[*piece].whole(here), *x));
        self.at_most(whole.chain(pool), here.cpus());
    }

    /// Whole cores for those who want whole cores and may be at any cache.
    fn cores_for_others(&mut self, node: usize, wary: &[usize], of_cache: &mut [Vec<(i64, Lit)>]) {
        let problem = self.problem;
        let here = &problem.site.nodes[node];
        let threads = i64::from(here.threads);
        let wanted: Vec<(i64, Lit)> = self
            .guests(node)
            .into_iter()
            .filter(|(piece, _)| problem.pieces[*piece].cores && !wary.contains(piece))
            .map(|(piece, x)| (-problem.pieces[piece].whole(here), x))
            .collect();
        if threads < 2 || wanted.is_empty() {
            return;
        }
        let mut all = Vec::new();
        for (cache, cpus) in here.caches.iter().enumerate() {
            let most = cpus.len() as i64 / threads;
            for bit in (0..BITS).take_while(|bit| 1i64 << bit <= most) {
                let lit = self.variable(At::Node(node), (kind::CORES, cache, bit as usize));
                of_cache[cache].push((threads << bit, lit));
                all.push((threads << bit, lit));
            }
        }
        self.at_least(all.into_iter().chain(wanted), 0);
    }
}
