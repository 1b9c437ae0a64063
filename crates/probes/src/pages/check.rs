//! What is believed of the pages probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, at_most, because, histogram};
use crate::detail::{PagesDetail, PagesPass};

/// Most passes of the page probe: the first one and a hundred warm ones.
const MOST_PASSES: usize = 101;

/// Most memory nodes: Linux has at most so many.
const MOST_NODES: usize = 1024;

pub(crate) fn check(detail: &PagesDetail) -> Checked {
    at_most("pages.passes", detail.passes.len(), MOST_PASSES)?;
    if !detail.page_bytes.get().is_power_of_two() {
        return Err(format!("pages.page_bytes = {} is no size of a page", detail.page_bytes.get()).into());
    }
    let pages = detail.size_bytes.get().div_ceil(detail.page_bytes.get());
    detail.passes.iter().try_for_each(|pass| pages_pass(pass, pages))
}

fn pages_pass(pass: &PagesPass, pages: u64) -> Checked {
    histogram("pages.touch_ns", &pass.touch_ns)?;
    if pass.touch_ns.count() != pages {
        return Err(format!("pages.touch_ns holds {} touches of {pages} pages", pass.touch_ns.count()).into());
    }
    at_most("pages.nodes", pass.nodes.len(), MOST_NODES)?;
    if !pass.nodes.windows(2).all(|pair| matches!(pair, [a, b] if a.0 < b.0)) {
        return Err("pages.nodes does not name each node once, in ascending order".into());
    }
    let placed: u128 = pass.nodes.iter().map(|(_, pages)| u128::from(*pages)).sum();
    if placed > u128::from(pages) {
        return Err(format!("pages.nodes places {placed} of {pages} pages").into());
    }
    Ok(())
}

pub(crate) fn saw_nothing(detail: &PagesDetail) -> Option<String> {
    because(detail.passes.iter().all(|pass| pass.touch_ns.is_empty()), "no page was touched")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::histogram::Histogram;
    use units::{Bytes, Nanos};

    #[test]
    fn passes_that_contradict_each_other_are_refused() {
        let pass = |touches: u64, nodes: Vec<(u32, u64)>| PagesPass {
            start_ns: Nanos::ZERO,
            elapsed_ns: Nanos::from_nanos(1),
            touch_ns: Histogram::from_values(0..touches),
            minor_faults: 0,
            nodes,
        };
        let detail = |pass: PagesPass| PagesDetail {
            page_bytes: Bytes::from_bytes(4096),
            size_bytes: Bytes::from_bytes(3 * 4096),
            fresh: false,
            own_node: None,
            passes: vec![pass],
        };
        assert_eq!(check(&detail(pass(3, vec![(0, 1), (1, 2)]))), Ok(()));
        for (pass, wanted) in [
            (pass(2, vec![]), "2 touches of 3"),
            (pass(3, vec![(1, 1), (1, 1)]), "ascending"),
            (pass(3, vec![(0, u64::MAX), (1, 1)]), "of 3 pages"),
        ] {
            let error = check(&detail(pass)).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
        let odd = PagesDetail { page_bytes: Bytes::from_bytes(0), ..detail(pass(3, vec![])) };
        assert!(check(&odd).unwrap_err().to_string().contains("no size of a page"));
    }
}
