//! What the engine's tests share: memory to lend, and ways between engines of one process.
#![allow(dead_code, reason = "each test uses what it needs")]
#![expect(unsafe_code, reason = "memory is lent as a program lends it")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bulkhead_fi::engine::core::{Load, Outgoing, Receive};
use bulkhead_fi::fault::Fault;
use bulkhead_fi::transport::Transport;
use bulkhead_fi::window::{Source, Target};
use bulkhead_fi::wire::HEADER;

/// What lies behind each receive and has to stay as it is.
const CANARY: u8 = 0xa5;
const BEHIND: usize = 32;

/// Memory of a receive, lent to the engine as long as the test lives.
pub struct Room {
    bytes: Box<[u8]>,
    length: usize,
}

impl Room {
    pub fn new(length: usize) -> Self {
        let mut bytes = vec![CANARY; length + BEHIND].into_boxed_slice();
        bytes[..length].fill(0);
        Self { bytes, length }
    }

    pub fn receive(&mut self, context: usize) -> Receive {
        // SAFETY: the box stays where it is until the test's end, which the engine does not outlive.
        let target = unsafe { Target::new(self.bytes.as_mut_ptr(), self.length) };
        Receive { target, context }
    }

    /// What came; panics if something was written behind.
    pub fn bytes(&self) -> &[u8] {
        let (bytes, behind) = self.bytes.split_at(self.length);
        assert!(behind.iter().all(|byte| *byte == CANARY), "bytes behind a receive were written");
        bytes
    }
}

/// A send of memory that stays where it is.
pub fn outgoing(bytes: &'static [u8], tag: u64, data: Option<u64>, context: Option<usize>) -> Outgoing {
    // SAFETY: nobody ever writes it.
    let source = unsafe { Source::new(bytes.as_ptr(), bytes.len()) };
    Outgoing { load: Load::User(source), tag, data, context, inject: context.is_none() }
}

type Line = Arc<Mutex<VecDeque<([u8; HEADER], Vec<u8>)>>>;

/// A way that holds few messages and gives each one away only at the second attempt.
pub struct Pipe {
    out: Line,
    into: Line,
    hesitates: bool,
}

impl Pipe {
    pub fn pair() -> [Self; 2] {
        let (one, other) = (Line::default(), Line::default());
        let end =
            |out: &Line, into: &Line| Self { out: Arc::clone(out), into: Arc::clone(into), hesitates: true };
        [end(&one, &other), end(&other, &one)]
    }
}

impl Transport for Pipe {
    fn connect(&mut self) -> Result<bool, Fault> {
        Ok(true)
    }

    fn obstacle(&self) -> String {
        String::new()
    }

    fn send(&mut self, header: &[u8; HEADER], payload: &[u8]) -> Result<bool, Fault> {
        let mut line = self.out.lock().expect("no panic");
        if line.len() >= 3 {
            return Ok(false);
        }
        line.push_back((*header, payload.to_vec()));
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<([u8; HEADER], usize)>, Fault> {
        let line = self.into.lock().expect("no panic");
        Ok(line.front().map(|(header, payload)| (*header, payload.len())))
    }

    fn take(&mut self, into: &mut [u8], rest: &mut [u8]) -> Result<bool, Fault> {
        self.hesitates = !self.hesitates;
        if !self.hesitates {
            return Ok(false);
        }
        let (_, payload) = self.into.lock().expect("no panic").pop_front().expect("looked at before");
        assert_eq!(payload.len(), into.len() + rest.len());
        into.copy_from_slice(&payload[..into.len()]);
        rest.copy_from_slice(&payload[into.len()..]);
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}
