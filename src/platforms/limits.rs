//! Limits of processes (getrlimit(2)) that go with a program into its guest: what the caller's `ulimit` says.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::model::partition::Limit;

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
/// Most open files that a guest's kernel allows: `fs.nr_open`, which nobody changes there.
const MOST_OPEN_FILES: u64 = 1 << 20;

/// Those of this process.
pub fn own() -> Vec<Limit> {
    let one = |(name, resource): &(&str, Resource)| {
        let (soft, hard) = getrlimit(*resource).ok()?;
        Some(Limit { name: (*name).to_owned(), soft, hard })
    };
    CARRIED.iter().filter_map(one).collect()
}

/// A limit as the kernel takes it.
#[derive(Debug, Clone, Copy)]
pub struct Settable(Resource, u64, u64);

/// Those that are known, made ready to be set where nothing may be allocated.
pub fn settable(limits: &[Limit]) -> Vec<Settable> {
    let one = |limit: &Limit| {
        let (_, resource) = CARRIED.iter().find(|(name, _)| *name == limit.name)?;
        let most = if *resource == Resource::RLIMIT_NOFILE { MOST_OPEN_FILES } else { u64::MAX };
        let hard = limit.hard.min(most);
        Some(Settable(*resource, limit.soft.min(hard), hard))
    };
    limits.iter().filter_map(one).collect()
}

/// Sets them for this process.
///
/// # Errors
/// The kernel refuses one.
pub fn set(limits: &[Settable]) -> nix::Result<()> {
    limits.iter().try_for_each(|Settable(resource, soft, hard)| setrlimit(*resource, *soft, *hard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_does_not_know_or_allow_is_left_out() {
        let limit = |name: &str, soft, hard| Limit { name: name.to_owned(), soft, hard };
        let all =
            settable(&[limit("nofile", u64::MAX, u64::MAX), limit("strange", 1, 1), limit("core", 9, 7)]);
        let told: Vec<(u64, u64)> = all.iter().map(|Settable(_, soft, hard)| (*soft, *hard)).collect();
        assert_eq!(told, [(MOST_OPEN_FILES, MOST_OPEN_FILES), (7, 7)]);
        assert_eq!(own().len(), CARRIED.len());
    }
}
