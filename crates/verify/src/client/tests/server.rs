//! Servers that vanish and come back when a test says so, lose lines, send some twice, and are slow in several ways.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::requirement::{Client, ClientKind, OneOrMore};
use units::Millis;

/// What a server does with each line or connection.
pub const UP: u32 = 0;
/// It takes connections, and cuts them off.
pub const GONE: u32 = 1;
/// It takes what comes and answers nothing.
pub const SILENT: u32 = 2;
/// It answers twice.
pub const TWICE: u32 = 3;
/// It stands still for [`STANDS_STILL`] before each tenth answer.
pub const SLOW: u32 = 4;
pub const STANDS_STILL: Duration = Duration::from_millis(40);
/// It answers one after the other, and takes [`TAKES`] for each.
pub const ONE_BY_ONE: u32 = 5;
pub const TAKES: Duration = Duration::from_millis(30);
/// It takes [`SLUGGISH_TAKES`] for each, all at once.
pub const SLUGGISH: u32 = 7;
pub const SLUGGISH_TAKES: Duration = Duration::from_millis(900);
/// Whoever comes waits until it goes on, and is answered then.
pub const FROZEN: u32 = 6;
/// It answers [`IN_A_BURST`] in each [`BURST_EVERY`].
pub const BURSTS: u32 = 8;
pub const IN_A_BURST: u32 = 24;
pub const BURST_EVERY: Duration = Duration::from_millis(400);

/// What all connections of a server share. Each server has its own: other tests would take its turns.
#[derive(Default)]
struct Turns {
    /// Whose answer it is.
    turn: Mutex<()>,
    /// When the burst ends in which answers are given, and how many have been.
    burst: Mutex<(Option<Instant>, u32)>,
}

impl Turns {
    /// Waits for its turn in a burst.
    fn burst(&self) {
        let mut burst = self.burst.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = *burst.0.get_or_insert_with(|| Instant::now() + BURST_EVERY);
        if burst.1 >= IN_A_BURST {
            thread::sleep(ends.saturating_duration_since(Instant::now()));
        }
        let now = Instant::now();
        if now >= ends {
            *burst = (Some(now + BURST_EVERY), 0);
        }
        burst.1 += 1;
    }
}

pub struct Server {
    state: Arc<AtomicU32>,
    /// Who asks it.
    pub client: Client,
}

impl Server {
    /// On a port of its own, for as long as the test runs.
    pub fn start(kind: ClientKind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let state = Arc::new(AtomicU32::new(UP));
        let (says, turns) = (Arc::clone(&state), Arc::new(Turns::default()));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (state, turns) = (Arc::clone(&says), Arc::clone(&turns));
                thread::spawn(move || serve(&stream, kind, &state, &turns));
            }
        });
        let (period_ms, answer_within_ms) = (Millis::from_millis(5), Millis::from_millis(300));
        Self {
            state,
            client: Client {
                kind,
                at: OneOrMore::one(at),
                path: "/".to_owned(),
                period_ms,
                answer_within_ms,
                concurrency: 8,
            },
        }
    }

    pub fn set(&self, state: u32) {
        self.state.store(state, Ordering::SeqCst);
    }
}

fn serve(mut stream: &TcpStream, kind: ClientKind, state: &AtomicU32, turns: &Turns) {
    stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a deadline");
    let (mut waiting, mut chunk, mut answers) = (Vec::new(), [0; 4096], 0);
    if kind == ClientKind::Greeting && state.load(Ordering::SeqCst) == UP {
        let _ = stream.write_all(b"220 hello\r\n");
        return;
    }
    loop {
        let now = state.load(Ordering::SeqCst);
        if now == GONE {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        match stream.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => waiting.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(_) => return,
        }
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            // Who closes while something is unread cuts off (RST), and its answer may be lost.
            if kind == ClientKind::Http && line != b"\r\n" {
                continue;
            }
            let answer =
                if kind == ClientKind::Http { b"HTTP/1.1 204 No Content\r\n\r\n".to_vec() } else { line };
            while state.load(Ordering::SeqCst) == FROZEN {
                thread::sleep(Duration::from_millis(2));
            }
            let now = state.load(Ordering::SeqCst);
            let times = match now {
                UP | SLOW | ONE_BY_ONE | SLUGGISH | BURSTS => 1,
                TWICE => 2,
                _ => 0,
            };
            answers += 1;
            if now == ONE_BY_ONE {
                let _turn = turns.turn.lock().unwrap_or_else(PoisonError::into_inner);
                thread::sleep(TAKES);
            }
            if now == BURSTS {
                turns.burst();
            }
            if now == SLUGGISH {
                thread::sleep(SLUGGISH_TAKES);
            }
            if now == SLOW && answers % 10 == 0 {
                thread::sleep(STANDS_STILL);
            }
            for _ in 0..times {
                let _ = stream.write_all(&answer);
            }
            if kind == ClientKind::Http {
                return;
            }
        }
    }
}
