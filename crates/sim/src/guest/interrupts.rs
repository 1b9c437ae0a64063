//! Interrupts of a guest's virtual CPUs to each other that are on their way: who waits for whom.

use crate::time::Span;

/// Interrupts on their way.
#[derive(Debug, Clone)]
pub(super) struct Interrupts {
    /// How many acknowledgements each thread waits for.
    missing: Vec<usize>,
    /// By virtual CPU: the threads that wait for its acknowledgement.
    asked_by: Vec<Vec<u32>>,
    /// How many of them it knows of.
    begun: Vec<usize>,
    /// CPU time that each virtual CPU still has to spend on them.
    left: Vec<Span>,
}

impl Interrupts {
    /// None yet, between so many virtual CPUs with so many threads.
    pub(super) fn new(threads: usize, cpus: usize) -> Self {
        Self {
            missing: vec![0; threads],
            asked_by: vec![Vec::new(); cpus],
            begun: vec![0; cpus],
            left: vec![Span::ZERO; cpus],
        }
    }

    /// A thread interrupts these virtual CPUs.
    pub(super) fn send(&mut self, sender: u32, others: &[u32]) {
        self.missing[sender as usize] = others.len();
        for other in others {
            self.asked_by[*other as usize].push(sender);
        }
    }

    /// Whether a thread waits for somebody.
    pub(super) fn is_waited_for_by(&self, sender: u32) -> bool {
        self.missing[sender as usize] > 0
    }

    /// Virtual CPU `index`, which runs, looks what there is for it, each of which takes so long: what is left of that, or
    /// those whose last acknowledgement it has just given.
    pub(super) fn look(&mut self, index: u32, each: Span) -> Result<Vec<u32>, Span> {
        let at = index as usize;
        // Only now: what it did until this moment has been counted.
        let asked = self.asked_by[at].len();
        let new = (asked - std::mem::replace(&mut self.begun[at], asked)) as u64;
        self.left[at] += Span::from_nanos(each.nanos().saturating_mul(new));
        if !self.left[at].is_zero() {
            return Err(self.left[at]);
        }
        self.begun[at] = 0;
        let mut senders = std::mem::take(&mut self.asked_by[at]);
        senders.retain(|sender| {
            let missing = &mut self.missing[*sender as usize];
            *missing = missing.saturating_sub(1);
            *missing == 0
        });
        Ok(senders)
    }

    /// Whether virtual CPU `index` has spent this time on them.
    pub(super) fn pass(&mut self, index: u32, span: Span) -> bool {
        let left = &mut self.left[index as usize];
        let had = !left.is_zero();
        *left = left.less(span);
        had
    }
}
