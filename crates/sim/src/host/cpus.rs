//! Sets of CPUs, for affinities and for who is idle.

/// Most CPUs of a simulated host.
pub const MAX_CPUS: u32 = 1024;

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The CPUs 0 to `count` − 1.
    pub fn first(count: u32) -> Self {
        (0..count).collect()
    }

    /// Adds a CPU; numbers from [`MAX_CPUS`] on are left out.
    pub fn insert(&mut self, cpu: u32) {
        if cpu >= MAX_CPUS {
            return;
        }
        let word = (cpu / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / 64) as usize) {
            *word &= !(1 << (cpu % 64));
        }
    }

    /// Whether it holds this CPU.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The CPUs, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.common(self)
    }

    /// The CPUs that both hold, lowest first.
    pub fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u32> + 'a {
        let both = self.words.iter().zip(&other.words).map(|(mine, theirs)| mine & theirs);
        both.zip(0u32..).flat_map(|(mut word, index)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Takes in what another set holds.
    pub fn unite(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Takes out what another set holds.
    pub fn subtract(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine &= !theirs);
    }

    /// Takes out what another set does not hold.
    pub fn intersect(&mut self, other: &Self) {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine &= theirs);
    }

    /// Those of 2i and 2i + 1 that are both in it, of so many CPUs: the last one needs no other if it has none.
    #[must_use]
    pub fn pairs(&self, cpus: u32) -> Self {
        const EVEN: u64 = u64::MAX / 3;
        let both = |word: &u64| {
            let first = word & word >> 1 & EVEN;
            first | first << 1
        };
        let mut pairs = Self { words: self.words.iter().map(both).collect() };
        if let Some(last) = cpus.checked_sub(1).filter(|last| last % 2 == 0 && self.contains(*last)) {
            pairs.insert(last);
        }
        pairs
    }

    /// The next CPU after this one, round and round; itself if there is no other.
    pub fn next_after(&self, cpu: u32) -> Option<u32> {
        let start = (cpu / 64) as usize;
        let above = u64::MAX.checked_shl(cpu % 64 + 1).unwrap_or(0);
        let masks = [(start, above)].into_iter();
        let places = masks.chain((start + 1..self.words.len()).chain(0..=start).map(|at| (at, u64::MAX)));
        let mut found = places.filter_map(|(at, mask)| {
            let word = self.words.get(at)? & mask;
            (word != 0).then(|| u32::try_from(at).unwrap_or(0) * 64 + word.trailing_zeros())
        });
        found.next()
    }

    /// The lowest CPU that both hold.
    pub fn first_common(&self, other: &Self) -> Option<u32> {
        self.common(other).next()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set: CpuSet = [3, 64, 200].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 200]);
        set.remove(64);
        set.remove(1000);
        assert!(!set.contains(64) && set.contains(200) && set.len() == 2);
        assert_eq!(set.first_common(&CpuSet::first(300)), Some(3));
        assert_eq!(set.first_common(&CpuSet::first(3)), None);
        let mut round: CpuSet = [3, 63, 200].into_iter().collect();
        assert_eq!(
            [2, 3, 63, 199, 200, 900].map(|cpu| round.next_after(cpu)),
            [3, 63, 200, 200, 3, 3].map(Some)
        );
        round.unite(&[64].into_iter().collect());
        round.subtract(&CpuSet::first(60));
        round.intersect(&CpuSet::first(100));
        assert_eq!(round.iter().collect::<Vec<_>>(), [63, 64]);
        assert_eq!((CpuSet::default().next_after(5), CpuSet::first(1).next_after(0)), (None, Some(0)));
        let some: CpuSet = [0, 1, 3, 4, 6, 64, 65, 70].into_iter().collect();
        assert_eq!(some.pairs(72).iter().collect::<Vec<_>>(), [0, 1, 64, 65]);
        assert_eq!(some.pairs(71).iter().collect::<Vec<_>>(), [0, 1, 64, 65, 70]);
        set.insert(MAX_CPUS);
        assert!(!set.contains(MAX_CPUS) && !set.is_empty() && CpuSet::default().is_empty());
    }
}
