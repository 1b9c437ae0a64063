//! A client of the bench's own, which knows nothing of the product's: numbered lines over a connection that is kept, and when each came
//! back. It has an address of its own, so that on the wire nobody takes it for the product's.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Where it asks from.
const FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How often it asks.
const EVERY: Duration = Duration::from_millis(8);
/// How long a connection is waited for.
const CONNECTS_WITHIN: Duration = Duration::from_millis(100);

/// A line, when it was sent and when it came back, since 1970.
#[derive(Clone, Copy)]
pub struct Asked {
    pub at: Duration,
    pub answered: Option<Duration>,
}

/// Asks until it is dropped.
pub struct Prober {
    shared: Arc<Shared>,
    asks: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    asked: Mutex<Vec<Asked>>,
}

pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Prober {
    pub fn start(to: SocketAddr) -> Self {
        let shared = Arc::new(Shared::default());
        let asks = Arc::clone(&shared);
        let asks = std::thread::spawn(move || {
            let mut line: Option<(TcpStream, Arc<AtomicBool>)> = None;
            while !asks.is_over.load(Ordering::SeqCst) {
                line = line.filter(|(_, is_closed)| !is_closed.load(Ordering::SeqCst));
                if line.is_none() {
                    line = open(&asks, to);
                }
                let number = {
                    let mut asked = asks.asked.lock().expect("no thread has panicked");
                    asked.push(Asked { at: now(), answered: None });
                    asked.len() - 1
                };
                let told = line.as_mut().map(|(line, _)| line.write_all(format!("{number}\n").as_bytes()));
                if !matches!(told, Some(Ok(()))) {
                    line = None;
                }
                std::thread::sleep(EVERY);
            }
            if let Some((line, _)) = line {
                let _ = line.shutdown(std::net::Shutdown::Both);
            }
        });
        Self { shared, asks: Some(asks) }
    }

    /// What it asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().expect("no thread has panicked").clone()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(asks) = self.asks.take() {
            let _ = asks.join();
        }
    }
}

/// A connection, and whether its other end has closed it.
fn open(shared: &Arc<Shared>, to: SocketAddr) -> Option<(TcpStream, Arc<AtomicBool>)> {
    let line = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&line, &SocketAddrV4::new(FROM, 0)).ok()?;
    set_socket_timeout(&line, Timeout::Send, Some(CONNECTS_WITHIN)).ok()?;
    connect(&line, &to).ok()?;
    let line = TcpStream::from(line);
    line.set_nodelay(true).ok()?;
    let is_closed = Arc::new(AtomicBool::new(false));
    let (reads, closes, copy) = (Arc::clone(shared), Arc::clone(&is_closed), line.try_clone().ok()?);
    std::thread::spawn(move || {
        for text in BufReader::new(copy).lines().map_while(Result::ok) {
            let number = text.parse::<usize>().unwrap_or(usize::MAX);
            if let Some(one) = reads.asked.lock().expect("no thread has panicked").get_mut(number) {
                one.answered.get_or_insert_with(now);
            }
        }
        closes.store(true, Ordering::SeqCst);
    });
    Some((line, is_closed))
}
