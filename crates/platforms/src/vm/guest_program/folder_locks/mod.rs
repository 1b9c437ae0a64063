//! Locks of folders that come from the host are refused (ENOLCK): the guest's kernel takes `flock` of a folder for its own affair, tells
//! virtio-fs nothing of it, and so the host and the guest would both have it. Files' locks are the host's, and are not touched here.
//!
//! ```text
//!  flock(folder) ─► kernel asks its security modules (`file_lock`) ─► our program: a folder? of FUSE? ─► ENOLCK
//!                                                                                    └─ neither ─► as ever
//! ```
//! It is done by a program in the kernel (BPF), which costs nothing where nobody locks. Sources: `Documentation/bpf/prog_lsm.rst` and
//! `instruction-set.rst` of Linux, `bpf(2)`. A kernel without such programs leaves things as they are; `docs/partitions.md` says so.

#![expect(
    unsafe_code,
    reason = "no library we use loads a program into the kernel: bpf(2) takes bare addresses"
)]

mod types;

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

use self::types::Types;
use super::super::pid1::in_context;
use units::Reason;

/// What the kernel says of its own types.
const KERNELS_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The function that stands for the question whether a file may be locked.
const QUESTION: &str = "bpf_lsm_file_lock";
/// `FUSE_SUPER_MAGIC` (`linux/magic.h`).
const FUSE: i32 = 0x6573_5546;
/// `S_IFMT` and `S_IFDIR`.
const KIND: i32 = 0o170_000;
const FOLDER: i32 = 0o040_000;

/// Has the kernel refuse them from now on, as long as the machine runs.
///
/// # Errors
/// This kernel cannot.
pub fn refuse() -> Result<(), Reason> {
    let types = fs::read(KERNELS_TYPES).map_err(in_context(KERNELS_TYPES))?;
    let types = Types::read(&types).ok_or_else(|| format!("{KERNELS_TYPES} is cut short"))?;
    let question = types.function(QUESTION).ok_or_else(|| format!("this kernel has no {QUESTION}"))?;
    let offset = |of: &str, member: &str| {
        let found = types.offset(of, member).and_then(|at| i16::try_from(at).ok());
        found.ok_or_else(|| Reason::from(format!("this kernel's {of} has no {member}")))
    };
    let program = answer(&Offsets {
        inode: offset("file", "f_inode")?,
        mode: offset("inode", "i_mode")?,
        file_system: offset("inode", "i_sb")?,
        magic: offset("super_block", "s_magic")?,
    });
    let loaded = load(&program, question).map_err(in_context("loading a program into the kernel"))?;
    let attached = attach(&loaded).map_err(in_context("having the kernel ask it"))?;
    // As long as PID 1 has it open.
    std::mem::forget(attached);
    Ok(())
}

/// Where the kernel's structures have what is looked at, in bytes.
struct Offsets {
    inode: i16,
    mode: i16,
    file_system: i16,
    magic: i16,
}

/// An instruction as the kernel takes it: code, registers (from, to), offset, number.
type Instruction = [u8; 8];

const fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> Instruction {
    let ([o0, o1], [n0, n1, n2, n3]) = (offset.to_le_bytes(), number.to_le_bytes());
    [code, from << 4 | to, o0, o1, n0, n1, n2, n3]
}

/// Loads eight bytes; loads two; masks; jumps if not equal, if equal; sets a register; ends.
const LOAD: u8 = 0x79;
const LOAD_TWO: u8 = 0x69;
const MASK: u8 = 0x57;
const UNLESS: u8 = 0x55;
const IF: u8 = 0x15;
const SET: u8 = 0xb7;
const END: u8 = 0x95;

/// The answer to the question whether the file in the first argument may be locked: 0, or an error.
fn answer(at: &Offsets) -> [Instruction; 11] {
    let (result, arguments, file, inode, mode, system) = (0, 1, 2, 3, 4, 5);
    [
        instruction(LOAD, file, arguments, 0, 0),
        instruction(LOAD, inode, file, at.inode, 0),
        instruction(LOAD_TWO, mode, inode, at.mode, 0),
        instruction(MASK, mode, 0, 0, KIND),
        instruction(UNLESS, mode, 0, 4, FOLDER),
        instruction(LOAD, system, inode, at.file_system, 0),
        instruction(LOAD, system, system, at.magic, 0),
        instruction(SET, result, 0, 0, -libc::ENOLCK),
        instruction(IF, system, 0, 1, FUSE),
        instruction(SET, result, 0, 0, 0),
        instruction(END, 0, 0, 0, 0),
    ]
}

/// `BPF_PROG_LOAD`, up to the last field that is used.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log: [u32; 2],
    log_at: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
    types: u32,
    functions: [u32; 4],
    lines: [u32; 4],
    asked_by: u32,
    padding: [u32; 2],
}

fn load(program: &[Instruction], question: u32) -> Result<OwnedFd, Errno> {
    /// `BPF_PROG_TYPE_LSM`, `BPF_LSM_MAC`.
    const SECURITY: (u32, u32) = (29, 27);
    let licence = c"Dual MIT/GPL";
    let mut name = [0; 16];
    name.iter_mut().zip(b"folder_locks").for_each(|(to, from)| *to = *from);
    let order = Load {
        kind: SECURITY.0,
        count: u32::try_from(program.len()).unwrap_or(u32::MAX),
        instructions: program.as_ptr().expose_provenance() as u64,
        licence: licence.as_ptr().expose_provenance() as u64,
        name,
        attach_kind: SECURITY.1,
        asked_by: question,
        ..Load::default()
    };
    bpf(5, &order)
}

/// `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct Attach {
    name: u64,
    program: u32,
    padding: u32,
}

fn attach(program: &OwnedFd) -> Result<OwnedFd, Errno> {
    let program = u32::try_from(program.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    bpf(17, &Attach { name: 0, program, padding: 0 })
}

fn bpf<T>(command: libc::c_int, order: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel reads `order`, all of which is set, and the program and texts that it leads to, which outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(order), size_of::<T>()) };
    let descriptor = i32::try_from(Errno::result(result)?).map_err(|_| Errno::EOVERFLOW)?;
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
