//! Round trips and bandwidth between two processes: the channel beside a socket pair, a pipe, and a plain copy.
//!
//! `cargo bench -p bulkhead-channel --bench ring [-- ROUNDS]`. Everything runs in one run, interleaved: each round
//! measures every way at every size in random order, so ratios are of neighbours in time. Printed are the median over
//! the rounds and, for ratios, the interval that holds the median with at least 95 % (order statistics, Conover,
//! *Practical Nonparametric Statistics*, 3.2).
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bench prints, ends when something is missing, and its sizes are small"
)]

use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use channel::{Endpoint, Layout, Section};

const SIZES: [usize; 8] = [1, 8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20];
const RING: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(120);
/// Bytes and messages of one measurement, whichever ends it first.
const BYTES: usize = 32 << 20;
const MESSAGES: usize = 4000;

/// A way to another process and back.
trait Way {
    fn name(&self) -> &'static str;
    fn send(&mut self, bytes: &[u8]);
    fn receive(&mut self, bytes: &mut [u8]);
}

struct Channel(Endpoint);

impl Way for Channel {
    fn name(&self) -> &'static str {
        "channel"
    }
    fn send(&mut self, bytes: &[u8]) {
        self.0.send(bytes, LONG).unwrap();
    }
    fn receive(&mut self, bytes: &mut [u8]) {
        assert_eq!(self.0.receive(bytes, LONG).unwrap(), bytes.len());
    }
}

struct Socket(UnixStream);

impl Way for Socket {
    fn name(&self) -> &'static str {
        "socket pair"
    }
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }
    fn receive(&mut self, bytes: &mut [u8]) {
        self.0.read_exact(bytes).unwrap();
    }
}

struct Pipes(PipeReader, PipeWriter);

impl Way for Pipes {
    fn name(&self) -> &'static str {
        "pipe"
    }
    fn send(&mut self, bytes: &[u8]) {
        self.1.write_all(bytes).unwrap();
    }
    fn receive(&mut self, bytes: &mut [u8]) {
        self.0.read_exact(bytes).unwrap();
    }
}

fn count(size: usize) -> usize {
    (BYTES / size).clamp(8, MESSAGES)
}

/// Round trips in nanoseconds.
fn round_trips(way: &mut dyn Way, size: usize) -> Vec<f64> {
    let (sent, mut got) = (vec![1; size], vec![0; size]);
    let mut trip = || {
        let started = Instant::now();
        way.send(&sent);
        way.receive(&mut got);
        started.elapsed().as_nanos() as f64
    };
    (0..count(size)).map(|_| trip()).collect()
}

/// Bytes per nanosecond, that is GB/s, one way; the other side answers one byte at the end.
fn bandwidth(way: &mut dyn Way, size: usize) -> f64 {
    let (sent, messages) = (vec![1; size], count(size));
    let started = Instant::now();
    for _ in 0..messages {
        way.send(&sent);
    }
    way.receive(&mut [0]);
    (size * messages) as f64 / started.elapsed().as_nanos() as f64
}

/// The other process: echoes, then swallows, as told by size and kind.
fn other_side(way: &mut dyn Way) {
    loop {
        let mut order = [0; 9];
        way.receive(&mut order);
        let size = u64::from_le_bytes(order[1..].try_into().unwrap()) as usize;
        let mut buffer = vec![0; size];
        for _ in 0..count(size.max(1)) {
            match order[0] {
                b'e' => {
                    way.receive(&mut buffer);
                    way.send(&buffer);
                }
                b's' => way.receive(&mut buffer),
                _ => return,
            }
        }
        if order[0] == b's' {
            way.send(&[1]);
        }
    }
}

fn order(way: &mut dyn Way, kind: u8, size: usize) {
    let mut order = [kind; 9];
    order[1..].copy_from_slice(&(size as u64).to_le_bytes());
    way.send(&order);
}

fn copies(size: usize) -> f64 {
    let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
    to.copy_from_slice(&from);
    let times = count(size);
    let started = Instant::now();
    for _ in 0..times {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }
    (size * times) as f64 / started.elapsed().as_nanos() as f64
}

fn connect(folder: &Path, me: u32, peer: u32) -> (Section, Channel) {
    let section = Section::create(&folder.join(me.to_string()), &Layout::new(me).ring(peer, RING)).unwrap();
    let started = Instant::now();
    let view = loop {
        match Section::open(&folder.join(peer.to_string())) {
            Err(_) if started.elapsed() < LONG => std::thread::sleep(Duration::from_millis(1)),
            view => break view.unwrap(),
        }
    };
    let endpoint = Endpoint::connect(&section, peer, &view, LONG).unwrap();
    (section, Channel(endpoint))
}

