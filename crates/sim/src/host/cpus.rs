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
        set.insert(MAX_CPUS);
        assert!(!set.contains(MAX_CPUS) && !set.is_empty() && CpuSet::default().is_empty());
    }
}
