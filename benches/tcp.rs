//! What users have already: TCP between two virtual machines through tap devices and a bridge, beside this program's own
//! switch and beside the channel, in turn within one run.
//!
//! ```text
//!   tap      agent in a VM ══ QEMU ══ tap ── bridge ── tap ══ QEMU ══ agent in a VM       in a network namespace of its own
//!   switch   agent in a VM ══ QEMU ── our switch ── QEMU ══ agent in a VM                 the same probe, kernel and card
//!   channel  program in a partition ══ memory ══ program in a partition                   `bulkhead channel bench`
//! ```
//! With the first two the same probe (`net`) asks 8 B there and back and sends messages of 1 MiB. Where the host has
//! `/dev/vhost-net` and works with KVM, the taps' packets are carried by the host's kernel, which is said; else by QEMU.
//! Needs root for the namespace.
//!
//! `cargo bench --bench tcp [-- --rounds N]`

#[path = "../tests/switch_fixture/mod.rs"]
mod switch_fixture;
mod verdict;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use bulkhead::cli::cache_folder;
use bulkhead::model::channel_bench::{ChannelBench, Quantity, Way};
use bulkhead::model::experiment::{Accelerator, PlatformSpec};
use bulkhead::partition::network::switch::SwitchOrder;
use bulkhead::platforms::lab::{Lab, Port};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::vm::platform::Vm;
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext};
use bulkhead::probes::detail::{Detail, NetDirection, NetPoint};
use bulkhead::probes::job::{Job, Part, Peer};
use bulkhead::probes::params::{Exchange, NetParams, ProbeSpec, Protocol};
use bulkhead::stats::summary::histogram_quantile;
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Mebibytes, Millis, Nanos};
use switch_fixture::{Running, folder, guest};
use verdict::{Judge, Mark, say, show};

/// Rounds unless said otherwise.
const ROUNDS: usize = 7;
/// What `channel bench` wants at least.
const CHANNEL_ROUNDS: &str = "3";
const QUESTION: u32 = 8;
const MESSAGE: u32 = 1 << 20;
/// Ports of the two in a network.
const FIRST_PORT: u16 = 7000;
/// Of both kinds of guests.
const MEMORY_MIB: u64 = 256;

/// What one round found: half a line of the table.
#[derive(Debug, Clone, Copy)]
struct Found {
    round_trip_ns: f64,
    bytes_per_s: f64,
}

/// Two machines that reach each other.
struct Pair {
    instances: [Box<dyn Instance>; 2],
    peers: Vec<Peer>,
    jobs: u64,
}

fn main() -> ExitCode {
    verdict::ended("tcp", run())
}

fn run() -> Result<Judge> {
    let words: Vec<String> = std::env::args().collect();
    let after = words.iter().position(|word| word == "--rounds").and_then(|at| words.get(at + 1));
    let rounds = after.map_or(Ok(ROUNDS), |text| text.parse()).context("--rounds")?;
    let dir = tempfile::tempdir()?;
    let ledger = Ledger::open(dir.path())?;
    let tools = guest::tools().context("no guest can be started here")?;
    let mut lab = Lab::build(1).map_err(|reason| anyhow!("a network of taps and a bridge: {reason}"))?;
    let mut tap = at_taps(&mut lab, dir.path())?;
    let prefix = Some([2, 0x4b, 10, 77, 1]);
    let link = folder(dir.path(), "link");
    let switch = Running::start(&SwitchOrder { folder: link.clone(), prefix, ..SwitchOrder::default() });
    let mut own = Pair {
        instances: [1, 2].map(|number| {
            let instance = guest::start(&tools, &ledger, number, std::slice::from_ref(&link));
            Box::new(instance) as Box<dyn Instance>
        }),
        peers: [1, 2].map(|number| peer(Ipv4Addr::new(10, 77, 1, number).into(), FIRST_PORT)).to_vec(),
        jobs: 0,
    };
    let (mut taps, mut owns, mut channels) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Whoever is first in one round is second in the next.
        if round % 2 == 0 {
            taps.push(tap.measure()?);
            owns.push(own.measure()?);
        } else {
            owns.push(own.measure()?);
            taps.push(tap.measure()?);
        }
        channels.push(channel()?);
        if let (Some(tap), Some(own), Some(channel)) = (taps.last(), owns.last(), channels.last()) {
            say(&format!(
                "round {round}: 8 B there and back, tap {:.0} us, switch {:.0} us, channel {:.2} us; 1 MiB, {:.0}, {:.0}, {:.0} MB/s",
                tap.round_trip_ns / 1e3,
                own.round_trip_ns / 1e3,
                channel.round_trip_ns / 1e3,
                tap.bytes_per_s / 1e6,
                own.bytes_per_s / 1e6,
                channel.bytes_per_s / 1e6
            ));
        }
    }
    tap.end();
    own.end();
    switch.terminate();
    Ok(judged(&taps, &owns, &channels))
}

