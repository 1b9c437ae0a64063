//! Stands before Open MPI's functions for what ranks over channels cannot have, and says so at once: who starts ranks lets
//! `LD_PRELOAD` name this library.
//!
//! ```text
//!  program ─► MPI_Win_create ──┐
//!  Fortran ─► PMPI_Win_create ─┴► may many threads call, and is there a rank elsewhere? ── no ─► Open MPI's PMPI_Win_create
//!                                    └─ yes ─► says why ─► PMPI_Abort
//! ```
//! Every function of MPI is there under the name `PMPI_…`, too (MPI 3.1, chapter 14), and Open MPI's Fortran calls those: its
//! own names (`mpi_win_create_`, `mpi_win_create_f08_`) all lead there. In Open MPI handles are pointers. Who looks a function
//! up in Open MPI's library itself (`dlsym`) comes past this: a rank that was started so refuses to begin
//! ([`crate::settings::Settings::is_child`]).

#![expect(unsafe_code, reason = "called from C in place of Open MPI's functions, which are called in turn")]

use std::ffi::CStr;
use std::ptr;

use libc::{c_int, c_void};

use super::{guard, say};

/// A handle of Open MPI: communicator, information, window.
type Handle = *mut c_void;
/// `MPI_THREAD_MULTIPLE`.
const MANY_THREADS: c_int = 3;
/// `MPI_COMM_TYPE_SHARED`.
const ONE_MACHINE: c_int = 0;
/// `MPI_ERR_OTHER`.
const OTHER_ERROR: c_int = 16;
/// Open MPI 4's library, as programs name it.
const OPEN_MPI: &CStr = c"libmpi.so.40";
/// What Open MPI's own `osc/pt2pt` refuses as well, as if there were no other way.
const NO_WINDOWS: &str = "over channels, windows take the calls of one thread at a time: initialise MPI with \
                          MPI_THREAD_SERIALIZED or less, or run with --transport tcp";
/// Each rank has its channels from the start.
pub(super) const NO_SPAWN: &str = "over channels, ranks are those that mpirun started, because each has its memory \
                                   before it is there: start all of them with -n, or run with --transport tcp";

/// Open MPI's function of that name. Asked for in its own library: by name alone what stands before it would be
/// found, or nothing where an extension brought the library for itself (Python's `mpi4py`).
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: nothing is loaded, only looked up among what is.
    let library = unsafe { libc::dlopen(OPEN_MPI.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return library;
    }
    // SAFETY: only looks the name up, in a library that stays: whoever called us has it.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: gives back what `dlopen` counted above.
    unsafe { libc::dlclose(library) };
    found
}

/// Calls Open MPI's function `$name` with these arguments; an error where there is none.
macro_rules! open_mpi {
    ($name:literal ( $($argument:expr => $type:ty),+ )) => {{
        let found = find($name);
        if found.is_null() {
            OTHER_ERROR
        } else {
            // SAFETY: Open MPI's function of that name has these arguments (mpi.h) and this answer.
            let function = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),+) -> c_int>(found)
            };
            // SAFETY: arguments are the program's own, or our own places for answers.
            unsafe { function($($argument),+) }
        }
    }};
}

/// Says why, and ends the job.
fn refuse(function: &str, communicator: Handle, why: &str) -> c_int {
    say(&format!("{function}: {why}"));
    open_mpi!(c"PMPI_Abort"(communicator => Handle, 1 => c_int));
    OTHER_ERROR
}

/// Whether windows are asked for that no thread may use while another one does.
fn threads_may_meet() -> bool {
    let mut level: c_int = 0;
    open_mpi!(c"PMPI_Query_thread"(&raw mut level => *mut c_int));
    level == MANY_THREADS
}

