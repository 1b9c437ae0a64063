//! Where a guest's memory lies on its host: a table below the pictures of the probes that are about memory.

use maud::{Markup, html};

use model::results::{CellResult, RunResults};
use probes::ProbeKind;
use units::accounts::HostAccount;
use units::{Bytes, three_digits};

use super::parts::{behind, bounded, cell_words, plain_table};

/// Nodes listed per guest.
const NODES_LISTED: usize = 8;
/// Guests listed.
const GUESTS_LISTED: usize = 64;

/// The table; nothing when no guest was measured by this probe, or its host was not asked.
pub(super) fn table(results: &RunResults, probe: ProbeKind) -> Markup {
    let seen = |cell: &&CellResult| {
        cell.cell.probe == probe && cell.host.as_ref().is_some_and(|host| host.memory.is_some())
    };
    let rows: Vec<Vec<String>> =
        results.cells.iter().filter(seen).take(GUESTS_LISTED).filter_map(row).collect();
    let head = [
        "Guest",
        "Memory by host node, before",
        "Memory by host node, after",
        "Host node of its CPU",
        "Page faults of the host",
    ];
    html! {
        @if !rows.is_empty() {
            (behind("Table: memory of guests by node of the host", &html! {
                (plain_table(&head, &rows))
                p.soft.small {
                    "Read on the host (numa_maps of QEMU): the guest is told the nodes that it was made to see. A cold guest takes \
                     memory from its host meanwhile: the sum grows, and the host has page faults, one for each page of the \
                     first pass where it gives single pages, few where it gives large ones."
                }
            }))
        }
    }
}

fn row(cell: &CellResult) -> Option<Vec<String>> {
    let host = cell.host.as_ref()?;
    let memory = host.memory.as_ref()?;
    let [before, after] = [&memory.before_bytes, &memory.after_bytes].map(|bytes| match &memory.unknown {
        Some(reason) => format!("unknown: {}", bounded(reason)),
        None => by_node(bytes, host),
    });
    let node = host.node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
    Some(vec![bounded(&cell_words(&cell.cell)), before, after, node, host.faults.to_string()])
}

/// `0: 510 MiB (98 %), 1: 10 MiB (2 %)`
fn by_node(bytes: &[(u32, Bytes)], host: &HostAccount) -> String {
    let all: f64 = bytes.iter().map(|(_, bytes)| bytes.as_f64()).sum();
    if all <= 0.0 {
        return "nothing yet".to_owned();
    }
    let words = |(node, bytes): &(u32, Bytes)| {
        let own = if Some(*node) == host.node { ", its CPU's" } else { "" };
        format!("{node}: {bytes} ({} %{own})", three_digits(bytes.as_f64() / all * 100.0))
    };
    let listed: Vec<String> = bytes.iter().take(NODES_LISTED).map(words).collect();
    let more = bytes.len().saturating_sub(NODES_LISTED);
    if more == 0 { listed.join(", ") } else { format!("{}, and {more} more nodes", listed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_run::{cell, measured, run};
    use units::accounts::HostMemory;

    #[test]
    fn guests_have_a_row_with_the_nodes_of_the_host_and_what_is_not_known_is_said() {
        let mut results = run();
        let guest = cell("vm", ProbeKind::Pages, None);
        measured(&mut results, &guest, "first_touch_ns", 100.0);
        assert_eq!(table(&results, ProbeKind::Pages).into_string(), "", "nobody asked the host");
        let mib = |mib: u64| Bytes::from_bytes(mib << 20);
        let memory = HostMemory {
            before_bytes: vec![(0, mib(100))],
            after_bytes: vec![(0, mib(150)), (1, mib(50))],
            unknown: None,
        };
        let host =
            HostAccount { node: Some(1), faults: 4242, memory: Some(memory), ..HostAccount::default() };
        let put = |results: &mut RunResults, host: HostAccount| {
            let found = results.cells.iter_mut().find(|result| result.cell == guest).unwrap();
            found.host = Some(host);
        };
        put(&mut results, host.clone());
        let text = table(&results, ProbeKind::Pages).into_string();
        for part in
            ["pages on vm", "0: 100 MiB (100 %)", "0: 150 MiB (75 %), 1: 50 MiB (25 %, its CPU's)", "4242"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let unknown = HostMemory { unknown: Some("<not> permitted".to_owned()), ..HostMemory::default() };
        put(&mut results, HostAccount { memory: Some(unknown), ..host });
        let text = table(&results, ProbeKind::Pages).into_string();
        assert!(text.contains("unknown: &lt;not&gt; permitted"), "{text}");
        assert_eq!(table(&results, ProbeKind::Disk).into_string(), "");
    }
}
