//! Ordered sets of numbers, as many as are wanted over the same numbers, each number in one of them at most: who is first,
//! and who is the first that meets a bound, in logarithmic time.
//!
//! ```text
//!         ● key, least of all below        treap: ordered by key from left to right, by a hash of the number from
//!       ╱   ╲                              top to bottom, so that it is as deep as chance makes it, and the same
//!      ●     ●                             for the same numbers whatever the order in which they came
//! ```
//! Source: Seidel and Aragon, "Randomized search trees" (1996); the least of a second measure below each node as in Linux'
//! tree of eligible deadlines.

use crate::time::Time;

/// No number.
const NONE: u32 = u32::MAX;
/// In place of a child: it is in no set.
const OUT: u32 = u32::MAX - 1;

/// A second measure of which the least below each node is known.
pub trait Measure: Copy {
    /// The least of both.
    fn least(self, other: Self) -> Self;
}

impl Measure for () {
    fn least(self, (): Self) -> Self {}
}

impl Measure for Time {
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
}

#[derive(Debug, Clone, Copy)]
struct Node<K, M> {
    key: K,
    own: M,
    least: M,
    left: u32,
    right: u32,
}

/// One of the sets. Who is first is asked for more often than anything else, so it is kept at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    root: u32,
    first: u32,
}

impl Default for Set {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Set {
    /// Nobody.
    pub const EMPTY: Self = Self { root: NONE, first: NONE };

    /// Whether nobody is in it.
    pub const fn is_empty(self) -> bool {
        self.root == NONE
    }

