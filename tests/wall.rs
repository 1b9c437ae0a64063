//! The wall around QEMU, and what a program walled off sees: the promises of docs/security.md, each tried by somebody who
//! wants to break it.

use crate::exec_fixture;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bulkhead::partition::network::switch;
use bulkhead::platforms::wall;
use exec_fixture::normal_user::{NormalUser, kept_cache};
use exec_fixture::{Here, assert_code, binary, complaint, finish, guests_start, text, wait_for};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// First user of those that own nothing.
const FIRST_USER: u32 = 0x7000_0000;

/// The process of QEMU below a running `exec`.
fn qemu_of(child: &Child) -> u32 {
    let mut looked = vec![child.id()];
    while let Some(id) = looked.pop() {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        if name.starts_with("qemu") {
            return id;
        }
        for thread in fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            looked.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    panic!("no QEMU runs")
}

fn status(id: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field}")).split_whitespace().next().unwrap_or_default().to_owned()
}

fn namespace(id: &str, kind: &str) -> PathBuf {
    fs::read_link(format!("/proc/{id}/ns/{kind}")).expect("it can be asked")
}

/// A limit of a process, soft and hard.
fn limits(id: &str, name: &str) -> [u64; 2] {
    let text = fs::read_to_string(format!("/proc/{id}/limits")).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a limit");
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    [words.next().expect("soft"), words.next().expect("hard")]
}

#[test]
fn qemu_is_nobody_with_nothing() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let mut child = here.command(&["--", "sh", "-c", "echo ready; sleep 1000"]).spawn().expect("it starts");
    wait_for(&mut child, "ready\n");
    let qemu = qemu_of(&child);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status(qemu, set), 16), Ok(0), "{set}");
    }
    assert_eq!((status(qemu, "NoNewPrivs"), status(qemu, "Seccomp")), ("1".into(), "2".into()));
    let groups = fs::read_to_string(format!("/proc/{qemu}/status")).expect("it runs");
    if geteuid().is_root() {
        assert!(status(qemu, "Uid").parse::<u32>().is_ok_and(|uid| uid >= FIRST_USER), "{groups}");
        assert!(groups.lines().any(|line| line.trim() == "Groups:"), "{groups}");
    }
    for kind in ["mnt", "net", "ipc", "uts", "user"] {
        assert_ne!(namespace(&qemu.to_string(), kind), namespace("self", kind), "{kind}");
    }
    for (name, most) in [
        ("Max core file size", 0),
        ("Max msgqueue size", 0),
        ("Max open files", 65_536),
        ("Max processes", 4096),
    ] {
        // No more than whoever calls may have itself.
        let wanted = limits("self", name)[1].min(most);
        assert_eq!(limits(&qemu.to_string(), name), [wanted, wanted], "{name}");
    }
    let words = fs::read(format!("/proc/{qemu}/cmdline")).expect("it runs");
    assert!(String::from_utf8_lossy(&words).contains("-sandbox\0on,"), "its own sandbox is on");
    // What it sees as its root: nothing of the host but programs, its machine and the given trees.
    let root = format!("/proc/{qemu}/root");
    let there: BTreeSet<String> = fs::read_dir(&root)
        .expect("root may look")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let allowed = [
        "bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "machine", "nix", "proc", "sbin",
        "sections", "trees", "usr",
    ];
    assert!(there.iter().all(|name| allowed.contains(&name.as_str())), "{there:?}");
    let processes: Vec<String> = fs::read_dir(format!("{root}/proc"))
        .expect("root may look")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(processes, ["self"], "it sees no process but itself");
    assert!(!Path::new(&format!("{root}/etc/shadow")).exists());
    child.kill().expect("it runs");
    finish(child);
    here.assert_nothing_left();
}

