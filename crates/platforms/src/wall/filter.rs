//! System calls that a process behind the wall has no use for: those with which it could leave it, those with which what it
//! writes could give somebody rights, and, where sizes of files are limited, those that change one. QEMU's own sandbox, which it
//! starts later, refuses more.
//!
//! Refused with EPERM, as if the right were missing; with ENOSYS where programs fall back to an older call that can be
//! looked into (`clone3` hands its flags over in memory).

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::order::{Network, Order, SizeLimits};

/// Set-user-ID and set-group-ID.
const SET_ID: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];
/// Part of a mode that says what is made.
const KIND: u64 = libc::S_IFMT as u64;
/// Character and block devices.
const DEVICES: [u64; 2] = [libc::S_IFCHR as u64, libc::S_IFBLK as u64];
/// Flags of open(2) with which it takes a mode.
const MAKES: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];
/// Not in the C library's crate.
const F_SETOWN_EX: u64 = 15;
/// Likewise.
const F_SETSIG: u64 = 10;
/// Commands of fcntl(2) that have the kernel signal somebody, or make others wait for files that are only read here.
const FCNTLS: [u64; 4] = [libc::F_SETOWN as u64, F_SETOWN_EX, F_SETSIG, libc::F_SETLEASE as u64];
/// The first by ioctl(2): `FIOSETOWN` and `SIOCSPGRP`.
const IOCTLS: [u64; 2] = [0x8901, 0x8902];
/// Flags of clone(2) that make namespaces.
const NAMESPACES: [u64; 7] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
];
/// Numbers that are the same on all processors; the C library's crate may not know them.
const FCHMODAT2: c_long = 452;
/// Likewise.
const OPEN_TREE_ATTR: c_long = 467;
/// A flag of `renameat2` that leaves a device (`RENAME_WHITEOUT`).
const WHITEOUT: u64 = 4;
/// Commands of ioctl(2) that take or give back memory of a file as fallocate(2) does (`linux/falloc.h`): `FS_IOC_RESVSP`,
/// `UNRESVSP`, both with 64 bits, and `ZERO_RANGE`.
const ALLOCATING_IOCTLS: [u64; 5] = [0x4030_5828, 0x4030_5829, 0x4030_582a, 0x4030_582b, 0x4030_5839];

/// Refused altogether.
const REFUSED: &[c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_fanotify_init,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Not there.
const ABSENT: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    FCHMODAT2,
];

/// Refused where sizes of files are limited.
const RESIZING: &[c_long] = &[
    libc::SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
];