/// Starts this program again with a part to play.
fn start(part: &str, folder: &Path, input: Stdio, output: Stdio) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--part", part])
        .arg(folder)
        .stdin(input)
        .stdout(output)
        .spawn()
        .unwrap()
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Median, and in words the order statistics that enclose it with at least 95 %. Fewer than six values enclose it with less,
/// whichever are taken: then there is no interval.
fn median_and_interval(mut values: Vec<f64>) -> (f64, String) {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let median = quantile(&values, 0.5);
    if count < 6 {
        return (median, format!("{count} rounds: no interval"));
    }
    let mut tail = 0.5_f64.powi(i32::try_from(count).unwrap());
    let (mut outside, mut below) = (0, tail);
    for rank in 0..count / 2 {
        if below > 0.025 {
            break;
        }
        outside = rank;
        tail *= (count - rank) as f64 / (rank + 1) as f64;
        below += tail;
    }
    (median, format!("{:.3} to {:.3}", values[outside], values[count - 1 - outside]))
}

/// What one way did at one size, per round.
#[derive(Default, Clone)]
struct Seen {
    trips: Vec<f64>,
    medians: Vec<f64>,
    bandwidths: Vec<f64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--part") {
        let folder = Path::new(&arguments[at + 2]);
        return play(&arguments[at + 1], folder);
    }
    // `cargo test --benches` only wants to see that it runs.
    let quick = !arguments.iter().any(|argument| argument == "--bench");
    let rounds =
        arguments.iter().skip(1).find_map(|text| text.parse().ok()).unwrap_or(if quick { 1 } else { 12 });
    // Sections in memory, where there is a place for them.
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(place).unwrap();
    let mut children = vec![start("channel", folder.path(), Stdio::null(), Stdio::null())];
    let (_section, channel) = connect(folder.path(), 1, 2);
    let (ours, its) = UnixStream::pair().unwrap();
    children.push(start("socket pair", folder.path(), Stdio::from(OwnedFd::from(its)), Stdio::null()));
    let ((there, to), (from, back)) = (pipe().unwrap(), pipe().unwrap());
    children.push(start("pipe", folder.path(), there.into(), back.into()));
    let mut ways: [Box<dyn Way>; 3] = [Box::new(channel), Box::new(Socket(ours)), Box::new(Pipes(from, to))];
    let mut seen = vec![vec![Seen::default(); ways.len()]; SIZES.len()];
    let mut plain = vec![Vec::new(); SIZES.len()];
    for round in 0..rounds {
        for (size, (seen, plain)) in SIZES.into_iter().zip(seen.iter_mut().zip(&mut plain)) {
            plain.push(copies(size));
            for step in 0..ways.len() {
                let at = (step + round) % ways.len();
                measure(ways[at].as_mut(), size, &mut seen[at]);
            }
        }
    }
    for way in &mut ways {
        order(way.as_mut(), b'q', 0);
    }
    for child in &mut children {
        child.wait().unwrap();
    }
    report(&ways, &seen, &plain, rounds);
}

fn measure(way: &mut dyn Way, size: usize, seen: &mut Seen) {
    order(way, b'e', size);
    let mut trips = round_trips(way, size);
    order(way, b's', size);
    seen.bandwidths.push(bandwidth(way, size));
    trips.sort_by(f64::total_cmp);
    seen.medians.push(quantile(&trips, 0.5));
    seen.trips.append(&mut trips);
}

fn play(part: &str, folder: &Path) {
    use std::os::fd::AsFd;
    let input = || std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let output = || std::io::stdout().as_fd().try_clone_to_owned().unwrap();
    match part {
        "channel" => {
            let (_section, mut channel) = connect(folder, 2, 1);
            other_side(&mut channel);
        }
        "pipe" => other_side(&mut Pipes(input().into(), output().into())),
        _ => other_side(&mut Socket(input().into())),
    }
}

fn report(ways: &[Box<dyn Way>], seen: &[Vec<Seen>], plain: &[Vec<f64>], rounds: usize) {
    println!(
        "{rounds} rounds, all ways interleaved in one run; ratios below 1 are in the channel's favour\n"
    );
    println!("round trip        size        p50 ns     p99 ns      max ns   channel / this way (95 %)");
    for (size, seen) in SIZES.iter().zip(seen) {
        for (way, one) in ways.iter().zip(seen) {
            let mut trips = one.trips.clone();
            trips.sort_by(f64::total_cmp);
            let ratios = seen[0].medians.iter().zip(&one.medians).map(|(ours, its)| ours / its).collect();
            let (ratio, interval) = median_and_interval(ratios);
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&trips, share));
            println!(
                "{:<12} {size:>9} {p50:>13.0} {p99:>10.0} {max:>11.0}   {ratio:.3} ({interval})",
                way.name()
            );
        }
    }
    println!("\nbandwidth         size          GB/s   this way / plain copy of the same size (95 %)");
    for ((size, seen), plain) in SIZES.iter().zip(seen).zip(plain) {
        for (way, one) in ways.iter().zip(seen) {
            let ratios = one.bandwidths.iter().zip(plain).map(|(its, copy)| its / copy).collect();
            let (ratio, interval) = median_and_interval(ratios);
            let (speed, _) = median_and_interval(one.bandwidths.clone());
            println!("{:<12} {size:>9} {speed:>13.3}   {ratio:.3} ({interval})", way.name());
        }
        let (speed, _) = median_and_interval(plain.clone());
        println!("{:<12} {size:>9} {speed:>13.3}", "plain copy");
    }
}
