//! The event queue: what happens next?
//!
//! ```text
//!   push(at, event) ─► heap, four children per node, ordered by (at, number of the push) ─► pop
//! ```
//! The order is total and stated: earlier events first; of simultaneous ones, who was pushed first. Nothing is taken
//! out of the middle: whoever changes his mind marks his events with a stamp and lets the stale ones pass.

use super::time::Time;

/// Children per node: a node and its children lie in few cache lines, and the heap is half as deep as a binary one.
const CHILDREN: usize = 4;

#[derive(Debug, Clone, Copy)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (u64, u64) {
        (self.at.nanos(), self.number)
    }
}

/// A queue of events of type `E`, which should be small.
#[derive(Debug, Clone)]
pub struct Queue<E> {
    heap: Vec<Entry<E>>,
    pushed: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: Vec::new(), pushed: 0 }
    }
}

impl<E: Copy> Queue<E> {
    /// An empty queue with room for so many events.
    pub fn with_capacity(events: usize) -> Self {
        Self { heap: Vec::with_capacity(events), pushed: 0 }
    }

    /// Number of events that are waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Lets `event` happen at `at`.
    pub fn push(&mut self, at: Time, event: E) {
        let entry = Entry { at, number: self.pushed, event };
        self.pushed += 1;
        self.heap.push(entry);
        self.rise(entry);
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some((last.at, last.event)) };
        self.sink(last);
        Some((first.at, first.event))
    }

    /// Brings the entry at the end to its place.
    fn rise(&mut self, entry: Entry<E>) {
        let mut place = self.heap.len() - 1;
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = entry;
    }

    /// Lets an entry take the first place and brings it from there to its own.
    fn sink(&mut self, entry: Entry<E>) {
        let end = self.heap.len();
        let mut place = 0;
        loop {
            let first = place * CHILDREN + 1;
            if first >= end {
                break;
            }
            let mut least = first;
            for child in first + 1..end.min(first + CHILDREN) {
                if self.heap[child].key() < self.heap[least].key() {
                    least = child;
                }
            }
            if entry.key() <= self.heap[least].key() {
                break;
            }
            self.heap[place] = self.heap[least];
            place = least;
        }
        self.heap[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_simultaneous_ones_in_the_order_of_their_pushes(
            steps in proptest::collection::vec((0u64..20, 0usize..3), 1..300),
        ) {
            let mut queue = Queue::default();
            // Brute force: a list that is sorted each time; sorting is stable.
            let mut list: Vec<(u64, usize)> = Vec::new();
            for (number, (at, pops)) in steps.into_iter().enumerate() {
                queue.push(Time::from_nanos(at), number);
                list.push((at, number));
                for _ in 0..pops {
                    list.sort_by_key(|(at, _)| *at);
                    let expected = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(queue.pop().map(|(at, number)| (at.nanos(), number)), expected);
                }
            }
            list.sort_by_key(|(at, _)| *at);
            prop_assert_eq!(queue.len(), list.len());
            while let Some((at, number)) = queue.pop() {
                prop_assert_eq!((at.nanos(), number), list.remove(0));
            }
            prop_assert!(list.is_empty() && queue.is_empty());
        }
    }
}
