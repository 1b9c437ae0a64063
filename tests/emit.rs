//! `bulkhead up --emit`: what is written is understood by those it is for, and a program runs by it without us.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use skips::{Need, skip};

/// Only so that a guest that never ends fails its test.
const HANGS: Duration = Duration::from_secs(180);

const SET: &str = r#"
accelerator = "tcg"

[network.plant]
links = 2

[partition.hello]
program = ["/bin/sh", "-c", "echo \"$0 and $1\"; echo to the other >&2; cat; stat -Lc '%s %a' /dev/bulkhead/*; exit 7", "it's", "$HOME 100%"]
memory_mib = 192
networks = ["plant", "user"]

[partition.wide]
image = true
pin = "0"
node = 0
disk = [{ file = "IMAGE", bytes_per_s = 1000000, operations_per_s = 500 }]
card = [{ network = "plant", number = 7, bytes_per_s = 1000000 }]

[partition.later]
program = ["/bin/true"]
after = ["hello"]
restart = "always"
cpu_weight = 50

[channel.frames]
writer = "hello"
readers = ["later"]
size_mib = 1

[channel.back]
writer = "later"
readers = ["hello"]
size_mib = 2
"#;

fn emitted(dir: &Path, manager: &str) -> Option<Output> {
    let file = dir.join("works.toml");
    let image = dir.join("wide.img");
    std::fs::write(&image, vec![0; 1 << 20]).expect("the test's own");
    let set = SET.replace("IMAGE", image.to_str().expect("a path of text"));
    std::fs::write(&file, set).expect("the test's own");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.arg("up").arg(&file).args(["--emit", manager, "--out"]).arg(dir.join(manager));
    let output = command.output().expect("the test's own");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        skip(Need::Vm, said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(output)
}

fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the test's own");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs the script of a partition, which is to end with this code.
fn run_to_its_end(folder: &Path, name: &str, wanted: i32) -> String {
    let console = folder.join(format!("{name}.output/console"));
    let console = || std::fs::read_to_string(&console).unwrap_or_default();
    let script = folder.join(format!("{name}.sh"));
    let said = folder.join("said");
    let error = std::fs::File::create(&said).expect("the test's own");
    let mut child =
        Command::new(script).stdin(Stdio::null()).stderr(error).spawn().expect("a script that was written");
    let begun = Instant::now();
    while begun.elapsed() < HANGS {
        if let Some(status) = child.try_wait().expect("it is ours") {
            let said = std::fs::read_to_string(said).expect("the test's own");
            assert_eq!(status.code(), Some(wanted), "{said}{}", console());
            return said;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("{}", console());
}

/// The folder with a set's scripts, and what was said of them.
fn scripts(dir: &Path, set: &str) -> Option<(PathBuf, String)> {
    let (file, folder) = (dir.join("works.toml"), dir.join("qemu"));
    std::fs::write(&file, set).expect("the test's own");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    let output = command.arg("up").arg(&file).args(["--emit", "qemu", "--out"]).arg(&folder).output();
    let output = output.expect("the test's own");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        skip(Need::Vm, said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some((folder, said))
}

/// Writes and runs the script of a partition whose shell script may write to `data`; what we said of it, and what it said itself.
fn left_by_the_script(dir: &Path, data: &Path, script: &str) -> Option<(String, String)> {
    std::fs::create_dir(data).expect("the test's own");
    let data = data.to_str().expect("a path of text");
    let set = format!(
        "accelerator = \"tcg\"\n[partition.a]\nrw = [{data:?}]\nmemory_mib = 192\n\
         program = [\"/bin/sh\", \"-c\", {script:?}, \"sh\", {data:?}]\n"
    );
    let (folder, said) = scripts(dir, &set)?;
    run_to_its_end(&folder, "a", 0);
    let seen = std::fs::read_to_string(folder.join("a.output/out")).expect("what it said");
    Some((said, seen))
}

#[test]
fn what_a_program_leaves_by_the_script_gives_nobody_rights() {
    let dir = tempfile::tempdir().expect("the test's own");
    let data = dir.path().join("data");
    let script = "cd $1 && cp /bin/true tool && chmod 6755 tool && stat -c %a tool; mknod null c 1 3; \
                  chown 7:7 tool; ls -l; echo kept >text";
    let Some((said, seen)) = left_by_the_script(dir.path(), &data, script) else { return };
    assert!(said.contains("user.virtfs") && said.contains("not root"), "{said}");
    assert_eq!(std::fs::read_to_string(data.join("text")).expect(&seen), "kept\n", "{seen}");
    let mut found = 0;
    for entry in std::fs::read_dir(&data).expect("the test's own") {
        let (entry, mine) = (entry.expect("an entry"), dir.path().metadata().expect("the test's own"));
        let meta = entry.metadata().expect("an entry");
        let shown = entry.path().display().to_string();
        assert!(meta.is_file() && meta.mode() & 0o7077 == 0, "{shown}: {:o}\n{seen}", meta.mode());
        assert_eq!(meta.uid(), mine.uid(), "{shown}\n{seen}");
        found += 1;
    }
    assert!(found >= 2, "{seen}");
}

/// Over 9P nothing is cached of what may be written. A mapping would have to be: refused, rather than one that nobody else sees.
#[test]
fn over_9p_a_shared_mapping_for_writing_is_refused() {
    let dir = tempfile::tempdir().expect("the test's own");
    let script = "python3 -c 'import errno, mmap, os, sys\n\
                  file = os.open(sys.argv[1] + \"/file\", os.O_RDWR | os.O_CREAT)\n\
                  os.ftruncate(file, 4096)\n\
                  try:\n    mmap.mmap(file, 4096)\n    print(\"mapped\")\n\
                  except OSError as refused:\n    print(errno.errorcode[refused.errno])' $1";
    let data = dir.path().join("data");
    let Some((_, seen)) = left_by_the_script(dir.path(), &data, script) else { return };
    assert!(["ENODEV\n", "EINVAL\n"].contains(&seen.as_str()), "{seen}");
    assert_eq!(std::fs::metadata(data.join("file")).expect("it was made").len(), 4096, "{seen}");
}

#[test]
fn a_program_runs_by_the_script_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some(output) = emitted(dir.path(), "qemu") else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("network plant: its 2 links are one here"), "{said}");
    let folder = dir.path().join("qemu");
    for script in ["hello.sh", "later.sh", "all-partitions"] {
        let (fine, why) = run(Command::new("/bin/sh").arg("-n").arg(folder.join(script)));
        assert!(fine, "{script}: {why}");
    }
    assert_eq!(run_to_its_end(&folder, "hello", 7), "");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        read("hello.output/out"),
        "it's and $HOME 100%\n2097152 400\n1048576 600\n",
        "{}",
        read("hello.output/console")
    );
    assert_eq!(read("hello.output/err"), "to the other\n");
    let script = read("all-partitions");
    let memory = script.lines().find_map(|line| line.strip_prefix("memory=")).expect("it clears up");
    assert_eq!(std::fs::metadata(Path::new(memory).join("frames")).unwrap().len(), 1 << 20);
    let end = read("hello.output/end");
    assert!(end.lines().last().is_some_and(|line| line.contains("\"ended\"") && line.contains('7')), "{end}");
    // What it left says nothing of a guest that does not come to its program.
    std::fs::write(folder.join("hello.initrd"), "").unwrap();
    let said = run_to_its_end(&folder, "hello", 1);
    assert!(said.contains("hello: its guest ended before its program did"), "{said}");
    std::fs::write(folder.join("kernel"), "").unwrap();
    let said = run_to_its_end(&folder, "hello", 1);
    assert!(said.contains("hello: QEMU ended with 1"), "{said}");
    std::fs::remove_dir_all(memory).unwrap();
}

/// QEMU itself ends well when what is in it does not.
#[test]
fn a_script_tells_what_became_of_its_program() {
    let dir = tempfile::tempdir().expect("the test's own");
    let eats = r#"["/usr/bin/python3", "-c", "l = []\nwhile True: l.append(bytearray(b'x' * (1 << 20)))"]"#;
    let partition =
        |name: &str, program: &str| format!("[partition.{name}]\nprogram = {program}\nmemory_mib = 192\n");
    let set = partition("eats", eats) + &partition("waits", r#"["/bin/sleep", "1000"]"#);
    let Some((folder, _)) = scripts(dir.path(), &format!("accelerator = \"tcg\"\n{set}")) else { return };
    let said = run_to_its_end(&folder, "eats", 137);
    assert!(said.contains("eats: memory ran out (192 MiB)"), "{said}");
    // Whoever kills the script leaves no QEMU behind.
    let mut waits = Command::new(folder.join("waits.sh")).spawn().expect("a script that was written");
    let script = waits.id();
    let children =
        move || std::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).unwrap_or_default();
    let is_qemu = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu-system"))
    };
    let too_late = Instant::now() + HANGS;
    let qemu = loop {
        if let Some(pid) = children().split_whitespace().find(|pid| is_qemu(pid)) {
            break pid.to_owned();
        }
        assert!(Instant::now() < too_late, "QEMU has not started");
        std::thread::sleep(Duration::from_millis(20));
    };
    waits.kill().expect("it runs");
    waits.wait().expect("it was killed");
    while is_qemu(&qemu) {
        assert!(Instant::now() < too_late, "QEMU outlives its script");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What runs the CPUs is tried here, once, and not again by each script: QEMU takes a KVM that opens and hangs.
#[test]
fn a_script_says_one_engine_and_fails_with_its_qemu() {
    let dir = tempfile::tempdir().expect("the test's own");
    let set = "[partition.a]\nprogram = [\"/bin/true\"]\n[partition.b]\nprogram = [\"/bin/true\"]\n";
    let Some((folder, said)) = scripts(dir.path(), set) else { return };
    let script = std::fs::read_to_string(folder.join("a.sh")).expect(&said);
    assert_eq!(script.matches("-accel ").count(), 1, "{script}");
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("the test's own");
    put("b.sh", "#!/bin/sh\nexit 0\n");
    for (a, wanted) in [("#!/bin/sh\nexit 0\n", true), ("#!/bin/sh\nexit 3\n", false)] {
        put("a.sh", a);
        assert_eq!(run(&mut Command::new(folder.join("all-partitions"))).0, wanted);
    }
    // Whoever ends it ends what it has started.
    put(
        "a.sh",
        &format!(
            "#!/bin/sh\necho $$ >{0}/pid.new\nmv {0}/pid.new {0}/pid\nexec sleep 1000\n",
            folder.display()
        ),
    );
    let mut all = Command::new(folder.join("all-partitions")).spawn().expect("it starts");
    let pid = folder.join("pid");
    let too_late = Instant::now() + HANGS;
    while !pid.exists() {
        assert!(Instant::now() < too_late, "it has not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let started: i32 =
        std::fs::read_to_string(&pid).expect("it was written").trim().parse().expect("a number");
    let number = i32::try_from(all.id()).expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(number), nix::sys::signal::Signal::SIGTERM)
        .expect("it runs");
    assert_eq!(all.wait().expect("it ends").code(), Some(143));
    assert!(!Path::new(&format!("/proc/{started}")).exists());
}

#[test]
fn systemd_understands_the_units() {
    let dir = tempfile::tempdir().unwrap();
    if emitted(dir.path(), "systemd").is_none() {
        return;
    }
    let folder = dir.path().join("systemd");
    let units = ["works-hello.service", "works-later.service", "works.channels.service", "works.target"];
    // Whose memory it is writes it; to the others it is read-only, as all else is.
    let unit = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it was written");
    for (service, own, others) in [("works-hello", "frames", "back"), ("works-later", "back", "frames")] {
        let unit = unit(&format!("{service}.service"));
        let writes =
            |channel: &str| unit.contains(&format!("ReadWritePaths=\"/run/bulkhead-works/{channel}\""));
        assert!(writes(own) && !writes(others) && !unit.contains("RuntimeDirectory"), "{unit}");
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).args(units.map(|unit| folder.join(unit)));
    command.env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()));
    match command.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains("works"), "{said}");
        }
        Err(error) => return skip(Need::Systemd, format!("systemd-analyze: {error}")),
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--no-pager", "--offline=true", "--threshold=45"]);
    let output = command.arg(folder.join("works-later.service")).output().expect("it was there a moment ago");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_written_for_others_is_no_wider_open_than_it_must_be() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("qemu");
    std::fs::create_dir(&folder).unwrap();
    // Left by an earlier time, open to everybody.
    let initrd = folder.join("hello.initrd");
    std::fs::write(&initrd, "").unwrap();
    std::fs::set_permissions(&initrd, std::fs::Permissions::from_mode(0o666)).unwrap();
    let others = std::fs::File::open(&initrd).unwrap();
    if emitted(dir.path(), "qemu").is_none() {
        return;
    }
    let mode = |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("hello.initrd"), mode("hello.sh"), mode("kernel")), (0o600, 0o700, 0o644));
    assert_eq!(mode("hello.output"), 0o700);
    assert_eq!(others.metadata().unwrap().len(), 0, "who had the old file open sees nothing of the new one");
    for (manager, file, wanted) in
        [("libvirt", "works-hello.xml", 0o600), ("systemd", "works-hello.service", 0o644)]
    {
        if emitted(dir.path(), manager).is_some() {
            let found = std::fs::metadata(dir.path().join(manager).join(file)).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, wanted, "{file}");
        }
    }
}