/// Refuses them from now on, to this thread and all that it starts.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn install(order: &Order) -> io::Result<()> {
    let plain = |calls: &[c_long]| calls.iter().map(|call| (*call, Vec::new())).collect();
    let mut refused: BTreeMap<c_long, Vec<SeccompRule>> = plain(REFUSED);
    refused.extend(conditional(order).map_err(io::Error::other)?);
    if order.watches_files {
        refused.remove(&libc::SYS_fanotify_init);
    }
    let mut unsupported = BTreeMap::new();
    if let Some(sizes) = &order.size_limits {
        refused.extend(plain(RESIZING));
        refused.extend(resizing(sizes).map_err(io::Error::other)?);
        // QEMU then writes zeros where it would have had the file system do so.
        unsupported = plain(&[libc::SYS_fallocate]);
    }
    let all = [(plain(ABSENT), libc::ENOSYS), (refused, libc::EPERM), (unsupported, libc::EOPNOTSUPP)];
    for (rules, errno) in all.into_iter().filter(|(rules, _)| !rules.is_empty()) {
        let program = compiled(rules, errno).map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn compiled(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = if cfg!(target_arch = "x86_64") { TargetArch::x86_64 } else { TargetArch::aarch64 };
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()?;
    Ok(other_numbers().into_iter().chain(program).collect())
}

/// The bits of a socket's kind that are no flags.
const SOCKET_KIND: u64 = 0xf;
/// Where the numbers of x32 begin.
const X32: u32 = 0x4000_0000;

/// On x86-64 the same calls go under other numbers as well (x32), which would pass by every rule.
fn other_numbers() -> Vec<seccompiler::sock_filter> {
    use libc::{BPF_ABS, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ERRNO};
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let code = |bits: u32| u16::try_from(bits).unwrap_or_default();
    let op = |bits, jt, jf, k| seccompiler::sock_filter { code: code(bits), jt, jf, k };
    vec![
        // The call's number is the first word of what a filter sees.
        op(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        op(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32),
        op(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}

/// Refused with some arguments.
fn conditional(order: &Order) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    let mut refuse = |call: c_long, conditions: Vec<SeccompCondition>| {
        SeccompRule::new(conditions).map(|rule| rules.entry(call).or_default().push(rule))
    };
    // Where each call has its mode.
    let mut modes = vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_mknodat, 2)];
    let mut makers = vec![(libc::SYS_mknodat, 2)];
    let mut openers = vec![(libc::SYS_openat, 2)];
    #[cfg(target_arch = "x86_64")]
    {
        modes.extend([(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)]);
        makers.push((libc::SYS_mknod, 1));
        openers.push((libc::SYS_open, 1));
    }
    for (call, place) in modes {
        for bit in SET_ID {
            refuse(call, vec![has(place, bit, bit)?])?;
        }
    }
    for (call, place) in makers {
        for kind in DEVICES {
            refuse(call, vec![has(place, KIND, kind)?])?;
        }
    }
    for (call, flags) in openers {
        if order.size_limits.is_some() {
            let cuts = libc::O_TRUNC.unsigned_abs().into();
            refuse(call, vec![has(flags, cuts, cuts)?])?;
        }
        for (makes, bit) in MAKES.into_iter().flat_map(|makes| SET_ID.map(|bit| (makes, bit))) {
            refuse(call, vec![has(flags, makes, makes)?, has(flags + 1, bit, bit)?])?;
        }
    }
    refuse(libc::SYS_renameat2, vec![has(4, WHITEOUT, WHITEOUT)?])?;
    for flag in NAMESPACES {
        refuse(libc::SYS_clone, vec![has(0, flag, flag)?])?;
    }
    let allocating: &[u64] = if order.size_limits.is_some() { &ALLOCATING_IOCTLS } else { &[] };
    let commands =
        [(libc::SYS_fcntl, FCNTLS.as_slice()), (libc::SYS_ioctl, &IOCTLS), (libc::SYS_ioctl, allocating)];
    for (call, commands) in commands {
        for command in commands {
            refuse(call, vec![condition(1, SeccompCmpOp::Eq, *command)?])?;
        }
    }
    refuse(libc::SYS_socket, foreign_families(order)?)?;
    // A socket of such a pair sends to whoever listens at a path.
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        refuse(libc::SYS_socketpair, vec![has(1, SOCKET_KIND, u64::from(kind.unsigned_abs()))?])?;
    }
    // Nobody is signalled but itself, nobody's limits are changed.
    let own = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        refuse(call, vec![condition(0, SeccompCmpOp::Ne, own)?])?;
    }
    refuse(
        libc::SYS_prlimit64,
        vec![condition(0, SeccompCmpOp::Ne, 0)?, condition(0, SeccompCmpOp::Ne, own)?],
    )?;
    Ok(rules)
}

/// Where sizes of files are limited: setting another one than those of its own memory, and giving memory of a file back.
fn resizing(sizes: &SizeLimits) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, seccompiler::BackendError> {
    let other = |size: &u64| SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, *size);
    let own: Vec<_> = sizes.own.iter().map(other).collect::<Result<_, _>>()?;
    let rules = if own.is_empty() { Vec::new() } else { vec![SeccompRule::new(own)?] };
    let gives_back = vec![condition(2, SeccompCmpOp::Eq, libc::MADV_REMOVE.unsigned_abs().into())?];
    Ok(BTreeMap::from([
        (libc::SYS_ftruncate, rules),
        (libc::SYS_madvise, vec![SeccompRule::new(gives_back)?]),
    ]))
}

/// Sockets that it is not given: what others listen at is handed over, and there are families that leave a network of its own.
fn foreign_families(order: &Order) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    let internet = [libc::AF_INET, libc::AF_INET6].into_iter().filter(|_| order.network == Network::Host);
    let local = Some(libc::AF_UNIX).filter(|_| order.local_sockets);
    let known: Vec<u64> = internet.chain(local).map(|family| u64::from(family.unsigned_abs())).collect();
    // None is known: whichever it is, it is not this one.
    let known = if known.is_empty() { vec![u64::from(u32::MAX)] } else { known };
    known.into_iter().map(|family| condition(0, SeccompCmpOp::Ne, family)).collect()
}

fn has(place: u8, mask: u64, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    condition(place, SeccompCmpOp::MaskedEq(mask), value)
}

fn condition(place: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, op, value)
}

#[cfg(test)]
#[expect(unsafe_code, reason = "calls are made as they are, with words that mean nothing to them")]
mod tests {
    use super::*;

