//! What is believed of the net probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, TEXT_CHARS, at_most, because, distinct, histogram, message, require, text};
use crate::detail::{NetDetail, NetDirection, NetPoint};
use crate::params::{Exchange, Protocol};

/// 2 protocols × 3 directions (out, in, there and back) × 16 sizes.
const MOST_EXCHANGES: usize = 96;

pub(crate) fn check(detail: &NetDetail) -> Checked {
    at_most("net.points", detail.points.len(), MOST_EXCHANGES)?;
    at_most("net.others", detail.others.len(), 0)?;
    detail.points.iter().try_for_each(net_point)?;
    let key = |point: &NetPoint| (point.protocol, point.exchange, point.direction, point.message_bytes);
    let mut keys: Vec<_> = detail.points.iter().map(key).collect();
    keys.sort_unstable();
    distinct("net.points", &keys)
}

fn net_point(point: &NetPoint) -> Checked {
    message("net.message_bytes", point.message_bytes)?;
    histogram("net.round_trip_ns", &point.round_trip_ns)?;
    require(point.span.is_none_or(|span| span.began_ns <= span.ended_ns), "net.span ends before it begins")?;
    let says_it = point.first_host_ns.is_some() || point.second_host_ns.is_some();
    require(!says_it, "net: an instance cannot know its host's CPU time")?;
    let is_question = point.exchange == Exchange::RequestResponse;
    if is_question != (point.direction == NetDirection::Both) {
        return Err("net: a stream goes there and back, or a request-response one way".into());
    }
    if let Some(reason) = &point.unsupported {
        text("net.unsupported", reason, TEXT_CHARS)?;
        let empty = point.sent == 0 && point.arrived == 0 && point.bytes.get() == 0;
        return require(empty && point.round_trip_ns.is_empty(), "net: an unsupported point has figures");
    }
    let trips = if is_question { point.arrived } else { 0 };
    require(point.round_trip_ns.count() == trips, "net.round_trip_ns does not hold one time per round trip")?;
    let (arrived, size) = (u128::from(point.arrived), u128::from(point.message_bytes));
    let bytes = u128::from(point.bytes.get());
    // A stream of TCP has no messages on its way: what arrived of the last one counts, too.
    let rest = if point.protocol == Protocol::Tcp && !is_question { size - 1 } else { 0 };
    let whole = arrived * size;
    require((whole..=whole + rest).contains(&bytes), "net.bytes do not fit the messages that arrived")?;
    let timed = point.elapsed_ns.get() > 0 || point.arrived <= 1;
    require(timed, "net: several messages arrived in no time")
}

/// Whether it heard nothing where it could have.
fn is_deaf(net: &NetDetail) -> bool {
    let mut tried = net.points.iter().filter(|point| point.unsupported.is_none()).peekable();
    tried.peek().is_some() && tried.all(|point| point.arrived == 0)
}

pub(crate) fn saw_nothing(detail: &NetDetail) -> Option<String> {
    because(is_deaf(detail), "nothing arrived in any exchange")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::NetSpan;
    use units::histogram::Histogram;
    use units::{Bytes, Nanos};

    fn round_trips() -> NetPoint {
        NetPoint {
            protocol: Protocol::Udp,
            exchange: Exchange::RequestResponse,
            direction: NetDirection::Both,
            message_bytes: 8,
            unsupported: None,
            elapsed_ns: Nanos::from_nanos(100),
            sent: 3,
            arrived: 2,
            bytes: Bytes::from_bytes(16),
            round_trip_ns: Histogram::from_values([40, 60]),
            first_cpu_ns: Nanos::ZERO,
            second_cpu_ns: Nanos::ZERO,
            first_system_ns: None,
            second_system_ns: None,
            span: None,
            first_host_ns: None,
            second_host_ns: None,
        }
    }

    fn stream() -> NetPoint {
        NetPoint {
            protocol: Protocol::Tcp,
            exchange: Exchange::Stream,
            direction: NetDirection::In,
            bytes: Bytes::from_bytes(23),
            round_trip_ns: Histogram::default(),
            ..round_trips()
        }
    }

    #[test]
    fn honest_points_pass_and_lies_do_not() {
        let check = |points: Vec<NetPoint>| super::check(&NetDetail { points, others: Vec::new() });
        assert_eq!(check(vec![round_trips(), stream()]), Ok(()));
        let refused = [
            vec![round_trips(), round_trips()],
            vec![NetPoint { message_bytes: 0, ..round_trips() }],
            vec![NetPoint { message_bytes: u32::MAX, ..round_trips() }],
            vec![NetPoint { direction: NetDirection::Out, ..round_trips() }],
            vec![NetPoint { arrived: 1, ..round_trips() }],
            vec![NetPoint { bytes: Bytes::from_bytes(17), ..round_trips() }],
            vec![NetPoint { bytes: Bytes::from_bytes(24), ..stream() }],
            vec![NetPoint { arrived: u64::MAX, ..stream() }],
            vec![NetPoint { elapsed_ns: Nanos::ZERO, ..stream() }],
            vec![NetPoint { unsupported: Some("no".to_owned()), ..stream() }],
            vec![NetPoint { second_host_ns: Some(Nanos::ZERO), ..stream() }],
            vec![NetPoint {
                span: Some(NetSpan { began_ns: Nanos::from_nanos(2), ended_ns: Nanos::from_nanos(1) }),
                ..stream()
            }],
            (1..=97).map(|message_bytes| NetPoint { message_bytes, ..stream() }).collect(),
        ];
        for (number, points) in refused.into_iter().enumerate() {
            assert!(check(points).is_err(), "case {number}");
        }
    }
}
