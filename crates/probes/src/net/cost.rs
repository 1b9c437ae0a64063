//! How long the exchanges of the network probe take.

use super::params::{Exchange, NetParams, Protocol};
use crate::probe::{message_time, whole_messages};

/// Streams go in both directions, UDP leaves out what no datagram can hold.
pub(super) fn points(params: &NetParams) -> u32 {
    let mut points = 0;
    for protocol in &params.protocols {
        let sizes = params.message_bytes.iter().filter(|size| fits(*protocol, **size));
        let sizes = u32::try_from(sizes.count()).unwrap_or(u32::MAX);
        for exchange in &params.exchanges {
            points += sizes * if *exchange == Exchange::Stream { 2 } else { 1 };
        }
    }
    points
}

/// What large messages add to the times that exchanges are told: none ends in the middle of a message, and a round trip is
/// made at least once to warm up and once to be timed.
pub(super) fn transfer(params: &NetParams, slow: f64) -> f64 {
    if slow <= 0.0 {
        return 0.0;
    }
    let time = params.duration_ms.to_duration().as_secs_f64();
    let sizes = |protocol| params.message_bytes.iter().filter(move |size| fits(protocol, **size));
    let of = |exchange: Exchange, size: u32| match exchange {
        Exchange::Stream => 2.0 * (message_time(size, slow) - time).max(0.0),
        Exchange::RequestResponse => {
            let trip = 2.0 * message_time(size, slow);
            whole_messages(time / 10.0, trip) + whole_messages(time, trip) - time
        }
    };
    let all = params.protocols.iter().flat_map(|protocol| sizes(*protocol));
    all.flat_map(|size| params.exchanges.iter().map(move |exchange| of(*exchange, *size))).sum()
}

/// UDP leaves out what no datagram can hold.
fn fits(protocol: Protocol, size: u32) -> bool {
    protocol == Protocol::Tcp || size <= 65_507
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProbeKind;
    use crate::params::{MpiParams, ProbeSpec};
    use units::Millis;

    #[test]
    fn large_messages_take_as_long_as_they_take_and_small_ones_their_time() {
        let seconds = |sizes: &[u32], exchange, slow| {
            let net = NetParams {
                protocols: vec![Protocol::Tcp, Protocol::Udp],
                exchanges: vec![exchange],
                message_bytes: sizes.to_vec(),
                duration_ms: Millis::from_millis(100),
            };
            transfer(&net, slow)
        };
        let (small, large) = ([1], [32 << 20]);
        assert!(seconds(&small, Exchange::Stream, 8.0).abs() < 1e-9);
        let warm_up = seconds(&small, Exchange::RequestResponse, 8.0);
        assert!((warm_up - 0.02).abs() < 1e-3, "a tenth more to warm up, of both protocols: {warm_up}");
        let message = f64::from(32 << 20) * 1.0 / 1e9 * 100.0;
        let streams = seconds(&large, Exchange::Stream, 100.0);
        assert!((streams - 2.0 * (message - 0.1)).abs() < 1e-9, "TCP alone, in both directions: {streams}");
        let trips = seconds(&large, Exchange::RequestResponse, 100.0);
        assert!((trips - (2.0 * 2.0 * message - 0.1)).abs() < 1e-9, "two round trips: {trips}");
        let mpi = MpiParams { message_bytes: large.to_vec(), ..MpiParams::default() };
        assert!(ProbeSpec::Mpi(mpi).transfer(2.0, 100.0) > 2.0 * message);
        assert!(ProbeSpec::default_of(ProbeKind::Fwq).transfer(1.0, 1.0).abs() < 1e-9);
    }
}