#[test]
fn libvirt_gets_a_domain_for_each_and_its_own_checker_agrees() {
    let dir = tempfile::tempdir().unwrap();
    if emitted(dir.path(), "libvirt").is_none() {
        return;
    }
    let folder = dir.path().join("libvirt");
    for (file, schema) in [
        ("works-hello.xml", "domain"),
        ("works-wide.xml", "domain"),
        ("works-later.xml", "domain"),
        ("works-plant.network.xml", "network"),
    ] {
        let path = folder.join(file);
        assert!(path.is_file(), "{file}");
        match Command::new("virt-xml-validate").arg(&path).arg(schema).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{file}: {said}{}", String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => {
                skip(Need::Libvirt, format!("in part, {file}: virt-xml-validate: {error}"));
            }
        }
    }
    assert!(folder.join("kernel").is_file() && folder.join("hello.initrd").is_file());
}

#[test]
fn what_only_we_can_show_a_partition_is_refused() {
    let dir = tempfile::tempdir().expect("the test's own");
    let (file, data) = (dir.path().join("works.toml"), dir.path().join("data"));
    std::fs::write(&data, "").expect("the test's own");
    let set = format!("[partition.a]\nprogram = [\"/bin/true\"]\nrw = [\"{}\"]\n", data.display());
    std::fs::write(&file, set).expect("the test's own");
    for manager in ["qemu", "systemd", "libvirt"] {
        let out = dir.path().join(manager);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.arg("up").arg(&file).args(["--emit", manager, "--out"]).arg(&out);
        let (is_done, said) = run(&mut command);
        assert!(!is_done && said.contains("open the folder it lies in"), "{manager}: {said}");
        assert!(!out.exists());
    }
}

