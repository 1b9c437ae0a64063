//! What the process may not do, whoever it is: no capabilities, now or after any exec; no more than so much of what the host
//! has.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

/// Most open files: QEMU serves a guest's through its own.
const MOST_FILES: u64 = 65_536;
/// Most threads: a virtual CPU has one, workers some.
const MOST_THREADS: u64 = 4096;

/// Gives everything up; `longest_file` is the longest file that may be written, in bytes, where that is limited.
///
/// # Errors
/// The kernel refuses.
pub fn give_up(longest_file: Option<u64>) -> io::Result<()> {
    let longest = longest_file.map(|bytes| (Resource::RLIMIT_FSIZE, bytes));
    let always = [
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_MSGQUEUE, 0),
        (Resource::RLIMIT_NOFILE, MOST_FILES),
        (Resource::RLIMIT_NPROC, MOST_THREADS),
    ];
    for (resource, most) in always.into_iter().chain(longest) {
        let (_, hard) = getrlimit(resource)?;
        setrlimit(resource, most.min(hard), most.min(hard))?;
    }
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel that does not know it yet.
            Err(rustix::io::Errno::INVAL) => {}
            other => other?,
        }
    }
    set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT
            | CapabilitiesSecureBits::NO_ROOT_LOCKED
            | CapabilitiesSecureBits::NO_SETUID_FIXUP
            | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
            | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
            | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED,
    )?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;
    Ok(())
}