    /// Its first: least key, then least number.
    pub fn first(self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

/// The sets; whoever asks keeps them.
#[derive(Debug, Clone)]
pub struct Forest<K, M = ()> {
    nodes: Vec<Node<K, M>>,
}

/// Spreads numbers so that neighbours have nothing to do with each other (the last steps of `MurmurHash3`).
const fn height(id: u32) -> u32 {
    let id = (id ^ (id >> 16)).wrapping_mul(0x85eb_ca6b);
    let id = (id ^ (id >> 13)).wrapping_mul(0xc2b2_ae35);
    id ^ (id >> 16)
}

impl<K: Ord + Copy, M: Measure> Forest<K, M> {
    /// For the numbers below `count`; none is in a set.
    pub fn new(count: usize, key: K, own: M) -> Self {
        Self { nodes: vec![Node { key, own, least: own, left: OUT, right: NONE }; count] }
    }

    /// For one number more, which is in no set.
    pub fn grow(&mut self, key: K, own: M) {
        self.nodes.push(Node { key, own, least: own, left: OUT, right: NONE });
    }

    /// Whether a number is in a set.
    pub fn holds(&self, id: u32) -> bool {
        self.node(id).left != OUT
    }

    /// The key that a number has, or had when it was in a set last.
    pub fn key(&self, id: u32) -> K {
        self.node(id).key
    }

    /// The second measure of a number that is in a set.
    pub fn own(&self, id: u32) -> M {
        self.node(id).own
    }

    /// Changes the key of a number that is in no set.
    pub fn set_key(&mut self, id: u32, key: K) {
        self.nodes[id as usize].key = key;
    }

    fn node(&self, id: u32) -> &Node<K, M> {
        &self.nodes[id as usize]
    }

    fn is_before(&self, one: u32, other: u32) -> bool {
        (self.node(one).key, one) < (self.node(other).key, other)
    }

    /// Takes in a number that is in no set.
    pub fn insert(&mut self, set: &mut Set, id: u32, key: K, own: M) {
        debug_assert!(!self.holds(id), "{id} is in a set");
        self.nodes[id as usize] = Node { key, own, least: own, left: NONE, right: NONE };
        set.root = self.put(set.root, id);
        if set.first == NONE || self.is_before(id, set.first) {
            set.first = id;
        }
    }

    /// Takes out a number that is in this set.
    pub fn remove(&mut self, set: &mut Set, id: u32) {
        set.root = self.cut(set.root, id);
        self.nodes[id as usize].left = OUT;
        if set.first == id {
            set.first = self.leftmost(set.root);
        }
    }

    fn put(&mut self, root: u32, id: u32) -> u32 {
        if root == NONE || height(id) > height(root) {
            let (left, right) = self.split(root, id);
            return self.join(id, left, right);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.is_before(id, root) {
            let left = self.put(left, id);
            self.join(root, left, right)
        } else {
            let right = self.put(right, id);
            self.join(root, left, right)
        }
    }

    fn cut(&mut self, root: u32, id: u32) -> u32 {
        if root == NONE {
            return NONE;
        }
        let Node { left, right, .. } = *self.node(root);
        if root == id {
            return self.merge(left, right);
        }
        if self.is_before(id, root) {
            let left = self.cut(left, id);
            self.join(root, left, right)
        } else {
            let right = self.cut(right, id);
            self.join(root, left, right)
        }
    }

    /// A node with these children.
    fn join(&mut self, root: u32, left: u32, right: u32) -> u32 {
        let mut least = self.node(root).own;
        for child in [left, right] {
            if child != NONE {
                least = least.least(self.node(child).least);
            }
        }
        let node = &mut self.nodes[root as usize];
        (node.left, node.right, node.least) = (left, right, least);
        root
    }

    /// Who comes before `id`, and who after.
    fn split(&mut self, root: u32, id: u32) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.is_before(id, root) {
            let (before, after) = self.split(left, id);
            (before, self.join(root, after, right))
        } else {
            let (before, after) = self.split(right, id);
            (self.join(root, left, before), after)
        }
    }

    fn merge(&mut self, one: u32, other: u32) -> u32 {
        if one == NONE || other == NONE {
            return if one == NONE { other } else { one };
        }
        if height(one) > height(other) {
            let Node { left, right, .. } = *self.node(one);
            let right = self.merge(right, other);
            self.join(one, left, right)
        } else {
            let Node { left, right, .. } = *self.node(other);
            let left = self.merge(one, left);
            self.join(other, left, right)
        }
    }

    fn leftmost(&self, root: u32) -> u32 {
        let (mut found, mut at) = (NONE, root);
        while at != NONE {
            found = at;
            at = self.node(at).left;
        }
        found
    }

    /// The first whose second measure meets a bound, which is such that who has less of it meets it too.
    pub fn first_within(&self, set: Set, meets: &impl Fn(M) -> bool) -> Option<u32> {
        let first = set.first()?;
        if meets(self.own(first)) { Some(first) } else { self.search(set.root, meets) }
    }

    fn search(&self, root: u32, meets: &impl Fn(M) -> bool) -> Option<u32> {
        if root == NONE || !meets(self.node(root).least) {
            return None;
        }
        let node = self.node(root);
        let own = || meets(node.own).then_some(root);
        self.search(node.left, meets).or_else(own).or_else(|| self.search(node.right, meets))
    }

    /// Calls `each` with everybody in order until that says no; says whether it never did.
    pub fn walk(&self, set: Set, each: &mut impl FnMut(u32) -> bool) -> bool {
        self.walk_below(set.root, each)
    }

    fn walk_below(&self, root: u32, each: &mut impl FnMut(u32) -> bool) -> bool {
        if root == NONE {
            return true;
        }
        let node = self.node(root);
        self.walk_below(node.left, each) && each(root) && self.walk_below(node.right, each)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Measure for u32 {
        fn least(self, other: Self) -> Self {
            self.min(other)
        }
    }

    proptest! {
        #[test]
        fn sets_are_those_of_a_list_that_is_sorted_each_time(
            steps in proptest::collection::vec((0u32..40, 0u64..8, 0u32..50, 0usize..2), 1..300),
        ) {
            let mut forest: Forest<u64, u32> = Forest::new(40, 0, 0);
            let mut sets = [Set::EMPTY; 2];
            let mut lists: [Vec<(u64, u32, u32)>; 2] = [Vec::new(), Vec::new()];
            for (id, key, own, set) in steps {
                if forest.holds(id) {
                    let at = usize::from(!lists[0].iter().any(|entry| entry.1 == id));
                    forest.remove(&mut sets[at], id);
                    lists[at].retain(|entry| entry.1 != id);
                } else {
                    forest.insert(&mut sets[set], id, key, own);
                    lists[set].push((key, id, own));
                    lists[set].sort_unstable();
                }
                for (set, list) in sets.iter().zip(&lists) {
                    prop_assert_eq!(set.first(), list.first().map(|entry| entry.1));
                    let within = list.iter().find(|entry| entry.2 <= 20).map(|entry| entry.1);
                    prop_assert_eq!(forest.first_within(*set, &|own| own <= 20), within);
                    let mut seen = Vec::new();
                    forest.walk(*set, &mut |id| { seen.push(id); true });
                    prop_assert_eq!(seen, list.iter().map(|entry| entry.1).collect::<Vec<_>>());
                }
            }
        }
    }
}
