//! What goes with a program into its guest from who starts it: limits (getrlimit(2)) and umask, as the caller's `ulimit` and `umask` say.
//! They are the program's, not those of the machine around it: QEMU and the server of files lift the limits as far as they may.

use std::sync::OnceLock;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use model::partition::{Inherited, Limit};
use units::{Bytes, Reason};

/// Those that mean the same there, by the kernel's names. Priorities are given by other means.
const CARRIED: [(&str, Resource); 11] = [
    ("as", Resource::RLIMIT_AS),
    ("core", Resource::RLIMIT_CORE),
    ("cpu", Resource::RLIMIT_CPU),
    ("data", Resource::RLIMIT_DATA),
    ("fsize", Resource::RLIMIT_FSIZE),
    ("memlock", Resource::RLIMIT_MEMLOCK),
    ("msgqueue", Resource::RLIMIT_MSGQUEUE),
    ("nofile", Resource::RLIMIT_NOFILE),
    ("nproc", Resource::RLIMIT_NPROC),
    ("sigpending", Resource::RLIMIT_SIGPENDING),
    ("stack", Resource::RLIMIT_STACK),
];
/// Those that would end or starve the machine around the program, with ulimit's letter.
const LIFTED: [(char, Resource); 4] = [
    ('d', Resource::RLIMIT_DATA),
    ('f', Resource::RLIMIT_FSIZE),
    ('t', Resource::RLIMIT_CPU),
    ('v', Resource::RLIMIT_AS),
];
/// What QEMU and this process need beside a guest's memory at the least, in bytes.
const AROUND: u64 = 128 << 20;
/// Open files that a partition's processes need at the least, each for itself: sockets, ports, disks, trees.
const LEAST_OPEN_FILES: u64 = 64;
/// As many as they ask for.
const OPEN_FILES: u64 = 1 << 16;
/// Most open files that a guest's kernel allows: `fs.nr_open`, which nobody changes there.
const MOST_OPEN_FILES: u64 = 1 << 20;

/// What this process was started with. It is its program's: from the first call on the process is free of the limits itself, as far
/// as it may be.
pub fn taken() -> Inherited {
    static TAKEN: OnceLock<Inherited> = OnceLock::new();
    let take = || {
        let inherited = Inherited { limits: own(), umask: own_umask() };
        lift();
        inherited
    };
    TAKEN.get_or_init(take).clone()
}

fn own() -> Vec<Limit> {
    let one = |(name, resource): &(&str, Resource)| {
        let (soft, hard) = getrlimit(*resource).ok()?;
        Some(Limit { name: (*name).to_owned(), soft, hard })
    };
    CARRIED.iter().filter_map(one).collect()
}

/// umask(2) says what it was only by setting another one, for all threads.
fn own_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(digits.trim(), 8).ok()
}

/// The same as the kernel takes it: ready to be set where nothing may be allocated.
#[derive(Debug)]
pub struct Settable {
    limits: Vec<(Resource, u64, u64)>,
    umask: Option<Mode>,
}

/// Those limits that are known, and the umask.
pub fn settable(inherited: &Inherited) -> Settable {
    let one = |limit: &Limit| {
        let (_, resource) = CARRIED.iter().find(|(name, _)| *name == limit.name)?;
        let most = if *resource == Resource::RLIMIT_NOFILE { MOST_OPEN_FILES } else { u64::MAX };
        let hard = limit.hard.min(most);
        Some((*resource, limit.soft.min(hard), hard))
    };
    let limits = inherited.limits.iter().filter_map(one).collect();
    Settable { limits, umask: inherited.umask.map(Mode::from_bits_truncate) }
}

impl Settable {
    /// Sets it all for this process.
    ///
    /// # Errors
    /// The kernel refuses a limit.
    pub fn set(&self) -> nix::Result<()> {
        self.umask.map(umask);
        self.limits.iter().try_for_each(|(resource, soft, hard)| setrlimit(*resource, *soft, *hard))
    }
}

/// Frees this process of what would end or starve a machine that it carries, and of a limit of open files below what that asks for:
/// wholly with the right to, else as far as its hard limits.
pub fn lift() {
    for (_, resource) in LIFTED {
        let Ok((_, hard)) = getrlimit(resource) else { continue };
        if setrlimit(resource, RLIM_INFINITY, RLIM_INFINITY).is_err() {
            // A soft limit may always be raised so far.
            let _ = setrlimit(resource, hard, hard);
        }
    }
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let most = hard.max(OPEN_FILES);
        if setrlimit(Resource::RLIMIT_NOFILE, most, most).is_err() {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
}

/// Refuses a machine with so much memory where what could not be lifted leaves no room for it, by far, or for the files that its processes
/// open: this process would break on the way.
///
/// # Errors
/// How much there would have to be, and how much may be had.
pub fn room_for(memory: Bytes) -> Result<(), Reason> {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && hard < LEAST_OPEN_FILES
    {
        return Err(format!(
            "a partition takes {LEAST_OPEN_FILES} open files at the least, and no process of this shell may have more than {hard}: \
             raise its hard limit (ulimit -Hn)"
        )
        .into());
    }
    let least = memory.get().saturating_add(AROUND);
    for resource in [Resource::RLIMIT_AS, Resource::RLIMIT_DATA] {
        if let Ok((_, hard)) = getrlimit(resource)
            && hard < least
        {
            return Err(format!(
                "a machine with {memory} takes {} MiB at the least, and no process of this shell may have more than {} MiB",
                least >> 20,
                hard >> 20
            ).into());
        }
    }
    Ok(())
}

/// What to say when a machine failed that [`lift`] could not free; none when nothing limits it.
pub fn advice() -> Option<String> {
    let is_left = |resource| getrlimit(resource).is_ok_and(|(_, hard)| hard != RLIM_INFINITY);
    let left: Vec<String> = LIFTED
        .iter()
        .filter(|(_, resource)| is_left(*resource))
        .map(|(letter, _)| format!("-{letter}"))
        .collect();
    (!left.is_empty()).then(|| {
        format!(
            "hard limits of this shell (ulimit {}) hold for QEMU as well, and cannot be lifted: set soft ones (ulimit -S), or set them \
             inside (-- sh -c 'ulimit …; exec …')",
            left.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_does_not_know_or_allow_is_left_out() {
        let limit = |name: &str, soft, hard| Limit { name: name.to_owned(), soft, hard };
        let limits = vec![limit("nofile", u64::MAX, u64::MAX), limit("strange", 1, 1), limit("core", 9, 7)];
        let told = settable(&Inherited { limits, umask: Some(0o077) });
        let values: Vec<(u64, u64)> = told.limits.iter().map(|(_, soft, hard)| (*soft, *hard)).collect();
        assert_eq!(values, [(MOST_OPEN_FILES, MOST_OPEN_FILES), (7, 7)]);
        assert_eq!(told.umask, Some(Mode::S_IRWXG | Mode::S_IRWXO));
        assert_eq!(own().len(), CARRIED.len());
        assert!(own_umask().is_some());
    }
}
