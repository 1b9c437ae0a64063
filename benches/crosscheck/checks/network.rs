//! iperf3 and sockperf beside the network probe, over loopback: a TCP stream in iperf3's own message size, and messages of
//! 64 bytes there and back over TCP and UDP. Both ends of the probe are threads of this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bulkhead::probes::detail::{Detail, NetDirection, NetPoint};
use bulkhead::probes::job::Peer;
use bulkhead::probes::params::{Exchange, NetParams, ProbeSpec, Protocol};
use bulkhead::units::Millis;
use bulkhead::units::metric::Unit;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};

use super::another;
use crate::own;
use crate::parse::{iperf3, sockperf};
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const IPERF3: Tool = Tool { name: "iperf3", package: "iperf3" };
const SOCKPERF: Tool = Tool { name: "sockperf", package: "sockperf" };
const PATIENCE: Duration = Duration::from_secs(60);
/// iperf3's own for TCP.
const STREAM_BYTES: u32 = 128 << 10;
const QUESTION_BYTES: u32 = 64;
const SECONDS: &str = "1";
const MILLIS: Millis = Millis::from_millis(1000);
/// Ports of one instance.
const PORTS: u16 = 100;

pub struct Stream;

impl Check for Stream {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::at_least("TCP stream / iperf3", Unit::BytesPerSecond, 0.97)]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let port = free_ports(1)?.port().to_string();
        let server = IPERF3.start(&["-s", "-1", "-B", "127.0.0.1", "-p", &port], world.folder())?;
        let size = STREAM_BYTES.to_string();
        let client = ["-c", "127.0.0.1", "-p", &port, "-t", SECONDS, "-l", &size, "--json"];
        let printed = patiently(|| IPERF3.run(&client, world.folder(), PATIENCE))?;
        drop(server);
        Ok(vec![iperf3::parse(&printed)?])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let points = ours(world, Protocol::Tcp, Exchange::Stream, STREAM_BYTES)?;
        let out = points.iter().find(|point| point.direction == NetDirection::Out);
        let out = out.ok_or("the network probe left out the stream")?;
        Ok(vec![out.bytes.as_f64() / out.elapsed_ns.as_secs_f64()])
    }
}

pub struct Questions;

impl Check for Questions {
    fn name(&self) -> &'static str {
        "sockperf"
    }

    fn rows(&self) -> Vec<Row> {
        vec![
            Row::at_most("TCP round trip, p50 / sockperf", Unit::Nanoseconds, 1.05),
            Row::at_most("UDP round trip, p50 / sockperf", Unit::Nanoseconds, 1.05),
        ]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        [Protocol::Tcp, Protocol::Udp].into_iter().map(|protocol| ask(world.folder(), protocol)).collect()
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        [Protocol::Tcp, Protocol::Udp]
            .into_iter()
            .map(|protocol| {
                let points = ours(world, protocol, Exchange::RequestResponse, QUESTION_BYTES)?;
                let point = points.first().ok_or("the network probe left out the questions")?;
                let median = bulkhead::stats::summary::histogram_quantile(&point.round_trip_ns, 0.5);
                median.ok_or_else(|| "no question was answered".to_owned())
            })
            .collect()
    }
}

fn ask(folder: &Path, protocol: Protocol) -> Result<f64, String> {
    let port = free_ports(1)?.port().to_string();
    let size = QUESTION_BYTES.to_string();
    let mut server = vec!["sr", "-i", "127.0.0.1", "-p", &port];
    let mut client = vec!["pp", "-i", "127.0.0.1", "-p", &port, "-m", &size, "-t", SECONDS];
    if protocol == Protocol::Tcp {
        server.push("--tcp");
        client.push("--tcp");
    }
    let server = SOCKPERF.start(&server, folder)?;
    let outcome = patiently(|| sockperf::parse(&SOCKPERF.run(&client, folder, PATIENCE)?));
    drop(server);
    outcome
}

/// A client may come before its server listens: it is run again for a while.
fn patiently<T>(mut client: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(200));
    loop {
        match client() {
            Err(_) if begin.elapsed() < Duration::from_secs(4) => thread::sleep(Duration::from_millis(200)),
            outcome => return outcome,
        }
    }
}

fn ours(world: &World, protocol: Protocol, exchange: Exchange, size: u32) -> Result<Vec<NetPoint>, String> {
    let params = NetParams {
        protocols: vec![protocol],
        exchanges: vec![exchange],
        message_bytes: vec![size],
        duration_ms: MILLIS,
    };
    let base = free_ports(2 * PORTS)?;
    let at = |offset: u16| Peer { host: 0, address: SocketAddr::new(base.ip(), base.port() + offset) };
    match own::run_together(&ProbeSpec::Net(params), &world.scratch, &[at(0), at(PORTS)])? {
        Detail::Net(detail) => Ok(detail.points),
        other => Err(another(&other)),
    }
}

/// An address of loopback with so many free ports from it on, as far as a look at every tenth can tell. Never the same
/// twice: a tool that does not reuse addresses cannot listen where connections have just ended.
fn free_ports(count: u16) -> Result<SocketAddr, String> {
    static TURN: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 100).unwrap_or(0);
    // Without SO_REUSEADDR, as such tools bind: a connection that ended a moment ago still holds its port.
    let free = |port: u16| {
        let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        made.is_ok_and(|made| bind(made.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).is_ok())
    };
    (0..100)
        .map(|_| 12_000 + first.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed)) % 100 * 2 * PORTS)
        .find(|base| (*base..base + count).step_by(10).all(free))
        .map(|base| SocketAddr::from((Ipv4Addr::LOCALHOST, base)))
        .ok_or_else(|| "there are no free ports on loopback".to_owned())
}
