//! Looks at a partition from outside: asks for an echo every few milliseconds and notes when answers come. Speaks
//! Ethernet, ARP (RFC 826) and ICMP (RFC 792) itself, so that nothing between it and the switch can hide an outage.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Station, address};

/// Between two questions.
pub const EVERY: Duration = Duration::from_millis(5);
/// Its own number in the network.
pub const NUMBER: u8 = 250;

/// Asks partition `target` at a switch.
pub struct Prober {
    station: Station,
    target: u8,
    asked: u16,
    /// When answers came.
    pub answers: Vec<Instant>,
}

impl Prober {
    /// Plugged in at a link's switch.
    pub fn at(link: &Path, target: u8) -> Self {
        Self { station: Station::at(link, NUMBER).connected(), target, asked: 0, answers: Vec::new() }
    }

    /// Asks for so long, and notes what comes back.
    pub fn ask_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.step();
        }
    }

    /// Asks until an answer comes that was sent after this was called.
    pub fn ask_until_answered(&mut self) {
        let (begun, asked) = (Instant::now(), self.answers.len());
        while self.answers.len() == asked {
            assert!(begun.elapsed() < super::HANGS, "no answer within {:?}", super::HANGS);
            self.step();
        }
    }

    /// The longest time without an answer.
    pub fn longest_gap(&self) -> Duration {
        let gaps = self.answers.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0]));
        gaps.max().unwrap_or_default()
    }

    fn step(&mut self) {
        self.asked = self.asked.wrapping_add(1);
        let (question, target) = (echo(self.target, self.asked), self.target);
        self.station.send(&question);
        let next = Instant::now() + EVERY;
        while let Some(frame) = self.station.receive_until(next) {
            match frame.get(12..14) {
                Some([8, 6])
                    if frame.get(38..42) == Some(&[10, 77, 1, NUMBER]) && frame.get(21) == Some(&1) =>
                {
                    let answer = arp(2, target, address(target));
                    self.station.send(&answer);
                }
                // An answer, not a question.
                Some([8, 0]) if frame.get(23) == Some(&1) && frame.get(34) == Some(&0) => {
                    self.answers.push(Instant::now());
                }
                _ => {}
            }
        }
    }
}

fn arp(operation: u8, to: u8, hardware: [u8; 6]) -> Vec<u8> {
    let head = [&hardware[..], &address(NUMBER), &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    [&head[..], &address(NUMBER), &[10, 77, 1, NUMBER], &hardware, &[10, 77, 1, to]].concat()
}

fn echo(to: u8, sequence: u16) -> Vec<u8> {
    let [high, low] = sequence.to_be_bytes();
    let mut message = vec![8, 0, 0, 0, 0, 1, high, low];
    message.resize(64, 0x5a);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum);
    let mut head = vec![0x45, 0, 0, 84, 0, 0, 0, 0, 64, 1, 0, 0, 10, 77, 1, NUMBER, 10, 77, 1, to];
    let sum = checksum(&head);
    head[10..12].copy_from_slice(&sum);
    [&address(to)[..], &address(NUMBER), &[8, 0], &head, &message].concat()
}

/// The internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let folded = !u16::try_from(sum).expect("folded");
    folded.to_be_bytes()
}
