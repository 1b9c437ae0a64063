//! Pools of pages: the host's, one per memory node, and a guest's, which does not know of nodes.
//!
//! ```text
//!  guest   [ freed by the last run, in the order freed │ never used … ] ─► handed out from the front, whoever asks
//!             │ mixing: some change places                 │
//!  host     has a page on some node                    has none: first touch takes one, on the toucher's node if it has any
//! ```

use crate::random::Stream;

/// A page that the host has not given out has no home.
const NO_HOME: u8 = u8::MAX;

/// A memory node of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeId(pub u8);

/// Free pages of the host, by node.
#[derive(Debug, Clone)]
pub struct HostPool {
    free: Vec<u64>,
}

impl HostPool {
    /// So many nodes with so many pages each.
    pub fn new(nodes: u32, pages: u64) -> Self {
        Self { free: vec![pages; nodes as usize] }
    }

    /// Takes a page on `wanted`, or on the next node that has one; none when all memory is given out.
    pub fn take(&mut self, wanted: NodeId) -> Option<NodeId> {
        let count = self.free.len();
        let first = usize::from(wanted.0);
        let at = (first..first + count).map(|at| at % count).find(|at| self.free[*at] > 0)?;
        self.free[at] -= 1;
        u8::try_from(at).ok().map(NodeId)
    }

    /// Exchanges a page on `from` for one on `to`; says whether there was one.
    pub fn exchange(&mut self, from: NodeId, to: NodeId) -> bool {
        let (from, to) = (usize::from(from.0), usize::from(to.0));
        if self.free[to] == 0 {
            return false;
        }
        self.free[to] -= 1;
        self.free[from] += 1;
        true
    }

    /// Pages that are left, by node.
    #[cfg(test)]
    pub fn free(&self) -> &[u64] {
        &self.free
    }
}

/// Pages of a guest.
#[derive(Debug, Clone)]
pub struct GuestPool {
    /// In the order in which they are handed out.
    order: Vec<u32>,
    /// Where the host put each.
    home: Vec<u8>,
}

impl GuestPool {
    /// A guest that was just started.
    pub fn new(pages: u32) -> Self {
        Self { order: (0..pages).collect(), home: vec![NO_HOME; pages as usize] }
    }

    /// The page that is handed out at this place of the order, and its home.
    pub fn page(&self, place: usize) -> Option<(u32, Option<NodeId>)> {
        let page = *self.order.get(place)?;
        let home = *self.home.get(page as usize)?;
        Some((page, (home != NO_HOME).then_some(NodeId(home))))
    }

    /// The host has put a page here.
    pub fn settle(&mut self, page: u32, home: NodeId) {
        if let Some(place) = self.home.get_mut(page as usize) {
            *place = home.0;
        }
    }

    /// Lets this share of the places change their pages at random.
    pub fn mix(&mut self, share: f64, stream: &mut Stream) {
        let chosen: Vec<u32> = (0..).take(self.order.len()).filter(|_| stream.unit() < share).collect();
        // Fisher and Yates: every order of the chosen ones is equally likely.
        for last in (1..chosen.len()).rev() {
            let other = usize::try_from(stream.below(last as u64 + 1)).unwrap_or(0);
            self.order.swap(chosen[last] as usize, chosen[other] as usize);
        }
    }

    /// Pages by home.
    #[cfg(test)]
    pub fn homes(&self, nodes: u32) -> Vec<u64> {
        let count = |node: u32| self.home.iter().filter(|home| u32::from(**home) == node).count() as u64;
        (0..nodes).map(count).collect()
    }
}
