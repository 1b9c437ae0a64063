//! The fork load: fork, exit, wait, over and over. Nothing is executed: copying and dropping page tables, and the
//! scheduler's work for a process, are the load.

#![expect(unsafe_code, reason = "fork without exec is what loads the kernel")]

use std::io;

use super::stressors::{Done, Stressor};
use crate::error::WorkError;
use units::Nanos;

/// Processes between two looks at the stop flag.
const PROCESSES: u64 = 4;

/// A fork storm, one thread.
#[derive(Debug, Default)]
pub struct Forking {
    children: Nanos,
}

impl Forking {
    /// Ready to begin.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Stressor for Forking {
    fn round(&mut self) -> Result<Done, WorkError> {
        for _ in 0..PROCESSES {
            self.children = self.children.saturating_add(fork_once()?);
        }
        Ok(Done::of(PROCESSES))
    }

    fn children_cpu_time(&self) -> Nanos {
        self.children
    }
}

/// One process from its start to its end; returns the CPU time it took.
fn fork_once() -> Result<Nanos, WorkError> {
    // SAFETY: the child of a process with threads may only make async-signal-safe calls; it makes one, _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child at once, without the handlers of the parent.
        unsafe { libc::_exit(0) };
    }
    if child < 0 {
        let wanted = "start a process as a load (the limit of processes or memory is reached)";
        return Err(WorkError::system(wanted, io::Error::last_os_error()));
    }
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are ours and large enough; `child` is our child and nobody else waits for it.
        let waited = unsafe { libc::wait4(child, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(WorkError::system("wait for a process of the fork load", error));
        }
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        return Err(WorkError::Unfit(format!(
            "a process of the fork load did not exit with 0 but ended with wait status {status:#x}"
        )));
    }
    // SAFETY: zeroed at first, so initialised whatever wait4 has written.
    let usage = unsafe { usage.assume_init() };
    Ok(time(usage.ru_utime).saturating_add(time(usage.ru_stime)))
}

fn time(value: libc::timeval) -> Nanos {
    let part = |count: i64, each: u64| u64::try_from(count).unwrap_or(0).saturating_mul(each);
    Nanos::from_nanos(part(value.tv_sec, 1_000_000_000).saturating_add(part(value.tv_usec, 1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_fork_and_nobody_is_left_behind() {
        let done: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..5).map(|_| Forking::new().round().unwrap().whole).sum::<u64>()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(done, 3 * 5 * PROCESSES);
    }
}
