//! Which CPUs of a node each has, once it is known who is there.
//!
//! ```text
//!  those counted by cache, at their caches ─► whole cores ─► other whole ones, in as few caches and cores as can be ─► the pool: the rest
//! ```
//! Room is there for all: the formula has seen to that.

use std::collections::BTreeMap;

use crate::problem::Problem;

/// Who is on a node: the replica, and how many CPUs it has at each cache, where that was decided.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The replica.
    pub piece: usize,
    /// CPUs by cache.
    pub by_cache: Option<Vec<i64>>,
}

/// A node's free cores by cache, the emptiest last.
struct Free {
    caches: Vec<Vec<Vec<u32>>>,
    threads: usize,
}

impl Free {
    fn count(&self, cache: usize) -> usize {
        self.caches[cache].iter().map(Vec::len).sum()
    }

    /// So many CPUs of a cache: of whole cores alone, or of broken ones first where that leaves more cores whole.
    fn take(&mut self, cache: usize, mut wanted: usize, whole_cores: bool) -> Vec<u32> {
        let mut taken = Vec::new();
        while wanted > 0 {
            let cores = &mut self.caches[cache];
            let is_whole = |core: &Vec<u32>| core.len() == self.threads;
            let place =
                if whole_cores || wanted >= self.threads { cores.iter().position(is_whole) } else { None };
            let broken = if whole_cores {
                None
            } else {
                cores.iter().position(|core| !is_whole(core) && !core.is_empty())
            };
            let Some(place) = place.or(broken).or_else(|| cores.iter().position(|core| !core.is_empty()))
            else {
                break;
            };
            if whole_cores {
                // Its other threads stay empty.
                let core = cores.remove(place);
                taken.extend(core.iter().take(wanted));
                wanted = wanted.saturating_sub(core.len());
                continue;
            }
            let count = cores[place].len().min(wanted);
            taken.extend(cores[place].drain(..count));
            wanted -= count;
            if cores[place].is_empty() {
                cores.remove(place);
            }
        }
        taken
    }

    /// So many CPUs of any cache: the fullest that has them all, else the emptiest first.
    fn take_anywhere(&mut self, mut wanted: usize, whole_cores: bool) -> Vec<u32> {
        let mut taken = Vec::new();
        while wanted > 0 {
            let usable = |free: &Self, cache: usize| {
                if whole_cores {
                    free.caches[cache].iter().filter(|core| core.len() == free.threads).count() * free.threads
                } else {
                    free.count(cache)
                }
            };
            let caches = || (0..self.caches.len()).map(|cache| (usable(self, cache), cache));
            let rounded = if whole_cores { wanted.div_ceil(self.threads) * self.threads } else { wanted };
            let fitting = caches().filter(|(count, _)| *count >= rounded).min();
            let Some((count, cache)) = fitting.or_else(|| caches().filter(|(count, _)| *count > 0).max())
            else {
                break;
            };
            let part = self.take(cache, wanted.min(count), whole_cores);
            if part.is_empty() {
                break;
            }
            wanted -= part.len();
            taken.extend(part);
        }
        taken
    }
}

/// CPUs of each guest, ascending; those who share have the pool. `pool` is how many CPUs that has at each cache, where it was decided.
pub fn assign(
    problem: &Problem,
    node: usize,
    guests: &[Guest],
    pool: Option<&[i64]>,
) -> BTreeMap<usize, Vec<u32>> {
    let here = &problem.site.nodes[node];
    let of_cache = |cache: &Vec<u32>| -> Vec<Vec<u32>> {
        here.cores.iter().filter(|core| core.iter().all(|cpu| cache.contains(cpu))).cloned().collect()
    };
    let mut free =
        Free { caches: here.caches.iter().map(of_cache).collect(), threads: here.threads as usize };
    let mut all: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let one = |piece: usize| &problem.pieces[piece];
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    let mut order: Vec<&Guest> = guests.iter().filter(|guest| one(guest.piece).share.is_none()).collect();
    // Those with a say about caches first, then those with whole cores, then the largest.
    order.sort_by_key(|guest| {
        let piece = one(guest.piece);
        (guest.by_cache.is_none(), !piece.cores, std::cmp::Reverse(piece.cpus), guest.piece)
    });
    let mut pooled: Vec<u32> = Vec::new();
    let mut is_pool_taken = false;
    for guest in order {
        let piece = one(guest.piece);
        if guest.by_cache.is_none() && !is_pool_taken {
            is_pool_taken = true;
            pooled = take_pool(&mut free, pool);
        }
        let wanted = count(piece.cpus);
        let mut taken = match &guest.by_cache {
            Some(counts) => {
                let mut left = wanted;
                let mut taken = Vec::new();
                for (cache, of) in counts.iter().enumerate() {
                    // Whole cores are counted with all their threads; of the last one some stay empty.
                    let part = free.take(cache, count(*of).min(left), piece.cores);
                    left -= part.len();
                    taken.extend(part);
                }
                taken
            }
            None => free.take_anywhere(wanted, piece.cores),
        };
        taken.sort_unstable();
        all.insert(guest.piece, taken);
    }
    if !is_pool_taken {
        pooled = take_pool(&mut free, pool);
    }
    if pool.is_none() {
        pooled = free.caches.iter().flatten().flatten().copied().collect();
    }
    pooled.sort_unstable();
    for guest in guests.iter().filter(|guest| one(guest.piece).share.is_some()) {
        all.insert(guest.piece, pooled.clone());
    }
    all
}

fn take_pool(free: &mut Free, pool: Option<&[i64]>) -> Vec<u32> {
    let counts = pool.unwrap_or_default().iter().enumerate();
    counts.flat_map(|(cache, count)| free.take(cache, usize::try_from(*count).unwrap_or(0), false)).collect()
}
