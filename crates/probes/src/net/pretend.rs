//! Made-up outcomes of the net probe, for the fake platform.

use units::histogram::Histogram;
use units::metric::saturate;
use units::{Bytes, Nanos};

use crate::detail::{NetDetail, NetDirection, NetPoint};
use crate::params::{Exchange, NetParams, Protocol};
use crate::pretend::{MOST_TIMES, Maker, place, way};

/// What fits into a datagram.
const LARGEST_DATAGRAM: u32 = 65_507;

pub(crate) fn pretend(maker: &mut Maker, params: &NetParams) -> NetDetail {
    let (rank, ranks) = place(maker);
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
    NetDetail { points, others: Vec::new() }
}

impl Maker {
    pub(super) fn net_point(
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
}
