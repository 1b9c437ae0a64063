//! Which hardware address was last heard at which plug. Bounded for each plug, so that a guest that makes up addresses
//! by the million spoils its own part of the table only: what is not in it is sent to all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::core::PlugNumber;

/// A hardware address, as it is in a frame.
pub type Address = [u8; 6];
/// How long an address is remembered that is not heard again (IEEE 802.1Q, table 8-6).
pub const AGEING: Duration = Duration::from_secs(300);

/// Least time between two searches for old entries of one plug.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Where an address was heard, and when last.
#[derive(Debug, Clone, Copy)]
struct Place {
    plug: PlugNumber,
    heard: Duration,
}

/// The table.
#[derive(Debug, Default)]
pub struct Table {
    places: BTreeMap<Address, Place>,
    /// Entries of each plug; none that has none.
    counts: BTreeMap<PlugNumber, usize>,
    /// When old entries of a full plug were last looked for: a look costs, and strangers can ask for one.
    looked: BTreeMap<PlugNumber, Duration>,
}

impl Table {
    /// Notes that `address` was heard at `plug`, which may hold `most` entries.
    pub fn learn(&mut self, address: Address, plug: PlugNumber, most: usize, now: Duration) {
        if let Some(place) = self.places.get_mut(&address)
            && place.plug == plug
        {
            place.heard = now;
            return;
        }
        if self.count(plug) >= most {
            self.forget_old(plug, now);
        }
        if self.count(plug) >= most {
            return;
        }
        if let Some(before) = self.places.insert(address, Place { plug, heard: now }) {
            self.less(before.plug);
        }
        *self.counts.entry(plug).or_default() += 1;
    }

    /// Where it was heard within the last [`AGEING`].
    pub fn find(&self, address: Address, now: Duration) -> Option<PlugNumber> {
        let place = self.places.get(&address)?;
        (now.saturating_sub(place.heard) <= AGEING).then_some(place.plug)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets all that was heard at a plug.
    pub fn forget(&mut self, plug: PlugNumber) {
        self.looked.remove(&plug);
        if self.counts.remove(&plug).is_some() {
            self.places.retain(|_, place| place.plug != plug);
        }
    }

    fn forget_old(&mut self, plug: PlugNumber, now: Duration) {
        if self.looked.get(&plug).is_some_and(|looked| now.saturating_sub(*looked) < BETWEEN_LOOKS) {
            return;
        }
        self.looked.insert(plug, now);
        let before = self.places.len();
        self.places.retain(|_, place| place.plug != plug || now.saturating_sub(place.heard) <= AGEING);
        for _ in self.places.len()..before {
            self.less(plug);
        }
    }

    fn count(&self, plug: PlugNumber) -> usize {
        self.counts.get(&plug).copied().unwrap_or_default()
    }

    fn less(&mut self, plug: PlugNumber) {
        if let Some(count) = self.counts.get_mut(&plug) {
            *count = count.saturating_sub(1);
        }
    }
}
