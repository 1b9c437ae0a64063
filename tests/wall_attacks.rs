//! Somebody has taken QEMU over and wants to break out: what the wall around it refuses, tried by a script in its place.

use crate::exec_fixture;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bulkhead::platforms::wall::{self, Order, Rights, SizeLimits};
use exec_fixture::{binary, complaint, finish};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// A program behind the wall in QEMU's place, as if the guest had taken QEMU over.
fn taken_over(order: &Order) -> Output {
    let mut command = wall::command(binary(), order);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let child = wall::start(command).expect("the wall is built");
    finish(child)
}

/// A Perl script behind the wall: Perl is on every Debian, and can make any system call. It says what succeeded on standard
/// error, which stays.
fn attack(shown: &[(&Path, &str, Rights)], script: &str) -> String {
    attack_from(Order::default(), shown, script)
}

fn attack_from(mut order: Order, shown: &[(&Path, &str, Rights)], script: &str) -> String {
    for folder in ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"] {
        if fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()) {
            order.links.push((fs::read_link(folder).expect("a link"), folder.into()));
        } else if Path::new(folder).exists() {
            order.show(Path::new(folder), folder, Rights::Execute);
        }
    }
    for (from, at, rights) in shown {
        order.show(from, at, *rights);
    }
    let helper = "sub z { my $copy = shift; $copy } sub try { my ($what, $done) = @_; print STDERR \"$what\\n\" if $done }\n";
    order.words = ["/usr/bin/perl", "-e"].map(Into::into).to_vec();
    order.words.push(format!("{helper}{script}; print STDERR \"end\\n\";").into());
    complaint(&taken_over(&order))
}

/// A process to be attacked; it ends with the test, whatever comes of that.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_takes_qemu_over_gets_no_further() {
    let mut other = Victim(Command::new("sleep").arg("1000").spawn().expect("sleep starts"));
    let victim = other.0.id();
    // Numbers of calls as on x86-64, which the product's machines are.
    let script = format!(
        "try('unshare user', syscall(272, 0x10000000) == 0); try('unshare mount', syscall(272, 0x20000) == 0);
         try('clone user', syscall(56, 0x10000000 | 17, 0, 0, 0, 0) > 0);
         try('mount', syscall(165, z('none'), z('/proc'), z('tmpfs'), 0, 0) == 0);
         try('umount', syscall(166, z('/usr'), 2) == 0); try('chroot', syscall(161, z('/')) == 0);
         try('ptrace', syscall(101, 16, {victim}, 0, 0) == 0); try('kill', kill(9, {victim}));
         try('kill parent', kill(0, getppid())); try('kill all', kill(9, -1));
         try('setuid 0', ($< = 0, $> = 0) && $> == 0 && syscall(105, 0) == 0 && -w '/usr');
         try('keyring', syscall(250, 0, -3, 0) >= 0); try('io_uring', syscall(425, 4, z('x' x 120)) >= 0);
         try('bpf', syscall(321, 0, z('x' x 64), 64) >= 0); try('perf', syscall(298, z('x' x 112), 0, -1, -1, 0) >= 0);
         try('x32', syscall(0x40000000 + 39) > 0); try('shadow', open(my $f, '<', '/etc/shadow'));
         try('home', -e '/root' || -e '/home'); try('init', -e '/proc/1'); try('sys', -e '/sys/kernel');
         try('own', syscall(41, 1, 1, 0) >= 0); try('inet', syscall(41, 2, 1, 0) >= 0); try('vsock', syscall(41, 40, 1, 0) >= 0);
         try('pair', syscall(53, 1, 2, 0, z('x' x 8)) == 0); try('flagged pair', syscall(53, 1, 0x80802, 0, z('x' x 8)) == 0);
         open(my $null, '<', '/dev/null') or die; my $n = fileno($null);
         try('signal by file', syscall(72, $n, 8, {victim}) == 0); try('signal number', syscall(72, $n, 10, 9) == 0);
         try('owner', syscall(72, $n, 15, z(pack('ii', 1, {victim}))) == 0); try('lease', syscall(72, $n, 1024, 0) == 0);
         try('ioctl owner', syscall(16, $n, 0x8901, z(pack('i', {victim}))) == 0);
         try('affinity', syscall(203, {victim}, 8, z(pack('Q', 1))) == 0); try('policy', syscall(144, {victim}, 5, z(pack('i', 0))) == 0);
         try('nice', syscall(141, 0, {victim}, 19) == 0); opendir(my $d, '/proc/self/fd') or die;
         my @open = grep {{ /^[0-9]+$/ && $_ > 2 }} readdir $d; try('open: ' . join(',', @open), @open > 2);
         try('raise limit', syscall(160, 7, z(pack('QQ', 1<<20, 1<<20))) == 0);
         try('write usr', open(my $g, '>', '/usr/bin/true')); try('write root', open(my $h, '>', '/x'));
         try('device', syscall(133, z('/dev/x'), 020666, 0x103) == 0); try('set host name', syscall(170, z('x'), 1) == 0)"
    );
    assert_eq!(attack(&[], &script), "end\n");
    assert!(other.0.try_wait().expect("it can be asked").is_none(), "nobody was killed");
}

