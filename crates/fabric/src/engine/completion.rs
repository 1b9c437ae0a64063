//! Completions, in the order in which operations ended, and errors beside them.

use std::collections::VecDeque;

/// How an operation ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completion {
    /// The program's name for the operation.
    pub context: usize,
    /// libfabric's flags.
    pub flags: u64,
    /// Bytes.
    pub length: usize,
    /// Where the bytes are, if the program gave a place.
    pub buffer: usize,
    /// Data that came with the message.
    pub data: u64,
    /// The message's tag.
    pub tag: u64,
    /// Who sent it, where known.
    pub source: Option<u32>,
    /// Zero, or the number of the error.
    pub error: i32,
    /// Bytes that did not fit.
    pub overflow: usize,
}

/// One completion queue. It grows as far as operations are posted.
#[derive(Debug, Default)]
pub struct Queue {
    done: VecDeque<Completion>,
    failed: VecDeque<Completion>,
}

impl Queue {
    /// Adds a completion or, if its error says so, a failure.
    pub fn push(&mut self, completion: Completion) {
        if completion.error == 0 {
            self.done.push_back(completion);
        } else {
            self.failed.push_back(completion);
        }
    }

    /// The oldest completion.
    pub fn pop(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// The oldest failure.
    pub fn pop_failed(&mut self) -> Option<Completion> {
        self.failed.pop_front()
    }

    /// Whether a failure waits to be read.
    pub fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Number of failures that wait to be read.
    pub fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.failed.is_empty()
    }
}