    /// What each call says behind the filter and nothing else, to somebody who has all rights; no word of it is an address or a
    /// descriptor. A filter holds for the thread that took it.
    fn answers(order: &Order, calls: Vec<(c_long, [u64; 6])>) -> Vec<(c_long, i32)> {
        let order = order.clone();
        let behind = move || {
            install(&order).unwrap();
            let ask = |(call, words): (c_long, [u64; 6])| {
                // SAFETY: the filter refuses before the words are looked at; where it fails to, they lead nowhere.
                let answer = unsafe {
                    libc::syscall(call, words[0], words[1], words[2], words[3], words[4], words[5])
                };
                (call, if answer == -1 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 })
            };
            calls.into_iter().map(ask).collect()
        };
        std::thread::spawn(behind).join().unwrap()
    }

    /// Words that lead nowhere.
    const NOWHERE: [u64; 6] = [u64::MAX; 6];

    fn assert_refused(order: &Order, calls: &[(c_long, [u64; 6])], errno: i32) {
        for (call, said) in answers(order, calls.to_vec()) {
            assert_eq!(said, errno, "system call {call}");
        }
    }

    #[test]
    fn each_call_is_refused_by_the_filter_itself() {
        if !nix::unistd::geteuid().is_root() {
            return skips::skip(skips::Need::Root, "others are refused many of these for want of rights");
        }
        let plain = Order::default();
        let nowhere = |calls: &[c_long]| calls.iter().map(|call| (*call, NOWHERE)).collect::<Vec<_>>();
        assert_refused(&plain, &nowhere(REFUSED), libc::EPERM);
        assert_refused(&plain, &nowhere(ABSENT), libc::ENOSYS);
        let watching = Order { watches_files: true, ..Order::default() };
        assert_refused(&watching, &nowhere(&[libc::SYS_fanotify_init]), libc::EINVAL);
        // Signals: to the first process, to all, to the parent's group; limits of another one.
        let others = [1, u64::MAX, 0].map(|id| [id, 0, 0, 0, 0, 0]);
        for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo]
        {
            assert_refused(&plain, &others.map(|words| (call, words)), libc::EPERM);
        }
        assert_refused(&plain, &[(libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0])], libc::EPERM);
        let whiteout = [u64::MAX, 0, u64::MAX, 0, WHITEOUT, 0];
        assert_refused(&plain, &[(libc::SYS_renameat2, whiteout)], libc::EPERM);
        for flag in NAMESPACES {
            assert_refused(&plain, &[(libc::SYS_clone, [flag, 0, 0, 0, 0, 0])], libc::EPERM);
        }
        for command in FCNTLS {
            assert_refused(&plain, &[(libc::SYS_fcntl, [u64::MAX, command, 0, 0, 0, 0])], libc::EPERM);
        }
    }

    #[test]
    fn sizes_stay_by_the_filter_itself() {
        let limits = SizeLimits { longest: 1 << 40, own: vec![1 << 33] };
        let limited = Order { size_limits: Some(limits), ..Order::default() };
        let descriptor = |words: [u64; 5]| [u64::MAX, words[0], words[1], words[2], words[3], words[4]];
        let mut calls = vec![
            (libc::SYS_truncate, NOWHERE),
            (libc::SYS_ftruncate, descriptor([0; 5])),
            (libc::SYS_ftruncate, descriptor([(1 << 33) + 1, 0, 0, 0, 0])),
            (libc::SYS_openat, descriptor([0, u64::from(libc::O_TRUNC.unsigned_abs()), 0, 0, 0])),
            (libc::SYS_madvise, [0, 4096, 9, 0, 0, 0]),
        ];
        calls.extend(ALLOCATING_IOCTLS.map(|command| (libc::SYS_ioctl, descriptor([command, 0, 0, 0, 0]))));
        assert_refused(&limited, &calls, libc::EPERM);
        assert_refused(&limited, &[(libc::SYS_fallocate, NOWHERE)], libc::EOPNOTSUPP);
        // Its own memory is made; no descriptor, so nothing is.
        let own = [(libc::SYS_ftruncate, descriptor([1 << 33, 0, 0, 0, 0]))];
        assert_refused(&limited, &own, libc::EBADF);
        assert_refused(&Order::default(), &calls[1..2], libc::EBADF);
    }

    #[test]
    fn the_filters_are_ones() {
        let rules = conditional(&Order::default()).unwrap();
        assert!(rules.contains_key(&libc::SYS_fchmodat) && !rules.contains_key(&libc::SYS_read));
        // The kernel takes 4096 instructions.
        assert!(compiled(rules, libc::EPERM).unwrap().len() < 4096);
    }
}