#[test]
fn who_takes_qemu_over_writes_no_section_that_it_may_only_read() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("memory");
    let section = folder.path().join("section");
    fs::write(&section, [7_u8; 4096]).expect("the test's own files");
    fs::set_permissions(&section, fs::Permissions::from_mode(0o600)).expect("the test's own files");
    let script = "try('write', open(my $f, '+<', '/sections/0')); try('append', open(my $g, '>>', '/sections/0'));
         try('no reading', !open(my $r, '<', '/sections/0'));
         my $fd = fileno($r); try('again', open(my $h, '+<', \"/proc/self/fd/$fd\"));
         try('map', syscall(9, 0, 4096, 3, 1, $fd, 0) != -1);
         my $at = syscall(9, 0, 4096, 1, 1, $fd, 0); try('not mapped', $at == -1);
         try('mprotect', syscall(10, $at, 4096, 3) == 0);
         try('truncate', truncate('/sections/0', 1)); try('chmod', chmod(0666, '/sections/0'));
         try('remove', unlink('/sections/0')); try('remount', syscall(165, z('none'), z('/sections/0'), 0, 0x1020, 0) == 0)";
    assert_eq!(attack(&[(&section, "/sections/0", Rights::Read)], script), "end\n");
    assert_eq!(fs::read(&section).expect("it is there"), [7_u8; 4096]);
    // The writer's is written.
    let script = "open(my $f, '+<', '/sections/0') or die; print $f 'x'";
    assert_eq!(attack(&[(&section, "/sections/0", Rights::Write)], script), "end\n");
    assert!(fs::read(&section).expect("it is there").starts_with(b"x\x07"));
}

#[test]
fn who_takes_qemu_over_leaves_nothing_that_gives_rights() {
    let folder = tempfile::tempdir().expect("the test's own files");
    let script = "chdir('/trees/0') or die; umask(0); open(my $f, '>', 'program') or die; print $f '#!/bin/sh'; close $f;
         try('chmod', chmod(04755, 'program')); try('chmod group', chmod(02755, 'program')); chmod(0755, 'program');
         try('fchmodat2', syscall(452, -100, z('program'), 04755, 0) == 0);
         try('open', syscall(2, z('made'), 0101, 04755) >= 0); try('openat', syscall(257, -100, z('made'), 0101, 04755) >= 0);
         try('creat', syscall(85, z('made'), 06755) >= 0); try('openat2', syscall(437, -100, z('made'), z(pack('QQQ', 0101, 04755, 0)), 24) >= 0);
         try('tmpfile', syscall(257, -100, z('.'), 020200002, 04755) >= 0);
         try('mknod', syscall(133, z('null'), 020666, 0x103) == 0); try('mknod file', syscall(133, z('made'), 0104755, 0) == 0);
         try('whiteout', syscall(316, -100, z('program'), -100, z('moved'), 4) == 0);
         try('mknodat', syscall(259, -100, z('disk'), 060666, 0x800) == 0);
         try('chown', chown(1, 1, 'program')); try('capability',
             syscall(188, z('program'), z('security.capability'), z(pack('V5', 0x02000001, 1<<13, 0, 0, 0)), 20, 0) == 0);
         try('outside', open(my $g, '>', '../../x'))";
    let said = attack(&[(folder.path(), "/trees/0", Rights::Write)], script);
    assert_eq!(said, "end\n");
    let own = geteuid().as_raw();
    for entry in fs::read_dir(folder.path()).expect("it is there").flatten() {
        let meta = entry.metadata().expect("it is there");
        assert_eq!((meta.uid(), meta.mode() & 0o6000), (own, 0), "{}", entry.path().display());
    }
    assert!(folder.path().join("program").exists());
}

#[test]
fn who_takes_a_writers_qemu_over_changes_no_size() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("memory");
    let section = folder.path().join("section");
    fs::write(&section, [7_u8; 8192]).expect("the test's own files");
    fs::set_permissions(&section, fs::Permissions::from_mode(0o600)).expect("the test's own files");
    let shown = [(section.as_path(), "/sections/0", Rights::Write)];
    let script = "open(my $f, '+<', '/sections/0') or die; my $fd = fileno($f);
         try('truncate', syscall(76, z('/sections/0'), 0) == 0); try('ftruncate', syscall(77, $fd, 1) == 0);
         try('longer', syscall(77, $fd, 1 << 20) == 0); try('own size', syscall(77, $fd, 4096) == 0);
         try('open', open(my $g, '+>', '/sections/0')); try('creat', syscall(85, z('/sections/0'), 0600) >= 0);
         try('openat', syscall(257, -100, z('/sections/0'), 01002, 0) >= 0);
         try('allocate', syscall(285, $fd, 0, 0, 1 << 20) == 0); try('hole', syscall(285, $fd, 3, 0, 4096) == 0);
         my $at = syscall(9, 0, 8192, 3, 1, $fd, 0); try('not mapped', $at == -1);
         try('give back', syscall(28, $at, 4096, 9) == 0);
         try('give back by itself', syscall(440, -10000, z(pack('QQ', $at, 4096)), 1, 9, 0) > 0);
         try('hole by ioctl', syscall(16, $fd, 0x4030582b, z(pack('ssqqiI4', 0, 0, 0, 4096, 0, 0, 0, 0, 0))) == 0);
         $SIG{XFSZ} = 'IGNORE'; try('beyond', defined syscall(18, $fd, z('x' x 10), 10, 8192) && -s '/sections/0' > 8192);
         my $own = syscall(319, z('own'), 0); try('no memory of its own', syscall(77, $own, 6144) != 0);
         syscall(18, $fd, z('y'), 1, 5) == 1 or print STDERR \"not written\n\"";
    let fixed = SizeLimits { longest: 8192, own: vec![6144] };
    let order = Order { size_limits: Some(fixed), ..Order::default() };
    assert_eq!(attack_from(order, &shown, script), "end\n");
    let left = fs::read(&section).expect("it is there");
    assert_eq!((left.len(), &left[4..7], left[8191]), (8192, b"\x07y\x07".as_slice(), 7));
    // Elsewhere files are cut, as those of a guest that writes to a folder must be.
    let script = "try('truncate', syscall(76, z('/sections/0'), 4096) == 0)";
    assert_eq!(attack(&shown, script), "truncate\nend\n");
}

