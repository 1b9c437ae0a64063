//! Threads of a guest that wait for a virtual CPU: who is next on one, in logarithmic time.
//!
//! ```text
//!  class (any CPU, priority 9)  ─ thread 4 ─ thread 7      next on virtual CPU 2: the first of the highest priority among
//!  class (any CPU, priority 0)  ─ thread 1                 classes that may use it; of equal priorities, who came first
//!  class (CPU 2,   priority 0)  ─ thread 5 ─ thread 6
//! ```

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::packed::Packed;

/// Threads of one priority with the same places.
#[derive(Debug)]
struct Class {
    /// The only virtual CPU that they may use; none for all.
    bound: Packed,
    /// Higher ones are preferred.
    priority: u8,
    waiting: VecDeque<u32>,
    /// When each of them joined; empty where there is one class, whose order says it.
    joined: VecDeque<u64>,
}

impl Class {
    fn order(bound: Option<u32>, priority: u8) -> (Option<u32>, Reverse<u8>) {
        (bound, Reverse(priority))
    }
}

/// The line.
#[derive(Debug)]
pub(super) struct Line {
    /// By the CPU they are bound to, those that are not first; then the highest priority first.
    classes: Vec<Class>,
    joined: u64,
    waiting: usize,
}

impl Line {
    /// An empty one for threads of these places and priorities.
    pub(super) fn new(kinds: impl Iterator<Item = (Option<u32>, u8)>) -> Self {
        // Threads of a kind come one after the other: a million of them make a short list.
        let mut different: Vec<(Option<u32>, u8)> = Vec::new();
        for kind in kinds {
            if different.last() != Some(&kind) {
                different.push(kind);
            }
        }
        different.sort_unstable_by_key(|(bound, priority)| Class::order(*bound, *priority));
        different.dedup();
        let class = |(bound, priority): (Option<u32>, u8)| Class {
            bound: bound.into(),
            priority,
            waiting: VecDeque::new(),
            joined: VecDeque::new(),
        };
        Self { classes: different.into_iter().map(class).collect(), joined: 0, waiting: 0 }
    }

    /// Whether nobody waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn at(&self, bound: Option<u32>, priority: u8) -> usize {
        let wanted = Class::order(bound, priority);
        self.classes.partition_point(|class| Class::order(class.bound.get(), class.priority) < wanted)
    }

    /// The kind of threads of this place and priority, which [`Self::new`] was told of.
    pub(super) fn kind(&self, bound: Option<u32>, priority: u8) -> u16 {
        // A VM has a thousand kinds at most: the scenario's check sees to it.
        u16::try_from(self.at(bound, priority)).unwrap_or(u16::MAX)
    }

    /// The priority of threads of a kind; higher ones are preferred.
    pub(super) fn priority(&self, kind: u16) -> u8 {
        self.classes.get(usize::from(kind)).map_or(0, |class| class.priority)
    }

    /// Whether threads of a kind may use a virtual CPU.
    pub(super) fn may_use(&self, kind: u16, cpu: u32) -> bool {
        let bound = self.classes.get(usize::from(kind)).and_then(|class| class.bound.get());
        bound.is_none_or(|bound| bound == cpu)
    }

    /// Lets a thread of this kind join at the end.
    pub(super) fn push(&mut self, thread: u32, kind: u16) {
        let many = self.classes.len() > 1;
        let Some(class) = self.classes.get_mut(usize::from(kind)) else { return };
        class.waiting.push_back(thread);
        if many {
            class.joined.push_back(self.joined);
            self.joined += 1;
        }
        self.waiting += 1;
    }

    /// The first class of these in which somebody waits.
    fn first_of(&self, bound: Option<u32>) -> Option<usize> {
        let own = |class: &Class| class.bound.get() == bound;
        let from = self.at(bound, u8::MAX);
        let classes = self.classes.iter().enumerate().skip(from).take_while(|(_, class)| own(class));
        classes.into_iter().find(|(_, class)| !class.waiting.is_empty()).map(|(at, _)| at)
    }

    /// The class whose first thread is next on a virtual CPU.
    fn next_class(&self, cpu: u32) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let rank = |at: &usize| {
            let class = &self.classes[*at];
            (Reverse(class.priority), class.joined.front().copied())
        };
        [self.first_of(None), self.first_of(Some(cpu))].into_iter().flatten().min_by_key(rank)
    }

    /// Who is next on a virtual CPU: the highest priority, then who waits longest.
    pub(super) fn next(&self, cpu: u32) -> Option<u32> {
        self.next_class(cpu).and_then(|at| self.classes[at].waiting.front().copied())
    }

    /// Takes out who is next on a virtual CPU.
    pub(super) fn pop(&mut self, cpu: u32) -> Option<u32> {
        let at = self.next_class(cpu)?;
        let class = &mut self.classes[at];
        class.joined.pop_front();
        self.waiting -= 1;
        class.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn who_is_next_is_who_a_search_through_all_finds(
            kinds in proptest::collection::vec((proptest::option::of(0u32..3), 0u8..3), 1..20),
            steps in proptest::collection::vec((0usize..20, 0u32..3, any::<bool>()), 1..200),
        ) {
            let mut line = Line::new(kinds.iter().copied());
            let mut list: Vec<u32> = Vec::new();
            for (thread, cpu, joins) in steps {
                let thread = u32::try_from(thread % kinds.len()).unwrap_or(0);
                if joins && !list.contains(&thread) {
                    let (bound, priority) = kinds[thread as usize];
                    let kind = line.kind(bound, priority);
                    prop_assert_eq!((line.priority(kind), line.may_use(kind, cpu)), (priority, bound.is_none_or(|at| at == cpu)));
                    line.push(thread, kind);
                    list.push(thread);
                }
                let may = |thread: &&u32| kinds[**thread as usize].0.is_none_or(|bound| bound == cpu);
                // Of equal ones, the first.
                let best = list.iter().filter(may).min_by_key(|thread| Reverse(kinds[**thread as usize].1)).copied();
                prop_assert_eq!(line.next(cpu), best);
                if !joins {
                    prop_assert_eq!(line.pop(cpu), best);
                    list.retain(|thread| Some(*thread) != best);
                }
                prop_assert_eq!(line.is_empty(), list.is_empty());
            }
        }
    }
}