fn judged(taps: &[Found], owns: &[Found], channels: &[Found]) -> Judge {
    let trips = |this: &[Found], other: &[Found]| -> Vec<f64> {
        this.iter().zip(other).map(|(this, other)| this.round_trip_ns / other.round_trip_ns).collect()
    };
    let bandwidths = |this: &[Found], other: &[Found]| -> Vec<f64> {
        this.iter().zip(other).map(|(this, other)| this.bytes_per_s / other.bytes_per_s).collect()
    };
    show("8 B there and back: our switch / tap and bridge", &trips(owns, taps));
    show("bandwidth at 1 MiB: our switch / tap and bridge", &bandwidths(owns, taps));
    let mut judge = Judge::default();
    let what = "8 B there and back: TCP over tap and bridge / channel";
    judge.rounds(what, &trips(taps, channels), Mark::AtLeast(500.0));
    let what = "bandwidth at 1 MiB: channel / TCP over tap and bridge";
    judge.rounds(what, &bandwidths(channels, taps), Mark::AtLeast(50.0));
    judge
}

fn peer(address: IpAddr, port: u16) -> Peer {
    Peer { host: 0, address: SocketAddr::new(address, port) }
}

/// Two guests of the platform `vm`, whose cards are at tap devices.
fn at_taps(lab: &mut Lab, dir: &Path) -> Result<Pair> {
    let run = dir.join("taps");
    std::fs::create_dir(&run)?;
    let mut spec = PlatformSpec::of_kind(PlatformKind::Vm);
    spec.accelerator = Accelerator::Tcg;
    spec.memory_mib = Some(Mebibytes::from_mib(MEMORY_MIB));
    spec.cpus = Some(1);
    let context = PlatformContext {
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(&run)?,
        cache: cache_folder(),
        counter_hz: bulkhead::probes::clock::Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
        seed: 1,
        may_destroy: false,
    };
    let mut vm = Vm::new(&spec, &context);
    let state = vm.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        bail!("{reason}");
    }
    let card = state.properties.iter().find(|(_, value)| value.contains("virtio-net"));
    let card = card.map_or("unknown", |(_, value)| value.as_str());
    let vhost = if Path::new("/dev/vhost-net").exists() { "there" } else { "not there" };
    say(&format!("guests at taps: {card}; /dev/vhost-net is {vhost}, translated guests cannot use it"));
    let ports = [lab.port(0, false), lab.port(0, false)];
    let (mut instances, mut peers) = (Vec::new(), Vec::new());
    for (number, port) in (0..).zip(ports) {
        let port: Port = port.map_err(|reason| anyhow!(reason))?;
        peers.push(peer(port.address, port.first_port));
        instances.push(start(&mut vm, number, port, &run)?);
    }
    let instances = instances.try_into().map_err(|_| anyhow!("two machines were wanted"))?;
    Ok(Pair { instances, peers, jobs: 0 })
}

fn start(vm: &mut Vm, number: u32, port: Port, run: &Path) -> Result<Box<dyn Instance>> {
    let scratch: PathBuf = run.join(format!("scratch-{number}"));
    std::fs::create_dir_all(&scratch)?;
    let spec = InstanceSpec {
        number,
        rank: number,
        disk_wanted: Bytes::from_bytes(64 << 20),
        scratch,
        port: Some(port),
        ..InstanceSpec::default()
    };
    vm.start(&spec, &Cancel::new()).map_err(broken)
}