#[test]
fn what_the_caller_has_open_does_not_go_behind_the_wall() {
    use std::os::fd::AsRawFd;
    let folder = fs::File::open("/").expect("a folder");
    nix::fcntl::fcntl(&folder, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
        .expect("inheritable");
    let number = folder.as_raw_fd();
    let script = format!("try('there', -e '/proc/self/fd/{number}/etc/passwd')");
    assert_eq!(attack(&[], &script), "end\n");
}

/// `--files all` has 9P look at the host's own tree: not even there are the host's processes and devices.
#[test]
fn no_mount_of_the_host_is_reached_but_those_shown() {
    let home = tempfile::tempdir().expect("the test's own files");
    fs::create_dir(home.path().join("below")).expect("the test's own files");
    let script = "opendir(my $d, '/trees/0/proc') or die; my @there = grep { !/^\\.+$/ } readdir $d; try('proc', scalar @there);
         try('sys', -e '/trees/0/sys/kernel'); try('dev', -e '/trees/0/dev/null'); try('no etc', !-e '/trees/0/etc/passwd');
         try('write', open(my $f, '>', '/trees/0/tmp/x'))";
    assert_eq!(attack(&[(Path::new("/"), "/trees/0", Rights::Read)], script), "end\n");
}

/// On most hosts mounts are passed on to whoever has a copy of the folder: here, whoever is behind the wall has none of what
/// is mounted later, the kernel's own made-up files least of all.
#[test]
fn what_the_host_mounts_later_does_not_come_in() {
    if !geteuid().is_root() {
        return skip(Need::Root, "only root mounts");
    }
    let folder = tempfile::tempdir().expect("the test's own files");
    let shown = folder.path().join("shown");
    fs::create_dir_all(shown.join("later")).expect("the test's own files");
    let run =
        |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&shown).status().expect("it runs");
    assert!(run(&["mount", "--bind", shown.to_str().expect("text")]).success());
    assert!(run(&["mount", "--make-shared"]).success());
    let script = "select(undef, undef, undef, 0.05) until -e '/shown/go'; try('in', -e '/shown/later/1')";
    let said = std::thread::scope(|scope| {
        let behind = scope.spawn(|| attack(&[(&shown, "/shown", Rights::Read)], script));
        std::thread::sleep(Duration::from_secs(2));
        let later = Command::new("mount").args(["-t", "proc", "proc"]).arg(shown.join("later")).status();
        fs::write(shown.join("go"), "").expect("the test's own files");
        let said = behind.join().expect("no panic");
        assert!(later.expect("mount runs").success() && shown.join("later/1").exists(), "the host has it");
        said
    });
    assert!(run(&["umount", "--recursive"]).success());
    assert_eq!(said, "end\n");
}
