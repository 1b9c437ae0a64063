//! Which memory node pages lie on: asked page by page, or read from `/proc/self/numa_maps` where that is forbidden.

use std::collections::BTreeMap;

use crate::accounts::read_bounded;
use crate::fresh_pages::FreshPages;

/// Pages per node as `(node, pages)`; empty where the kernel does not say.
pub(super) fn nodes_of(fresh: &FreshPages) -> Vec<(u32, u64)> {
    if let Ok(nodes) = fresh.nodes() {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for node in nodes {
            *counts.entry(node).or_default() += 1;
        }
        return counts.into_iter().collect();
    }
    let text = read_bounded(std::path::Path::new("/proc/self/numa_maps"));
    text.map(|text| from_numa_maps(&text, fresh.address())).unwrap_or_default()
}

/// The line of the mapping that begins at `address`: `7f0000000000 default anon=16 dirty=16 N0=12 N1=4 …`. A mapping with
/// advice of its own is never merged with its neighbours, so it has a line of its own.
fn from_numa_maps(text: &str, address: usize) -> Vec<(u32, u64)> {
    let begins = |line: &&str| {
        line.split(' ').next().and_then(|at| usize::from_str_radix(at, 16).ok()) == Some(address)
    };
    let Some(line) = text.lines().find(begins) else { return Vec::new() };
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for word in line.split(' ') {
        let count = word.strip_prefix('N').and_then(|word| word.split_once('='));
        if let Some((Ok(node), Ok(pages))) = count.map(|(node, pages)| (node.parse(), pages.parse())) {
            counts.insert(node, pages);
        }
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_mapping_is_read_and_no_other() {
        let text = "7f00aa000000 default anon=9 N0=9 kernelpagesize_kB=4\n\
                    7f00bb000000 default anon=16 dirty=16 active=0 N1=4 N0=12 Nx=1 kernelpagesize_kB=4\n";
        assert_eq!(from_numa_maps(text, 0x7f00_bb00_0000), [(0, 12), (1, 4)]);
        assert_eq!(from_numa_maps(text, 0x7f00_cc00_0000), []);
        assert_eq!(from_numa_maps("", 0), []);
    }

    #[test]
    fn pages_that_were_touched_are_counted_where_the_kernel_tells() {
        let page = crate::fresh_pages::page_bytes().get();
        let mut fresh = FreshPages::map(units::Bytes::from_bytes(5000 * page)).unwrap();
        (0..3000).for_each(|page| fresh.touch(page));
        let counted: u64 = nodes_of(&fresh).iter().map(|(_, pages)| pages).sum();
        assert!(counted == 3000 || counted == 0, "{counted}");
    }
}