/// Names of what ran last in the guest but ought not to.
fn left(log: &str) -> Vec<&str> {
    let names = log.lines().filter_map(|line| line.strip_prefix("left: "));
    names.filter(|name| name.contains("qemu") || name.contains("bulkhead")).collect()
}

/// Between these two words.
#[track_caller]
fn between<'a>(log: &'a str, from: &str, to: &str) -> &'a str {
    let found = log.split_once(from).and_then(|(_, rest)| rest.split_once(to));
    found.unwrap_or_else(|| panic!("wanted {from:?} and {to:?} in\n{log}")).0
}

fn runs(listed: &str) -> bool {
    listed.lines().any(|line| line.trim_start().starts_with("db ") && line.contains("running"))
}

/// A real systemd in a guest, which has partitions of its own: the system's service is root's, the other one is a user's, whose
/// manager lingers.
#[test]
fn systemd_brings_a_set_up_at_boot_and_leaves_nothing_when_it_is_stopped() {
    let dir = tempfile::tempdir().expect("the test's own");
    let path = |name: &str| dir.path().join(name).to_str().expect("a path of text").to_owned();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("the test's own");
    let set = "accelerator = \"tcg\"\nboot_deadline_s = 600\n\
               [partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\nmemory_mib = 256\nrestart = \"always\"\n";
    std::fs::write(path("works.toml"), set).expect("the test's own");
    let program = env!("CARGO_BIN_EXE_bulkhead");
    let mut command = Command::new(program);
    command.args(["up", &path("works.toml"), "--emit", "boot", "--out", &path("boot")]);
    let (is_done, said) = run(&mut command);
    assert!(is_done && said.contains("systemctl") && said.contains("enable --now"), "{said}");
    let unit = path("boot/bulkhead-works.service");
    let checked = Command::new("systemd-analyze").args(["verify", "--man=no", &unit]).output();
    match checked {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return skip(Need::Systemd, format!("systemd-analyze: {error}")),
    }
    if std::env::var_os("BULKHEAD_SYSTEMD").is_none() {
        return skip(Need::Long, "in part: BULKHEAD_SYSTEMD=1 boots it, a guest within a guest");
    }
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "a service manager is root");
    }
    std::fs::create_dir(path("out")).expect("the test's own");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emit_fixture/at_boot.sh");
    let script = script.to_str().expect("a path of text");
    let cache = bulkhead::cli::cache_folder();
    let cache = cache.to_str().expect("a path of text");
    let mut command = Command::new("timeout");
    // It takes signals as it likes.
    command.args(["--kill-after=1", "1500", program, "exec", "--accel", "tcg", "--memory", "1800MiB"]);
    for shown in [program, cache, dir.path().to_str().expect("a path of text"), script] {
        command.args(["--ro", shown]);
    }
    command.args(["--env", &format!("BULKHEAD_CACHE={cache}"), "--rw", &path("out"), "--", "sh", script]);
    command.args([&path("out"), &unit, program, &path("works.toml"), cache]);
    let output = command.output().expect("the test's own");
    if output.status.code() == Some(3) {
        return skip(Need::Vm, String::from_utf8_lossy(&output.stderr));
    }
    let log = std::fs::read_to_string(dir.path().join("out/log")).unwrap_or_default();
    let log = format!("{log}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(runs(between(&log, "service: active", "stopped: inactive")), "{log}");
    assert!(between(&log, "stopped: inactive", "own: ").contains("no set is up"), "{log}");
    let own = between(&log, "own: active", "own manager: inactive");
    assert!(runs(own) && own.contains("who runs it: worker"), "{log}");
    assert!(
        between(&log, "own manager: inactive", "end\n").contains("left: ") && left(&log).is_empty(),
        "{log}"
    );
}

#[test]
fn what_others_could_change_is_not_brought_up_at_boot() {
    let dir = tempfile::tempdir().expect("the test's own");
    let file = dir.path().join("works.toml");
    std::fs::write(&file, "[partition.a]\nprogram = [\"/bin/true\"]\n").expect("the test's own");
    let emit = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        command.arg("up").arg(&file).args(["--emit", "boot", "--out"]).arg(dir.path().join("boot"));
        run(&mut command)
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("the test's own");
    let (is_done, said) = emit();
    assert!(
        !is_done && said.contains("writable by nobody else") && !dir.path().join("boot").exists(),
        "{said}"
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("the test's own");
    assert!(emit().0);
}
