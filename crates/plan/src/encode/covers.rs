//! Those who speak and are too many for one node: of the talks that hold them together one is far, whichever node it is.
//!
//! ```text
//!  a ─ b ─ c ─ d   together more than any node has  ─►  far(a,b) or far(b,c) or far(c,d)
//!  node by node: if a is there and nothing is far, all are there: no room. a is somewhere: so something is far
//! ```
//! Cover inequalities of a knapsack (Balas, "Facets of the knapsack polytope", 1975) over the trees of a graph that is cut into
//! parts (Ferreira, Martin, de Souza, Weismantel, Wolsey, "The node capacitated graph partitioning problem: a computational
//! study", 1998).

use std::collections::{BTreeSet, VecDeque};

use super::Encoder;
use crate::pb::{Implied, Lit};
use model::system::Level;

/// Trees that are looked at.
const MOST_TREES: usize = 40_000;
/// Trees that are taken, the smallest first.
const MOST_COVERS: usize = 1500;

/// Some who speak: talks that hold them together, and they.
struct Tree {
    talks: Vec<usize>,
    pieces: Vec<usize>,
}

impl Encoder<'_> {
    /// All of one host: where there are several, other goals come first, and cases are many.
    pub(super) fn covers(&mut self) {
        if self.problem.site.hosts.len() != 1 {
            return;
        }
        let edges: Vec<(usize, usize, Lit)> = self
            .apart
            .iter()
            .filter(|((a, b), _)| [a, b].iter().all(|piece| self.problem.pieces[**piece].parts < 2))
            .map(|((a, b), (far, _))| (*a, *b, *far))
            .collect();
        let mut implied = Vec::new();
        for tree in self.too_large(&edges) {
            let far: Vec<Lit> = tree.talks.iter().map(|talk| edges[*talk].2).collect();
            // Whoever has the fewest nodes to be on.
            let count = |piece: &usize| self.x[*piece].iter().flatten().count();
            let Some(root) = tree.pieces.iter().copied().min_by_key(count) else { continue };
            let cases = self.x[root].iter().flatten().map(|x| !*x).collect();
            implied.push(Implied { clause: far, cases });
        }
        self.formula.implied = implied;
    }

    /// Trees too large for any node, that without any of their leaves are not.
    fn too_large(&self, edges: &[(usize, usize, Lit)]) -> Vec<Tree> {
        let mut at: Vec<Vec<usize>> = vec![Vec::new(); self.problem.pieces.len()];
        for (number, (a, b, _)) in edges.iter().enumerate() {
            at[*a].push(number);
            at[*b].push(number);
        }
        let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
        let mut open: VecDeque<Tree> = VecDeque::new();
        let mut found = Vec::new();
        let single =
            |number: usize| Tree { talks: vec![number], pieces: vec![edges[number].0, edges[number].1] };
        let mut next: Vec<Tree> = (0..edges.len()).map(single).collect();
        loop {
            for tree in next.drain(..) {
                if seen.len() >= MOST_TREES || found.len() >= MOST_COVERS {
                    return found;
                }
                if !seen.insert(tree.talks.clone()) {
                    continue;
                }
                if self.fit_together(&tree.pieces) {
                    open.push_back(tree);
                } else if self.is_least(&tree, edges) {
                    found.push(tree);
                }
            }
            let Some(tree) = open.pop_front() else { return found };
            for &piece in &tree.pieces {
                for &talk in &at[piece] {
                    let (a, b, _) = edges[talk];
                    let other = if a == piece { b } else { a };
                    if tree.pieces.contains(&other) {
                        continue;
                    }
                    let mut talks = tree.talks.clone();
                    talks.push(talk);
                    talks.sort_unstable();
                    let pieces = tree.pieces.iter().copied().chain([other]).collect();
                    next.push(Tree { talks, pieces });
                }
            }
        }
    }

    /// Whether the rest of it fits, whichever leaf is left out.
    fn is_least(&self, tree: &Tree, edges: &[(usize, usize, Lit)]) -> bool {
        let degree = |piece: usize| {
            tree.talks.iter().filter(|talk| edges[**talk].0 == piece || edges[**talk].1 == piece).count()
        };
        tree.pieces.iter().filter(|leaf| degree(**leaf) == 1).all(|leaf| {
            let rest: Vec<usize> = tree.pieces.iter().copied().filter(|piece| piece != leaf).collect();
            self.fit_together(&rest)
        })
    }

    /// Whether some node has room for all of them by the sums of its CPUs and of its memory, and they may meet.
    fn fit_together(&self, pieces: &[usize]) -> bool {
        let problem = self.problem;
        let may_meet = problem.meetings.keys().all(|meeting| {
            matches!(meeting.level, Level::Core | Level::Cache)
                || !(pieces.contains(&meeting.pieces.0) && pieces.contains(&meeting.pieces.1))
        });
        may_meet
            && problem.site.nodes.iter().enumerate().any(|(number, node)| {
                let all = || pieces.iter().map(|piece| &problem.pieces[*piece]);
                pieces.iter().all(|piece| self.x[*piece][number].is_some())
                    && all().map(|one| one.milli(node)).sum::<i64>() <= 1000 * node.cpus()
                    && all().map(crate::problem::Piece::plain_memory).sum::<i64>() <= node.memory
            })
    }
}
