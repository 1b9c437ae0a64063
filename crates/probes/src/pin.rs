//! Pins the calling thread to one CPU it may use: a single one to the last, since interrupts and daemons favour the
//! first; the threads of several workers to one after the other.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Where a thread was pinned, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The CPU; none when pinning was refused.
    pub cpu: Option<u32>,
    /// The refusal, for the reader of the result.
    pub note: Option<String>,
}

/// CPUs the calling thread may run on, ascending. Empty when the kernel does not say.
pub fn allowed_cpus() -> Vec<usize> {
    sched_getaffinity(Pid::from_raw(0))
        .map(|set| (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
        .unwrap_or_default()
}

/// How many CPUs this instance grants; at least one.
pub fn granted_cpus() -> u32 {
    u32::try_from(allowed_cpus().len()).unwrap_or(u32::MAX).max(1)
}

/// Pins the calling thread. Threads it starts later inherit that, so probes pin a thread of their own.
pub fn pin_to_last_cpu() -> Pinned {
    pin_by_turn(0)
}

/// Pins the calling thread to the last CPU it may use, to the one before for the next turn, and so on round: members of
/// a joint measurement that see the same CPUs do not all sit on one of them.
pub fn pin_by_turn(turn: u32) -> Pinned {
    let allowed = allowed_cpus();
    let turned = allowed.len().saturating_sub(1 + turn as usize % allowed.len().max(1));
    let Some(cpu) = allowed.get(turned).copied() else {
        return Pinned {
            cpu: None,
            note: Some("not pinned: the kernel does not say which CPUs are allowed".into()),
        };
    };
    pin_to(cpu)
}

/// Pins the calling thread to this CPU.
pub fn pin_to(cpu: usize) -> Pinned {
    let mut only = CpuSet::new();
    match only.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only)) {
        Ok(()) => Pinned { cpu: u32::try_from(cpu).ok(), note: None },
        Err(errno) => Pinned { cpu: None, note: Some(format!("not pinned to CPU {cpu}: {errno}")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_one_cpu_and_its_parent_still_all() {
        let before = allowed_cpus();
        let (pinned, inside) =
            std::thread::spawn(|| (pin_to_last_cpu(), allowed_cpus())).join().expect("no panic");
        assert_eq!(pinned.cpu.map(|cpu| cpu as usize), inside.last().copied());
        assert_eq!(inside.len(), 1, "{pinned:?}");
        assert_eq!(allowed_cpus(), before);
    }

    #[test]
    fn turns_go_round_the_allowed_cpus_from_the_last() {
        let allowed = allowed_cpus();
        let count = u32::try_from(allowed.len()).unwrap();
        let on = |turn| std::thread::spawn(move || pin_by_turn(turn).cpu).join().expect("no panic");
        assert_eq!(on(count - 1).map(|cpu| cpu as usize), allowed.first().copied());
        assert_eq!(on(count), on(0));
    }
}
