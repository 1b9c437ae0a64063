//! VMs by their virtual time, for the least of those that a VM can meet.

use super::forest::{Forest, Set};
use super::meetings::Meetings;

/// Some VMs by their time.
#[derive(Debug, Clone)]
pub struct Rivals<K> {
    vms: Forest<K>,
    /// By set of CPUs, as numbered in `Meetings`.
    sets: Vec<Set>,
    /// Whose time has changed since somebody asked last: most changes nobody asks for.
    stale: Vec<usize>,
    is_stale: Vec<bool>,
}

fn number(vm: usize) -> u32 {
    u32::try_from(vm).unwrap_or(u32::MAX)
}

impl<K: Ord + Copy> Rivals<K> {
    /// None yet of so many; any time will do for who is not there.
    pub fn new(meetings: &Meetings, vms: usize, time: K) -> Self {
        let (vms, is_stale) = (Forest::new(vms, time, ()), vec![false; vms]);
        Self { vms, sets: vec![Set::EMPTY; meetings.count()], stale: Vec::new(), is_stale }
    }

    /// The time of a VM has changed, or whether it is there.
    pub fn touch(&mut self, vm: usize) {
        if !std::mem::replace(&mut self.is_stale[vm], true) {
            self.stale.push(vm);
        }
    }

    /// A VM has this time now, or is not there any more.
    fn place(&mut self, meetings: &Meetings, vm: usize, time: Option<K>) {
        let (id, set) = (number(vm), &mut self.sets[meetings.place_of(vm)]);
        if self.vms.holds(id) {
            if time == Some(self.vms.key(id)) {
                return;
            }
            self.vms.remove(set, id);
        }
        if let Some(time) = time {
            self.vms.insert(set, id, time, ());
        }
    }

    /// The least time of other VMs that a VM meets somewhere; `time` says what each VM's is, none where it is not there.
    pub fn least(&mut self, meetings: &Meetings, vm: usize, time: impl Fn(usize) -> Option<K>) -> Option<K> {
        for other in std::mem::take(&mut self.stale) {
            self.is_stale[other] = false;
            self.place(meetings, other, time(other));
        }
        let others = meetings.near(vm).filter_map(|place| {
            let mut least = None;
            self.vms.walk(self.sets[place], &mut |other| {
                least = (other != number(vm)).then(|| self.vms.key(other));
                least.is_none()
            });
            least
        });
        others.min()
    }
}
