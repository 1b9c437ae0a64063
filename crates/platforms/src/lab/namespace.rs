//! Network namespaces held by a descriptor, and threads inside them. The kernel takes a namespace away, with
//! everything in it, when no process and no descriptor is left; so nothing has to be written down or cleaned up.
//!
//! A thread that changes its namespace is one of its own that ends afterwards: the other threads of the program never
//! leave theirs.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::{io, thread};

use nix::sched::{CloneFlags, setns, unshare};

/// Makes an empty network namespace. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
/// When the kernel refuses, or `/proc` is not there.
pub fn fresh() -> io::Result<OwnedFd> {
    in_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(File::open("/proc/thread-self/ns/net")?.into())
    })
}

/// Runs `work` in a thread inside `namespace` and returns its outcome. Sockets opened there stay there, wherever they
/// are used later. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
/// When the namespace cannot be entered, and what `work` says.
pub fn inside<T: Send>(namespace: &impl AsFd, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let namespace = namespace.as_fd();
    in_thread(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET)?;
        work()
    })
}

fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a network namespace panicked")))
    })
}