#[test]
fn a_switch_sees_its_link_alone() {
    let link = tempfile::tempdir().expect("the test's own files");
    fs::set_permissions(link.path(), fs::Permissions::from_mode(0o700)).expect("the test's own files");
    let order = switch::SwitchOrder {
        folder: link.path().to_owned(),
        state: Some(link.path().join("state")),
        ..switch::SwitchOrder::default()
    };
    let mut command = order.walled(binary());
    command.stdin(Stdio::null());
    let mut child = wall::start(command).expect("it starts");
    while !link.path().join("state").exists() {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let id = child.id();
    assert_eq!((status(id, "NoNewPrivs"), status(id, "Seccomp")), ("1".into(), "2".into()));
    assert_eq!(u64::from_str_radix(&status(id, "CapEff"), 16), Ok(0));
    if geteuid().is_root() {
        assert!(status(id, "Uid").parse::<u32>().is_ok_and(|uid| uid >= FIRST_USER));
        assert_eq!(fs::metadata(link.path().join("state")).expect("it is there").uid(), 0, "the caller's");
    }
    let mounts = fs::read_to_string(format!("/proc/{id}/mountinfo")).expect("it runs");
    let places: BTreeSet<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    let link_path = link.path().to_str().expect("text");
    for place in places {
        let known =
            ["/", "/bulkhead", "/proc/self", link_path].contains(&place) || place.starts_with("/dev/");
        assert!(known, "{place}: {mounts}");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn what_a_guest_leaves_gives_nobody_rights() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let script = "cp /bin/true a; chmod 4755 a 2>/dev/null && echo chmod; chmod 2755 a 2>/dev/null && echo group
        install -m 4755 /bin/true b 2>/dev/null && echo install; rm -f b; mknod c c 1 3 2>/dev/null && echo mknod
        chown 1:1 a 2>/dev/null && echo chown; stat -c '%u %g %a' a; chmod 6755 a; cp -p a d; tar cf - -C /usr/bin su | tar xpf - 2>/dev/null; umask 0
        python3 -c 'import os; os.open(\"e\", os.O_CREAT | os.O_WRONLY, 0o6755)' 2>/dev/null && echo open
        chmod 0755 a && cp /bin/true /tmp/t && chmod 4755 /tmp/t && echo own layer";
    let folder = open.to_str().expect("text");
    let output = here.run(&["--rw", folder, "--workdir", folder, "--", "sh", "-c", script]);
    assert_code(&output, 0);
    let out = text(&output);
    assert!(!out.contains("mknod") && out.ends_with("own layer\n"), "{out}{}", complaint(&output));
    // Over virtio-fs they are what guests think among themselves; nothing of it is on the host.
    for notion in ["chmod\ngroup\ninstall\n", "chown\n1 1 ", "open\n"] {
        assert!(out.contains(notion), "{notion}: {out}");
    }
    let (own, mut count) = (geteuid().as_raw(), 0);
    for entry in fs::read_dir(&open).expect("it is there").flatten() {
        let meta = entry.metadata().expect("it is there");
        count += 1;
        let gives_nothing = meta.is_file() && meta.uid() == own && meta.mode() & 0o6000 == 0;
        assert!(gives_nothing, "{}", entry.path().display());
    }
    assert!(count >= 2, "something did come out");
    here.assert_nothing_left();
}

#[test]
fn what_would_give_a_guest_more_is_not_opened_for_writing() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // Not in everybody's: who knows what lies there.
    let (above, temporary) = (here.path("above"), here.path("above/temporary"));
    fs::create_dir_all(&temporary).expect("the test's own files");
    let refused = |path: &Path, why: &str| {
        let mut command = here.command(&["--rw", path.to_str().expect("text"), "--", "true"]);
        let output = finish(command.env("TMPDIR", &temporary).spawn().expect("it starts"));
        assert_code(&output, 125);
        assert!(complaint(&output).contains(why), "{}", complaint(&output));
    };
    // Where what must be undone is written down.
    refused(&temporary, "bulkhead's own");
    refused(&above, "bulkhead's own");
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    fs::copy("/bin/true", open.join("program")).expect("the test's own files");
    fs::set_permissions(open.join("program"), fs::Permissions::from_mode(0o4755))
        .expect("the test's own files");
    refused(&open, "carries its owner's");
    fs::remove_file(open.join("program")).expect("the test's own files");
    // A report is written to the file that was opened, not through what the guest puts there.
    let victim = here.path("victim");
    fs::write(&victim, "precious\n").expect("the test's own files");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let script = format!("ln -sf {} {}", text(&victim), text(&open.join("report")));
    let report = format!("--report={}", text(&open.join("report")));
    let output = here.run(&["--rw", &text(&open), &report, "--", "sh", "-c", &script]);
    assert_code(&output, 0);
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious\n");
    here.assert_nothing_left();
}

#[test]
fn a_program_sees_the_system_and_what_was_named() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    for name in ["named", "hidden", "work"] {
        let folder = here.path(name);
        fs::create_dir(&folder).expect("the test's own files");
        fs::write(folder.join("file"), format!("{name}\n")).expect("the test's own files");
        fs::set_permissions(folder.join("file"), fs::Permissions::from_mode(0o600))
            .expect("the test's own files");
    }
    std::os::unix::fs::symlink("named", here.path("link")).expect("the test's own files");
    let files = here.files.path().to_str().expect("text");
    let script = format!(
        "cat {files}/work/file {files}/link/file; cat {files}/hidden/file; cat file; head -c 5 /etc/passwd; echo; cat /etc/shadow
         ls -A /root /home; env | cut -d= -f1 | sort | tr '\\n' ' '; echo; ls /proc/1/root/var/lib; true > file && echo written"
    );
    let mut command = here.command(&[
        "--ro",
        here.path("link").to_str().expect("text"),
        "--env",
        "PASSED",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    command.current_dir(here.path("work")).env("SECRET_TOKEN", "s").env("PASSED", "p").env("LC_ALL", "C");
    // Looks like a locale, and is not.
    command.env("LC_TOKEN", "s");
    let output = finish(command.spawn().expect("it starts"));
    let out = text(&output);
    assert!(out.starts_with("work\nnamed\nwork\nroot:\n"), "{out}{}", complaint(&output));
    assert!(!out.contains("hidden\n") && !out.contains("TOKEN") && out.contains("PASSED"), "{out}");
    assert!(out.ends_with("written\n"), "the throw-away layer: {out}");
    assert!(complaint(&output).contains("shadow"), "{}", complaint(&output));
    assert_eq!(fs::read_to_string(here.path("work/file")).expect("it is there"), "work\n");
    // By name, everything: but what the kernel makes up is the guest's own.
    let hidden = format!("{files}/hidden/file");
    let mut command = here.command(&[
        "--files",
        "all",
        "--env-all",
        "--",
        "sh",
        "-c",
        &format!("cat {hidden}; echo $SECRET_TOKEN"),
    ]);
    let output = finish(command.env("SECRET_TOKEN", "s").spawn().expect("it starts"));
    assert_eq!(text(&output), "hidden\ns\n", "{}", complaint(&output));
    // One that is named is shown, and nothing beside it; one that is only found is not: it is told what would show it.
    fs::copy("/bin/ls", here.path("hidden/tool")).expect("the test's own files");
    let tool = format!("{files}/hidden/tool");
    let output = here.run(&["--", &tool, "-A", &format!("{files}/hidden")]);
    assert_eq!(text(&output), "tool\n", "{}", complaint(&output));
    let output = here.run(&["--env", &format!("PATH={files}/hidden"), "--", "tool"]);
    assert_code(&output, 127);
    assert!(complaint(&output).contains(&format!("--ro {files}/hidden")), "{}", complaint(&output));
    here.assert_nothing_left();
}

/// Names of files are bytes: somebody's mount of any name keeps nobody from starting a guest.
#[test]
fn a_mount_whose_name_is_no_text_is_no_hindrance() {
    use std::os::unix::ffi::OsStrExt;
    if !geteuid().is_root() {
        return skip(Need::Root, "only root mounts");
    }
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let mounted = here.files.path().join(std::ffi::OsStr::from_bytes(b"n\xffme"));
    fs::create_dir(&mounted).expect("the test's own files");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]).arg(&mounted);
    command
        .arg(binary())
        .args(["exec", "--accel", "tcg", "--memory", "320MiB", "--ro"])
        .arg(here.files.path());
    command.args(["--", "ls", "-A"]).arg(&mounted).env("TMPDIR", here.temporary()).stdin(Stdio::null());
    let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"));
    assert_code(&output, 0);
    here.assert_nothing_left();
}

