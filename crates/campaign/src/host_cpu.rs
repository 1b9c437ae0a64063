//! CPU time of the host during each exchange of the network probe: the first instance of a pair says when an exchange began
//! and ended, the host looked at the processes of both meanwhile.
//!
//! ```text
//!  exchange: began, ended on the instance's clock ─► on the host's clock ─► CpuLog of each of the two ─► CPU time
//! ```
//! What an instance itself says of its host is thrown away. Work that the host's kernel does for nobody in particular (a
//! bridge's soft interrupts that hit another process) is not in it.

use analysis::outside::on_host;
use model::journal::Outcome;
use platforms::host::cpu_log::CpuLog;
use probes::detail::{Detail, NetPoint};
use units::Nanos;
use units::outside::OutsideTime;

/// Puts the host's CPU time into the outcomes of a network probe, in the order of the instances; other outcomes stay as
/// they are.
pub(super) fn tell(outcomes: &mut [Outcome], logs: &[Option<CpuLog>]) {
    let log = |rank: usize| logs.get(rank).and_then(Option::as_ref);
    for (rank, outcome) in outcomes.iter_mut().enumerate() {
        let Outcome::Done(report) = outcome else { continue };
        let outside = report.outside;
        let Detail::Net(net) = &mut report.detail else { continue };
        net.others.clear();
        for point in &mut net.points {
            point.first_host_ns = during(point, outside.as_ref(), log(rank));
            point.second_host_ns = during(point, outside.as_ref(), log(rank ^ 1));
        }
    }
}

fn during(point: &NetPoint, outside: Option<&OutsideTime>, log: Option<&CpuLog>) -> Option<Nanos> {
    let (span, outside) = (point.span?, outside?);
    log?.between(on_host(outside, span.began_ns)?, on_host(outside, span.ended_ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::detail::{NetDetail, NetDirection, NetSpan};
    use probes::job::ProbeReport;
    use probes::params::{Exchange, Protocol};
    use units::Bytes;
    use units::accounts::HostSlice;
    use units::facts::{ClockFacts, OwnCost};
    use units::outside::{ClockReading, ClockTransport};

    fn ns(nanos: u64) -> Nanos {
        Nanos::from_nanos(nanos)
    }

    /// The instance's clock is 1000 behind the host's, and runs at half its rate.
    fn reading(host: u64) -> ClockReading {
        ClockReading {
            host_ns: ns(host),
            monotonic_ns: ns(host.saturating_sub(1000) / 2),
            raw_ns: ns(0),
            realtime_ns: ns(0),
            round_trip_ns: ns(2),
            exchanges: 1,
        }
    }

    fn outcome(span: Option<NetSpan>) -> Outcome {
        let forged = Some(ns(7));
        let point = NetPoint {
            span,
            first_host_ns: forged,
            second_host_ns: forged,
            ..NetPoint::empty(Protocol::Tcp, Exchange::Stream, NetDirection::Out, 8)
        };
        let detail = Detail::Net(NetDetail { points: vec![point], others: vec![NetDetail::default()] });
        let clock = ClockFacts { name: String::new(), read_ns: 1.0, resolution_ns: 1.0 };
        let (cpu_time_ns, memory_bytes) = (Nanos::ZERO, Bytes::from_bytes(0));
        let cost = OwnCost { per_sample_ns: 1.0, cpu_time_ns, memory_bytes };
        let outside = OutsideTime {
            transport: ClockTransport::Link,
            before: reading(1000),
            after: reading(3000),
            began_ns: ns(0),
            ended_ns: ns(0),
        };
        let report = ProbeReport { outside: Some(outside), ..ProbeReport::new(clock, cost, detail, vec![]) };
        Outcome::Done(Box::new(report))
    }

    fn log(each: u64) -> CpuLog {
        let slice = |at: u64| HostSlice { at_ns: ns(at), run_ns: ns(each), wait_ns: ns(0), faults: 0 };
        CpuLog::new(ns(1000), (1..=20).map(|number| slice(1000 + number * 100)).collect())
    }

    fn told(span: Option<NetSpan>, logs: &[Option<CpuLog>]) -> (Option<u64>, Option<u64>) {
        let mut outcomes = [outcome(span)];
        tell(&mut outcomes, logs);
        let [Outcome::Done(report)] = &outcomes else { panic!("it was done") };
        let Detail::Net(net) = &report.detail else { panic!("it is a net detail") };
        assert!(net.others.is_empty());
        (net.points[0].first_host_ns.map(Nanos::get), net.points[0].second_host_ns.map(Nanos::get))
    }

    #[test]
    fn each_end_has_its_own_time_by_the_hosts_clock_and_what_an_instance_claims_is_thrown_away() {
        let span = Some(NetSpan { began_ns: ns(250), ended_ns: ns(750) });
        // 500 … 1500 after the first look, ten slices.
        assert_eq!(told(span, &[Some(log(10)), Some(log(3))]), (Some(100), Some(30)));
        assert_eq!(told(span, &[Some(log(10)), None]), (Some(100), None));
        assert_eq!(told(span, &[]), (None, None));
        assert_eq!(told(None, &[Some(log(10)), Some(log(3))]), (None, None));
        let beyond = Some(NetSpan { began_ns: ns(250), ended_ns: ns(u64::MAX) });
        assert_eq!(told(beyond, &[Some(log(10)), Some(log(3))]), (None, None));
    }
}
