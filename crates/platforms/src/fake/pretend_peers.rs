//! Made-up data of the probes net and mpi: a memory-speed network inside a host, a slower one with a longer way between
//! two hosts. Every figure follows from the seeds and the script.

use super::pretend::Maker;
use model::detail::{Detail, MpiDetail, MpiPattern, MpiPoint, NetDetail, NetDirection, NetPoint};
use model::histogram::Histogram;
use model::metric::saturate;
use model::params::{Exchange, MpiParams, NetParams, Protocol};
use model::units::{Bytes, Nanos};

/// Round trips and iterations made up per point at most.
const MOST_TIMES: u64 = 2000;
/// What fits into a datagram.
const LARGEST_DATAGRAM: u32 = 65_507;

/// The way between two instances.
#[derive(Clone, Copy)]
struct Way {
    /// Time of an empty message.
    latency_ns: f64,
    /// Time per byte beyond that.
    byte_ns: f64,
}

fn way(maker: &Maker) -> Way {
    let hosts = maker.part.as_ref().map_or(&[][..], |part| &part.peers[..]);
    let apart = matches!(hosts, [first, second, ..] if first.host != second.host);
    if apart { Way { latency_ns: 30_000.0, byte_ns: 0.8 } } else { Way { latency_ns: 9_000.0, byte_ns: 0.2 } }
}

/// Number of this instance, and how many there are; a pair when nothing is said.
fn place(maker: &Maker) -> (u32, u32) {
    maker.part.as_ref().map_or((0, 2), |part| (part.rank, part.ranks))
}

pub(super) fn net(maker: &mut Maker, params: &NetParams) -> Result<Detail, String> {
    let (rank, ranks) = place(maker);
    if ranks < 2 {
        return Err("the net probe needs two instances".to_owned());
    }
    let mut points: Vec<NetPoint> = Vec::new();
    // The second of a pair, and one without a partner, have nothing to tell.
    let tells = rank.is_multiple_of(2) && rank + 1 < ranks;
    for protocol in params.protocols.iter().filter(|_| tells) {
        for exchange in &params.exchanges {
            let directions: &[NetDirection] = match exchange {
                Exchange::Stream => &[NetDirection::Out, NetDirection::In],
                Exchange::RequestResponse => &[NetDirection::Both],
            };
            for size in &params.message_bytes {
                for direction in directions {
                    let point = maker.net_point(params, *protocol, *exchange, *direction, *size);
                    let same = |known: &NetPoint| {
                        (known.protocol, known.direction, known.message_bytes)
                            == (*protocol, *direction, *size)
                    };
                    if !points.iter().any(same) {
                        points.push(point);
                    }
                }
            }
        }
    }
    Ok(Detail::Net(NetDetail { points, others: Vec::new() }))
}

impl Maker {
    fn net_point(
        &mut self,
        params: &NetParams,
        protocol: Protocol,
        exchange: Exchange,
        direction: NetDirection,
        message_bytes: u32,
    ) -> NetPoint {
        let duration_ns = params.duration_ms.as_f64() * 1e6;
        let empty = NetPoint::empty(protocol, exchange, direction, message_bytes);
        if protocol == Protocol::Udp && message_bytes > LARGEST_DATAGRAM {
            let reason =
                format!("a UDP datagram carries at most {LARGEST_DATAGRAM} bytes, not {message_bytes}");
            return NetPoint { unsupported: Some(reason), ..empty };
        }
        let (way, size) = (way(self), f64::from(message_bytes));
        let mut point = match exchange {
            Exchange::Stream => {
                let each = self.nanos(400.0 + size * way.byte_ns);
                let sent = saturate(duration_ns / each as f64).max(1);
                // A datagram in two hundred is lost.
                let arrived = if protocol == Protocol::Udp { sent - sent / 200 } else { sent };
                NetPoint { elapsed_ns: Nanos::from_nanos(sent * each), sent, arrived, ..empty }
            }
            Exchange::RequestResponse => {
                let native = 2.0 * (way.latency_ns + size * way.byte_ns);
                let count = saturate(duration_ns / native).clamp(20, MOST_TIMES);
                let times = Histogram::from_values((0..count).map(|_| self.nanos(native)));
                let elapsed = u64::try_from(times.sum()).unwrap_or(u64::MAX);
                NetPoint {
                    elapsed_ns: Nanos::from_nanos(elapsed),
                    sent: count,
                    arrived: count,
                    round_trip_ns: times,
                    ..empty
                }
            }
        };
        point.bytes = Bytes::from_bytes(point.arrived * u64::from(message_bytes));
        let busy = |share: f64| Nanos::from_nanos(saturate(point.elapsed_ns.as_f64() * share));
        let (first, second) = (busy(0.9), busy(0.6));
        NetPoint { first_cpu_ns: first, second_cpu_ns: second, ..point }
    }

