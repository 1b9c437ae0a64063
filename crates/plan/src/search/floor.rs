//! What no plan can be below, from sums alone: for systems too large for the exact search.

use crate::problem::Problem;
use crate::site::Node;

/// Hosts that are needed at least, and percent of the fullest node at least.
pub fn floors(problem: &Problem) -> (i64, i64) {
    let site = &problem.site;
    let milli = |node: &Node| 1000 * node.cpus();
    let memory = |node: &Node| node.memory.max(0);
    let least = |needs: &dyn Fn(usize, &Node) -> i64| -> i64 {
        let one = |piece: usize| {
            let each = site.nodes.iter().map(|node| needs(piece, node)).min().unwrap_or(0);
            each * i64::from(problem.pieces[piece].parts)
        };
        (0..problem.pieces.len()).map(one).sum()
    };
    let wanted = [
        (least(&|piece, node| problem.pieces[piece].milli(node)), &milli as &dyn Fn(&Node) -> i64),
        (least(&|piece, _| problem.pieces[piece].plain_memory()), &memory),
    ];
    let (mut hosts, mut percent) = (i64::from(!problem.pieces.is_empty()), 0);
    for (wanted, there) in wanted {
        // The largest hosts first: fewer of them are enough than of any others.
        let mut sizes: Vec<i64> = site
            .hosts
            .iter()
            .map(|host| host.nodes.clone().map(|node| there(&site.nodes[node])).sum())
            .collect();
        sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
        let (mut sum, mut count) = (0, 0);
        for size in &sizes {
            if sum >= wanted {
                break;
            }
            sum += size;
            count += 1;
        }
        hosts = hosts.max(count);
        let all: i64 = sizes.iter().sum();
        if all > 0 {
            percent = percent.max((100 * wanted + all - 1) / all);
        }
    }
    (hosts, percent)
}
