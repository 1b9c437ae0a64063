//! Pages of a guest as its host sees them: what the guest says of its memory nodes is only half of where a page lies.
//!
//! ```text
//!  page ─► node in the guest (the guest's kernel) ─► node of the host (the host's numa_maps)
//!          local: on the node of the probe's CPU      local: on the node of the CPU that carries it
//! ```
//! A page is near only when both are, so the shares are multiplied: as if where a page lies on the host did not depend on
//! where it lies in the guest, which is exact where either side has one node.

use probes::detail::{Detail, PagesDetail};
use units::accounts::HostAccount;
use units::metric::{Better, Figure, Metric, Unit};

/// Id of the share of near pages, as the instance says it.
const LOCAL: &str = "local_share";

/// Puts what the host saw of the guest's memory into the metrics of the page probe; others stay as they are, and so do
/// those of instances that see the host's nodes themselves.
pub(super) fn seen_from_host(metrics: &mut Vec<Metric>, detail: &Detail, host: Option<&HostAccount>) {
    let (Detail::Pages(pages), Some(host)) = (detail, host) else { return };
    let Some(memory) = &host.memory else { return };
    let share = host.local_share().map_or_else(
        || {
            let why =
                memory.unknown.clone().unwrap_or_else(|| "no CPU of the guest was seen to run".to_owned());
            Figure::Unsupported(format!(
                "on which nodes of the host the guest's memory lies is not known: {why}"
            ))
        },
        Figure::Value,
    );
    for metric in metrics.iter_mut().filter(|metric| metric.id == LOCAL) {
        metric.figure = match (&metric.figure, &share) {
            (Figure::Value(inside), Figure::Value(outside)) => Figure::Value(inside * outside),
            (Figure::Value(_), unknown) => unknown.clone(),
            (unsupported, _) => unsupported.clone(),
        };
    }
    let extra = |id: &str, title: &str, unit, better, figure| Metric {
        id: id.to_owned(),
        title: title.to_owned(),
        unit,
        better,
        headline: false,
        figure,
    };
    metrics.push(extra(
        "host_local_share",
        "the guest's memory on the host's node that its CPU is on",
        Unit::Share,
        Better::Higher,
        share,
    ));
    metrics.push(extra(
        "host_faults_per_page_ratio",
        "page faults of the host per page of the first pass",
        Unit::Count,
        Better::Neither,
        faults_per_page(pages, host),
    ));
}

/// Near 1 where the host has to find every page, near 0 where it had them already or gives them in large pieces.
fn faults_per_page(pages: &PagesDetail, host: &HostAccount) -> Figure {
    let touched = pages.passes.first().map_or(0, |pass| pass.touch_ns.count());
    let ratio = Some(host.faults as f64 / touched as f64).filter(|ratio| ratio.is_finite());
    ratio.map_or_else(|| Figure::Unsupported("no page was touched".to_owned()), Figure::Value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::detail::PagesPass;
    use probes::metrics_of;
    use units::accounts::HostMemory;
    use units::facts::ClockFacts;
    use units::histogram::Histogram;
    use units::{Bytes, Nanos};

    fn pages(nodes: Vec<(u32, u64)>) -> Detail {
        let pass = PagesPass {
            start_ns: Nanos::ZERO,
            elapsed_ns: Nanos::from_nanos(1_000_000),
            touch_ns: Histogram::from_values((0..2000).map(|_| 500)),
            minor_faults: 2000,
            nodes,
        };
        Detail::Pages(PagesDetail {
            page_bytes: Bytes::from_bytes(4096),
            size_bytes: Bytes::from_bytes(2000 * 4096),
            fresh: true,
            own_node: Some(0),
            passes: vec![pass],
        })
    }

    fn metrics(detail: &Detail, host: Option<&HostAccount>) -> Vec<Metric> {
        let clock = ClockFacts { name: "tsc".to_owned(), read_ns: 1.0, resolution_ns: 1.0 };
        let mut metrics = metrics_of(detail, &clock);
        seen_from_host(&mut metrics, detail, host);
        metrics
    }

    fn figure<'a>(metrics: &'a [Metric], id: &str) -> Option<&'a Figure> {
        metrics.iter().find(|metric| metric.id == id).map(|metric| &metric.figure)
    }

    fn host(after: &[(u32, u64)], node: Option<u32>, unknown: Option<&str>) -> HostAccount {
        let after_bytes = after.iter().map(|(node, bytes)| (*node, Bytes::from_bytes(*bytes))).collect();
        let unknown = unknown.map(str::to_owned);
        let memory = HostMemory { before_bytes: Vec::new(), after_bytes, unknown };
        HostAccount { faults: 1000, node, memory: Some(memory), ..HostAccount::default() }
    }

    #[test]
    fn a_page_is_near_only_where_guest_and_host_say_so() {
        let all_near = pages(vec![(0, 2000)]);
        let half = host(&[(0, 4096), (1, 4096)], Some(1), None);
        let seen = metrics(&all_near, Some(&half));
        assert_eq!(figure(&seen, LOCAL), Some(&Figure::Value(0.5)), "the guest alone would say 1");
        assert_eq!(figure(&seen, "host_local_share"), Some(&Figure::Value(0.5)));
        assert_eq!(figure(&seen, "host_faults_per_page_ratio"), Some(&Figure::Value(0.5)));
        let both = metrics(&pages(vec![(0, 1000), (1, 1000)]), Some(&half));
        assert_eq!(figure(&both, LOCAL), Some(&Figure::Value(0.25)));
        let one_node = metrics(&all_near, Some(&host(&[(0, 4096)], Some(0), None)));
        assert_eq!(figure(&one_node, LOCAL), Some(&Figure::Value(1.0)));
    }

    #[test]
    fn what_the_host_does_not_say_is_not_taken_from_the_guest() {
        let all_near = pages(vec![(0, 2000)]);
        for (host, why) in [
            (host(&[], None, Some("not permitted")), "not permitted"),
            (host(&[(0, 4096)], None, None), "no CPU of the guest"),
        ] {
            let seen = metrics(&all_near, Some(&host));
            for id in [LOCAL, "host_local_share"] {
                let Some(Figure::Unsupported(reason)) = figure(&seen, id) else {
                    panic!("{id} has a figure")
                };
                assert!(reason.contains(why), "{reason}");
            }
        }
        // A process or a container asked the host's own kernel.
        let own = HostAccount { memory: None, ..host(&[], Some(0), None) };
        for host in [None, Some(&own)] {
            let seen = metrics(&all_near, host);
            assert_eq!(figure(&seen, LOCAL), Some(&Figure::Value(1.0)));
            assert_eq!(figure(&seen, "host_local_share"), None);
        }
    }
}
