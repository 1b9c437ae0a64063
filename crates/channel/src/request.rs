//! Requests and responses over a link: every response names its request, so a late one is not taken for another's.

use std::time::{Duration, Instant};

use crate::endpoint::{Endpoint, left};
use crate::error::{Error, Result};

/// Bytes of the number in front of a request and its response.
const NUMBER: usize = 8;
/// A buffer's first size; it grows to what comes, at most to the longest message.
const FIRST: usize = 4096;

/// Asks.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    number: u64,
    buffer: Vec<u8>,
}

impl Client {
    /// A client over a link whose other side is a [`Server`].
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, number: 0, buffer: vec![0; FIRST] }
    }

    /// Sends a request and waits for its response. Responses to earlier requests that had timed out are dropped.
    pub fn call(&mut self, request: &[u8], timeout: Duration) -> Result<&[u8]> {
        let started = Instant::now();
        self.number = self.number.wrapping_add(1);
        self.endpoint.sender().send(&[&self.number.to_le_bytes(), request], timeout)?;
        loop {
            let remaining = left(started, timeout);
            let (number, length) = receive(&mut self.endpoint, &mut self.buffer, remaining)?;
            if number == self.number {
                return Ok(self.buffer.get(..length).unwrap_or_default());
            }
            let peer = self.endpoint.peer();
            if number > self.number {
                return Err(Error::Garbled {
                    peer,
                    what: "number of a response",
                    wanted: self.number,
                    got: number,
                });
            }
            if remaining.is_zero() {
                let doing = format!("wait for the response of peer {peer} to request {}", self.number);
                return Err(Error::Timeout { doing, after: timeout });
            }
        }
    }

    /// The link itself, for instance to reconnect.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }
}

/// Answers.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    buffer: Vec<u8>,
    response: Vec<u8>,
}

impl Server {
    /// A server over a link whose other side is a [`Client`].
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, buffer: vec![0; FIRST], response: Vec::new() }
    }

    /// Waits for one request and answers with what `answer` appends to the empty response it is given.
    pub fn serve(&mut self, timeout: Duration, answer: impl FnOnce(&[u8], &mut Vec<u8>)) -> Result<()> {
        let started = Instant::now();
        let (number, length) = receive(&mut self.endpoint, &mut self.buffer, timeout)?;
        self.response.clear();
        answer(self.buffer.get(..length).unwrap_or_default(), &mut self.response);
        let remaining = left(started, timeout);
        self.endpoint.sender().send(&[&number.to_le_bytes(), &self.response], remaining)
    }

    /// The link itself, for instance to reconnect.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }
}

/// Number and length of a request or response, whose bytes are then in the buffer.
fn receive(endpoint: &mut Endpoint, buffer: &mut Vec<u8>, timeout: Duration) -> Result<(u64, usize)> {
    let started = Instant::now();
    let mut number = [0; NUMBER];
    let mut got = endpoint.receiver().receive(&mut [&mut number, buffer.as_mut_slice()], timeout);
    // Twice too small is possible only when a peer gives a message up for a longer one: at most until the deadline.
    while let Err(Error::BufferTooSmall { needed, .. }) = got {
        buffer.resize(needed.max(buffer.len()), 0);
        got = endpoint.receiver().receive(&mut [&mut number, buffer.as_mut_slice()], left(started, timeout));
    }
    let got = got?;
    let Some(length) = got.checked_sub(NUMBER) else {
        let (peer, what) = (endpoint.peer(), "length of a request or response");
        return Err(Error::Garbled { peer, what, wanted: NUMBER as u64, got: got as u64 });
    };
    Ok((u64::from_le_bytes(number), length))
}