/// Whether the communicator has ranks in another partition; all of its ranks must ask. `hints` may be any.
fn is_spread(communicator: Handle, hints: Handle) -> bool {
    let size = |communicator: Handle| {
        let mut size: c_int = 0;
        open_mpi!(c"PMPI_Comm_size"(communicator => Handle, &raw mut size => *mut c_int));
        size
    };
    let mut here: Handle = ptr::null_mut();
    let split = open_mpi!(c"PMPI_Comm_split_type"(
        communicator => Handle, ONE_MACHINE => c_int, 0 => c_int, hints => Handle, &raw mut here => *mut Handle
    ));
    if split != 0 || here.is_null() {
        return true;
    }
    let is_spread = size(here) != size(communicator);
    open_mpi!(c"PMPI_Comm_free"(&raw mut here => *mut Handle));
    is_spread
}

/// A function of MPI under both of its names.
macro_rules! stands_before {
    ($(#[$about:meta])* $mpi:ident, $pmpi:ident($($argument:ident: $type:ty),+) $body:expr) => {
        $(#[$about])*
        ///
        /// # Safety
        /// As of that function.
        // SAFETY: nobody else in the process has this name but Open MPI, before which this is to stand.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $mpi($($argument: $type),+) -> c_int {
            guard(|| $body)
        }

        $(#[$about])*
        ///
        /// # Safety
        /// As of that function.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pmpi($($argument: $type),+) -> c_int {
            guard(|| $body)
        }
    };
}

stands_before! {
    /// `MPI_Win_create` of `mpi.h`. Memory that the program already has is shared with nobody, so all goes over messages.
    MPI_Win_create, PMPI_Win_create(
        base: *mut c_void, size: isize, unit: c_int, info: Handle, communicator: Handle, window: *mut Handle
    ) {
        if threads_may_meet() {
            return refuse("MPI_Win_create", communicator, NO_WINDOWS);
        }
        open_mpi!(c"PMPI_Win_create"(
            base => *mut c_void, size => isize, unit => c_int, info => Handle, communicator => Handle,
            window => *mut Handle
        ))
    }
}

stands_before! {
    /// `MPI_Win_allocate` of `mpi.h`; ranks of one partition share the memory.
    MPI_Win_allocate, PMPI_Win_allocate(
        size: isize, unit: c_int, info: Handle, communicator: Handle, base: *mut c_void, window: *mut Handle
    ) {
        if threads_may_meet() && is_spread(communicator, info) {
            return refuse("MPI_Win_allocate", communicator, NO_WINDOWS);
        }
        open_mpi!(c"PMPI_Win_allocate"(
            size => isize, unit => c_int, info => Handle, communicator => Handle, base => *mut c_void,
            window => *mut Handle
        ))
    }
}

stands_before! {
    /// `MPI_Win_create_dynamic` of `mpi.h`.
    MPI_Win_create_dynamic, PMPI_Win_create_dynamic(
        info: Handle, communicator: Handle, window: *mut Handle
    ) {
        if threads_may_meet() {
            return refuse("MPI_Win_create_dynamic", communicator, NO_WINDOWS);
        }
        open_mpi!(c"PMPI_Win_create_dynamic"(
            info => Handle, communicator => Handle, window => *mut Handle
        ))
    }
}

stands_before! {
    /// `MPI_Comm_spawn` of `mpi.h`.
    MPI_Comm_spawn, PMPI_Comm_spawn(
        _command: *const c_void, _arguments: *mut c_void, _count: c_int, _info: Handle, _root: c_int,
        communicator: Handle, _children: *mut Handle, _errors: *mut c_int
    ) {
        refuse("MPI_Comm_spawn", communicator, NO_SPAWN)
    }
}

stands_before! {
    /// `MPI_Comm_spawn_multiple` of `mpi.h`.
    MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple(
        _count: c_int, _commands: *mut c_void, _arguments: *mut c_void, _counts: *const c_int,
        _infos: *const Handle, _root: c_int, communicator: Handle, _children: *mut Handle, _errors: *mut c_int
    ) {
        refuse("MPI_Comm_spawn_multiple", communicator, NO_SPAWN)
    }
}