fn broken(broken: Broken) -> anyhow::Error {
    match broken {
        Broken::Failed(failure) => anyhow!("{}: {}", failure.reason, failure.console.join("\n")),
        Broken::Interrupted => anyhow!("interrupted"),
    }
}

impl Pair {
    fn measure(&mut self) -> Result<Found> {
        let trips = self.exchange(Exchange::RequestResponse, QUESTION)?;
        let stream = self.exchange(Exchange::Stream, MESSAGE)?;
        let trip = trips.first().and_then(|point| histogram_quantile(&point.round_trip_ns, 0.5));
        let out = stream.iter().find(|point| point.direction == NetDirection::Out);
        Ok(Found {
            round_trip_ns: trip.context("no question was answered")?,
            bytes_per_s: out
                .map(|point| point.bytes.as_f64() / point.elapsed_ns.as_secs_f64())
                .filter(|rate| rate.is_finite() && *rate > 0.0)
                .context("nothing arrived")?,
        })
    }

    /// One exchange of the probe `net`; what the first machine saw.
    fn exchange(&mut self, exchange: Exchange, message: u32) -> Result<Vec<NetPoint>> {
        self.jobs += 1;
        let job = |rank: u32| Job {
            id: self.jobs,
            probe: Some(ProbeSpec::Net(NetParams {
                protocols: vec![Protocol::Tcp],
                exchanges: vec![exchange],
                message_bytes: vec![message],
                duration_ms: Millis::from_millis(1000),
            })),
            seed: 1,
            deadline_ms: Millis::from_millis(120_000),
            part: Some(Part { rank, ranks: 2, peers: self.peers.clone() }),
            ..Job::default()
        };
        let outcomes: Vec<Result<Detail>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..)
                .zip(&mut self.instances)
                .map(|(rank, instance)| {
                    let job = job(rank);
                    scope.spawn(move || {
                        instance.begin(&job, &Cancel::new()).map_err(broken)?;
                        instance.start_at(now()?).map_err(broken)?;
                        let reply = instance.finish(&Cancel::new()).map_err(broken)?;
                        let report = reply.report.context("no report")?;
                        report.map(|report| report.detail).map_err(|reason| anyhow!(reason))
                    })
                })
                .collect();
            let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|outcome| outcome.unwrap_or_else(|_| bail!("a machine's thread panicked"))).collect()
        });
        let mut first = None;
        for outcome in outcomes {
            let detail = outcome?;
            first.get_or_insert(detail);
        }
        match first {
            Some(Detail::Net(detail)) => Ok(detail.points),
            _ => bail!("the probe brought another detail"),
        }
    }

    fn end(self) {
        for mut instance in self.instances {
            instance.end();
        }
    }
}

/// The host's monotonic clock: begin at once.
fn now() -> Result<Nanos> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
    Ok(Nanos::from_duration(time.into()))
}

/// The channel between two partitions, by the product's own verb.
fn channel() -> Result<Found> {
    let output = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["channel", "bench", "--quick", "--rounds", CHANNEL_ROUNDS, "--accel", "tcg", "--json"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let bench: ChannelBench = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("bulkhead channel bench ended with {}: {said}", output.status))?;
    let series = |quantity: Quantity, bytes: u64| {
        let series = bench.series.iter().find(|one| one.way == Way::Channel && one.size_bytes == bytes)?;
        let answer = match quantity {
            Quantity::RoundTrip => &series.p50_ns,
            Quantity::Bandwidth => &series.bandwidth_bytes_per_s,
        };
        answer.estimate().map(|estimate| estimate.value)
    };
    let missing = "the bench has no figure of the channel";
    Ok(Found {
        round_trip_ns: series(Quantity::RoundTrip, QUESTION.into()).context(missing)?,
        bytes_per_s: series(Quantity::Bandwidth, MESSAGE.into()).context(missing)?,
    })
}