#[test]
fn a_home_is_not_shown_for_working_there() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let home = here.path("home");
    fs::create_dir(&home).expect("the test's own files");
    fs::write(home.join("key"), "secret\n").expect("the test's own files");
    std::os::unix::fs::symlink("home", here.path("link")).expect("the test's own files");
    // By its own name, by another one, and from above.
    for (named, start) in [("home", "home"), ("link", "home"), ("home", "link"), ("home", "")] {
        let start = here.path(start);
        let mut command =
            here.command(&["--", "sh", "-c", "ls -A; ls -A home 2>/dev/null; cat key home/key"]);
        command.env("XDG_CACHE_HOME", kept_cache()).env("HOME", here.path(named));
        let output = finish(command.current_dir(&start).spawn().expect("it starts"));
        assert_code(&output, 1);
        assert!(!text(&output).contains("secret"), "{named} from {}: {}", start.display(), text(&output));
        assert!(complaint(&output).contains("--ro"), "{}", complaint(&output));
    }
}

/// Somebody may be in a group that reads what is not for everybody; the program walled off is not.
#[test]
fn of_etc_a_callers_groups_show_nothing() {
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can become a normal user for a moment");
    }
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let group = fs::metadata("/etc/shadow").expect("it is there").gid();
    let user = NormalUser::new(&here);
    let script = "id -u; head -c 5 /etc/passwd; echo; cat /etc/shadow /etc/shadow-";
    let mut command = user.exec(&[group], &["--", "sh", "-c", script]);
    let output = finish(command.current_dir("/").spawn().expect("setpriv runs"));
    // What is hidden is there, and empty.
    assert_eq!(text(&output), "65534\nroot:\n", "{}", complaint(&output));
    assert_eq!(fs::read_dir(&user.temporary).expect("it is there").count(), 0);
}