    fn mpi_point(&mut self, params: &MpiParams, pattern: MpiPattern, size: u32, ranks: u32) -> MpiPoint {
        let way = way(self);
        let one = way.latency_ns / 2.0 + f64::from(size) * way.byte_ns;
        let native = match pattern {
            MpiPattern::PingPong => 2.0 * one,
            MpiPattern::AllToAll => one * f64::from(ranks - 1),
        };
        let iterations = saturate(params.duration_ms.as_f64() * 1e6 / native).clamp(20, MOST_TIMES);
        let iteration_ns = Histogram::from_values((0..iterations).map(|_| self.nanos(native)));
        let elapsed = u64::try_from(iteration_ns.sum()).unwrap_or(u64::MAX);
        MpiPoint {
            pattern,
            message_bytes: size,
            iterations,
            elapsed_ns: Nanos::from_nanos(elapsed),
            iteration_ns,
        }
    }
}

pub(super) fn mpi(maker: &mut Maker, params: &MpiParams) -> Result<Detail, String> {
    let (rank, instances) = place(maker);
    let ranks = instances * params.ranks_per_instance;
    if ranks < 2 {
        return Err("the mpi probe needs two ranks".to_owned());
    }
    let mut sizes: Vec<u32> = Vec::new();
    for size in params.message_bytes.iter().filter(|_| rank == 0) {
        if !sizes.contains(size) {
            sizes.push(*size);
        }
    }
    let mut points = Vec::new();
    for pattern in [MpiPattern::PingPong, MpiPattern::AllToAll] {
        for size in &sizes {
            points.push(maker.mpi_point(params, pattern, *size, ranks));
        }
    }
    Ok(Detail::Mpi(MpiDetail { ranks, ranks_per_instance: params.ranks_per_instance, points }))
}

#[cfg(test)]
mod tests {
    use super::super::pretend::{Pretence, report};
    use super::*;
    use crate::link::check_report;
    use model::job::{Job, Part, Peer};
    use model::params::ProbeSpec;

    fn made(probe: &ProbeSpec, rank: u32, ranks: u32, hosts: u32) -> Detail {
        let address = "127.0.0.1:1".parse().unwrap();
        let peers = (0..ranks).map(|rank| Peer { host: rank % hosts, address }).collect();
        let pretence =
            Pretence { seed: 1, label: "f".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
        let job = Job { part: Some(Part { rank, ranks, peers }), seed: 3, ..Job::default() };
        let report = report(&pretence, probe, &job).unwrap();
        assert_eq!(check_report(&report), Ok(()));
        report.detail
    }

    #[test]
    fn only_who_leads_tells_and_the_longer_way_takes_longer() {
        let sizes = vec![1, 65_507, 65_508, 1, 32 << 20];
        let net = ProbeSpec::Net(NetParams { message_bytes: sizes.clone(), ..NetParams::default() });
        let mpi = ProbeSpec::Mpi(MpiParams { message_bytes: sizes, ..MpiParams::default() });
        let points = |detail: Detail| match detail {
            Detail::Net(detail) => detail.points.len(),
            Detail::Mpi(detail) => detail.points.len(),
            _ => 99,
        };
        let alone = |probe: &ProbeSpec| {
            let pretence =
                Pretence { seed: 1, label: "f".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
            report(&pretence, probe, &Job::default()).map(|report| points(report.detail))
        };
        assert_eq!((alone(&net), alone(&mpi)), (Ok(24), Ok(8)));
        assert_eq!([0, 1, 2].map(|rank| points(made(&net, rank, 3, 1))), [24, 0, 0]);
        assert_eq!([0, 1, 2].map(|rank| points(made(&mpi, rank, 3, 1))), [8, 0, 0]);
        let first_trip = |hosts| match made(&mpi, 0, 2, hosts) {
            Detail::Mpi(detail) => {
                detail.points[0].iteration_ns.sum() / u128::from(detail.points[0].iterations)
            }
            _ => 0,
        };
        assert!(first_trip(2) > 2 * first_trip(1));
    }
}
