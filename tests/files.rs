//! Files of the host in a partition: the table of docs/partitions.md, operation by operation, and what host and guest see of each
//! other. What is different from native must be in the list below, and what is in the list must be different.

use crate::exec_fixture;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use exec_fixture::normal_user::NormalUser;
use exec_fixture::{Here, assert_code, complaint, finish, finish_within, guests_start, text};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// What is otherwise in a partition than natively, mostly an error; the reasons are in docs/partitions.md.
const OTHERWISE: [(&str, &str); 20] = [
    ("anonymous_file", "ENOTSUP"),
    ("folder_is_locked", "ENOLCK"),
    ("folder_is_locked_for_a_part", "ENOLCK"),
    ("rename_leaves_a_whiteout", "EINVAL"),
    ("owner_of_a_link", "EPERM"),
    ("owner_of_a_pipe", "EPERM"),
    ("trusted_attribute", "ENOTSUP"),
    ("capabilities_of_a_file", "ENOTSUP"),
    ("access_control_list", "ENOTSUP"),
    ("character_device", "EPERM"),
    ("block_device", "EPERM"),
    ("flags_of_a_file", "ENOTTY"),
    ("extents_of_a_file", "ENOTSUP"),
    ("reading_that_may_not_wait", "ENOTSUP"),
    ("time_of_birth", "False"),
    ("direct_writing_at_an_odd_place", "3"),
    ("reading_without_a_time_of_access", "False"),
    ("growing_over_what_was_stored_behind_the_end", "67"),
    ("seeking_beyond_what_a_file_can_hold", "1152921504606846976"),
    ("being_told_of_what_is_made_with_its_number", "ENODEV"),
];

/// Long enough for all operations under the translator.
const PATIENCE: Duration = Duration::from_secs(300);

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Lines `name: result`.
fn results(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, result)| (name.to_owned(), result.to_owned())).collect()
}

/// Its wall maps only one of an ordinary user's groups.
#[test]
fn files_of_a_callers_other_groups_are_open_to_him_as_natively() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can become a normal user for a moment");
    }
    // daemon.
    let (id, his, another) = (1, 4242, 4243);
    let here = Here::new();
    let user = NormalUser::with_id(&here, id);
    let folder = here.path("shared");
    fs::create_dir(&folder).expect("the test's own files");
    for (name, group, mode) in [("old", his, 0o664), ("hidden", another, 0o660)] {
        fs::write(folder.join(name), "old\n").expect("the test's own files");
        std::os::unix::fs::chown(folder.join(name), Some(0), Some(group)).expect("root may");
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).expect("root may");
    }
    std::os::unix::fs::chown(&folder, Some(0), Some(his)).expect("root may");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2775)).expect("root may");
    let script =
        "cd \"$0\" && echo more >> old && cat old && echo made > new && cat new; cat hidden || echo refused";
    let words = ["--rw", plain(&folder), "--", "sh", "-c", script, plain(&folder)];
    let output = finish(user.exec(&[his], &words).current_dir("/").spawn().expect("setpriv runs"));
    assert_eq!(text(&output), "old\nmore\nmade\nrefused\n", "{}", complaint(&output));
    let made = fs::metadata(folder.join("new")).expect("it was made");
    assert_eq!((made.uid(), made.gid()), (id, his), "as the host's folder has it");
}

#[test]
fn what_is_read_beside_a_fork_arrives() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (source, program) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/forks.c"), here.path("forks"));
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-pthread", "-static", "-o"]).arg(&program).arg(&source);
    assert!(compile.status().expect("cc runs").success());
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let words = ["--rw", plain(&open), "--ro", plain(&program), "--cpus", "2", "--", plain(&program)];
    let file = open.join("file");
    let words: Vec<&str> = words.into_iter().chain([plain(&file), "4000"]).collect();
    let output = finish_within(here.command(&words).spawn().expect("it starts"), PATIENCE);
    assert_eq!(text(&output), "4000 reads, 0 wrong\n", "{}", complaint(&output));
}

#[test]
fn operations_give_what_they_give_natively_or_are_refused_as_said() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "half of the operations are about other users");
    }
    let here = Here::new();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/operations.py");
    for name in ["native", "open"] {
        fs::create_dir(here.path(name)).expect("the test's own files");
        fs::set_permissions(here.path(name), fs::Permissions::from_mode(0o755))
            .expect("the test's own files");
    }
    let native =
        Command::new("python3").arg(&program).arg(here.path("native")).output().expect("python3 runs");
    let native = results(&String::from_utf8_lossy(&native.stdout));
    assert!(native.len() >= 80, "{native:?}");
    let open = here.path("open");
    let words =
        ["--rw", plain(&open), "--ro", plain(&program), "--", "python3", plain(&program), plain(&open)];
    let output = finish_within(here.command(&words).spawn().expect("it starts"), PATIENCE);
    assert_code(&output, 0);
    let within = results(&text(&output));
    let otherwise: BTreeMap<&str, &str> = OTHERWISE.into_iter().collect();
    let mut wrong = Vec::new();
    for (name, natively) in &native {
        let here = within.get(name).map_or("nothing", String::as_str);
        let wanted = otherwise.get(name.as_str()).copied().unwrap_or(natively);
        if here != wanted {
            wrong.push(format!("{name}: natively {natively}, here {here}, wanted {wanted}"));
        }
    }
    let unknown = otherwise.keys().filter(|name| !native.contains_key(**name));
    wrong.extend(unknown.map(|name| format!("{name}: no such operation")));
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), complaint(&output));
    assert_plain(&open);
    here.assert_nothing_left();
}

/// Nothing that gives rights has come out.
fn assert_plain(folder: &Path) {
    let own = geteuid().as_raw();
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        let meta = entry.metadata().expect("it is there");
        let kind = meta.file_type();
        // The sticky bit of a folder keeps others from removing what is in it.
        let giving = if kind.is_dir() { 0o6000 } else { 0o7000 };
        assert_eq!((meta.uid(), meta.mode() & giving), (own, 0), "{}", entry.path().display());
        assert!(!std::os::unix::fs::FileTypeExt::is_char_device(&kind), "{}", entry.path().display());
        if kind.is_dir() {
            assert_plain(&entry.path());
        }
    }
}

/// A shell in a partition that does a line at a time, in a folder that is open to it.
pub struct Shell {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Shell {
    pub fn start(here: &Here, open: &Path) -> Self {
        let words = ["--rw", plain(open), "--workdir", plain(open), "--", "sh"];
        let mut child = here.command(&words).stdin(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    /// Takes this as its working folder.
    pub fn go(&mut self, folder: &Path) {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "cd {}", plain(folder)).expect("it reads");
    }

    /// What a line of script says, on one line.
    pub fn say(&mut self, script: &str) -> String {
        let pipe = self.child.stdin.as_mut().expect("a pipe");
        // What it begins in the background has other streams than these.
        writeln!(pipe, "echo $( {{ {script}\n}} 2>&1 )").expect("it reads");
        pipe.flush().expect("it reads");
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    pub fn end(mut self) {
        drop(self.child.stdin.take());
        assert_code(&finish(self.child), 0);
    }
}

#[test]
fn what_one_side_writes_the_other_sees_when_it_opens() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let file = open.join("file");
    fs::write(&file, "first").expect("the test's own files");
    let mut shell = Shell::start(&here, &open);
    assert_eq!(shell.say("cat file"), "first");
    // In place, of the same length and of another one; replaced; removed; made again.
    for content in ["other", "longer than before", "", "x"] {
        fs::write(&file, content).expect("the test's own files");
        assert_eq!(shell.say("cat file"), content);
        fs::write(open.join("new"), format!("{content}2")).expect("the test's own files");
        fs::rename(open.join("new"), &file).expect("the test's own files");
        assert_eq!(shell.say("cat file"), format!("{content}2"));
    }
    fs::remove_file(&file).expect("the test's own files");
    assert!(shell.say("cat file").contains("No such file"));
    fs::write(&file, "again\n").expect("the test's own files");
    assert_eq!(shell.say("cat file; ls"), "again file");
    // A folder in another's place.
    fs::create_dir_all(open.join("d")).expect("the test's own files");
    fs::write(open.join("d/in"), "one\n").expect("the test's own files");
    assert_eq!(shell.say("cat d/in"), "one");
    fs::rename(open.join("d"), open.join("e")).expect("the test's own files");
    fs::create_dir(open.join("d")).expect("the test's own files");
    fs::write(open.join("d/in"), "two\n").expect("the test's own files");
    assert_eq!(shell.say("cat d/in e/in"), "two one");
    // And back: closed there, it is here.
    for content in ["guest", "more of it", ""] {
        assert_eq!(shell.say(&format!("printf '{content}' > file")), "");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), content);
    }
    let map = "python3 -c 'import mmap,os;f=os.open(\"file\",2);os.ftruncate(f,9);m=mmap.mmap(f,9);m[0:3]=b\"map\";m.flush()'";
    assert_eq!(shell.say(map), "");
    assert!(fs::read(&file).expect("it is there").starts_with(b"map\0"));
    // Both append: nothing is lost.
    fs::write(&file, "").expect("the test's own files");
    for round in 0..5 {
        let mut host = fs::OpenOptions::new().append(true).open(&file).expect("the test's own files");
        writeln!(host, "host {round}").expect("the test's own files");
        assert_eq!(shell.say(&format!("echo guest {round} >> file")), "");
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there").lines().count(), 10);
    shell.end();
    here.assert_nothing_left();
}

#[test]
fn locks_of_host_and_guest_are_the_same() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    fs::write(open.join("file"), "x").expect("the test's own files");
    let mut shell = Shell::start(&here, &open);
    let host =
        || fs::File::options().read(true).write(true).open(open.join("file")).expect("the test's own files");
    let held = Flock::lock(host(), FlockArg::LockExclusiveNonblock).expect("nobody has it");
    assert_eq!(shell.say("flock -n file echo got || echo refused"), "refused");
    drop(held);
    assert_eq!(shell.say("flock -n file echo got || echo refused"), "got");
    assert_eq!(shell.say("exec 9<>file; flock -n 9 && echo got"), "got");
    assert_eq!(shell.say("true"), "");
    // Held by a process that stays; waiting ends with it.
    assert_eq!(shell.say("flock file sh -c 'echo held > mark; sleep 3' >/dev/null 2>&1 &"), "");
    while !open.join("mark").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Flock::lock(host(), FlockArg::LockExclusiveNonblock).is_err(), "the guest has it");
    drop(Flock::lock(host(), FlockArg::LockExclusive).expect("it comes"));
    // Record locks, as databases take them.
    let script = "import fcntl,os,sys; f=os.open(\"file\",2); fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB); print(\"got\")";
    let mut native = Command::new("python3")
        .args(["-c", "import fcntl,os,sys; f=os.open(sys.argv[1],2); fcntl.lockf(f,fcntl.LOCK_EX); print('got',flush=True); input()"])
        .arg(open.join("file"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut line = String::new();
    BufReader::new(native.stdout.take().expect("a pipe")).read_line(&mut line).expect("it answers");
    assert!(shell.say(&format!("python3 -c '{script}'")).contains("Error"));
    drop(native.stdin.take());
    native.wait().expect("it ends");
    assert_eq!(shell.say(&format!("python3 -c '{script}'")), "got");
    shell.end();
    here.assert_nothing_left();
}

#[test]
fn a_database_written_from_both_sides_stays_whole() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let add = |who: &str| {
        format!(
            "import sqlite3\nb = sqlite3.connect('db', timeout=60)\nb.execute('create table if not exists t (who, n)')\n\
             for n in range(30):\n  with b:\n    b.execute('insert into t values (?, ?)', ('{who}', n))\n"
        )
    };
    fs::write(open.join("guest.py"), add("guest")).expect("the test's own files");
    let words = ["--rw", plain(&open), "--workdir", plain(&open), "--", "python3", "guest.py"];
    let guest = here.command(&words).spawn().expect("it starts");
    while !open.join("db").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let native = Command::new("python3").arg("-c").arg(add("host")).current_dir(&open).status();
    assert!(native.expect("python3 runs").success());
    assert_code(&finish(guest), 0);
    let ask = "import sqlite3; b = sqlite3.connect('db'); print(b.execute('pragma integrity_check').fetchone()[0], \
               b.execute('select count(*) from t').fetchone()[0])";
    let asked = Command::new("python3").args(["-c", ask]).current_dir(&open).output().expect("python3 runs");
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "ok 60\n", "nothing that was committed is lost");
    here.assert_nothing_left();
}

/// A database with a write-ahead log, open in this folder until its standard input ends.
const OPEN_LOG: &str = "import sqlite3,sys\nb = sqlite3.connect('db', timeout=1)\n\
    b.execute('pragma journal_mode=wal')\nb.execute('create table if not exists t (n)')\n\
    with b: b.execute('insert into t values (1)')\nprint('open', flush=True)\nsys.stdin.read()\n\
    with b: b.execute('insert into t values (2)')\nb.close()\n";
/// What somebody else gets of it.
const ADD_TO_LOG: &str = "import sqlite3\n\
    try:\n  b = sqlite3.connect('db', timeout=1)\n  with b: b.execute('insert into t values (3)')\n\
    \x20 print(b.execute('pragma integrity_check').fetchone()[0], b.execute('select count(*) from t').fetchone()[0])\n\
    except sqlite3.OperationalError as error: print(error)\n";

#[test]
fn a_database_with_a_log_is_one_sides_at_a_time() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    fs::write(open.join("open.py"), OPEN_LOG).expect("the test's own files");
    fs::write(open.join("add.py"), ADD_TO_LOG).expect("the test's own files");
    let host = |program: &str| {
        let mut command = Command::new("python3");
        command.arg(program).current_dir(&open).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let add = || {
        let output = host("add.py").stdin(Stdio::null()).output().expect("python3 runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let words = ["--rw", plain(&open), "--workdir", plain(&open), "--", "python3", "open.py"];
    let mut guest = here.command(&words).stdin(Stdio::piped()).spawn().expect("it starts");
    exec_fixture::wait_for(&mut guest, "open\n");
    // Which of both SQLite says depends on how often it had tried.
    let is_refused = |said: &str| ["database is locked", "locking protocol"].contains(&said.trim());
    let said = add();
    assert!(is_refused(&said), "{said}");
    drop(guest.stdin.take());
    assert_code(&finish(guest), 0);
    assert_eq!(add(), "ok 3\n", "the guest has closed it");
    let mut shell = Shell::start(&here, &open);
    let mut native = host("open.py").spawn().expect("python3 runs");
    let mut line = String::new();
    BufReader::new(native.stdout.take().expect("a pipe")).read_line(&mut line).expect("it answers");
    assert_eq!(line, "open\n");
    let said = shell.say("python3 add.py");
    assert!(is_refused(&said), "{said}");
    drop(native.stdin.take());
    assert!(native.wait().expect("it ends").success());
    assert_eq!(shell.say("python3 add.py"), "ok 6");
    shell.end();
    here.assert_nothing_left();
}

#[test]
fn what_serves_the_files_sees_them_alone_and_ends_with_its_partition() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let mut child = here
        .command(&["--rw", plain(&open), "--", "sh", "-c", "echo ready; sleep 1000"])
        .spawn()
        .expect("it starts");
    exec_fixture::wait_for(&mut child, "ready\n");
    let server = process(&here, "files");
    let status = fs::read_to_string(format!("/proc/{server}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(u64::from_str_radix(&field(set), 16), Ok(0), "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
    if geteuid().is_root() {
        assert!(field("Uid:").parse::<u32>().is_ok_and(|user| user >= 0x7000_0000), "{status}");
    }
    let limits = fs::read_to_string(format!("/proc/{server}/limits")).expect("it runs");
    let data = limits.lines().find_map(|line| line.strip_prefix("Max data size")).unwrap_or_default();
    let data: Vec<&str> = data.split_whitespace().collect();
    assert_eq!(data.get(..2), Some(&["1073741824", "1073741824"][..]), "{limits}");
    let root = format!("/proc/{server}/root");
    let mut there: Vec<String> = fs::read_dir(&root)
        .expect("it may be looked at")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    there.sort();
    assert_eq!(there, ["bulkhead", "dev", "proc", "trees"]);
    // QEMU has none of them.
    let qemu = process(&here, "-nodefaults");
    assert!(!Path::new(&format!("/proc/{qemu}/root/trees")).exists());
    child.kill().expect("it runs");
    finish(child);
    here.assert_nothing_left();
}

/// A guest whose files do not answer waits for ever, and whoever waits for it.
#[test]
fn when_what_serves_the_files_has_ended_so_has_the_partition() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let words = ["--", "sh", "-c", "echo ready; sleep 1000"];
    let mut child = here.command(&words).spawn().expect("it starts");
    exec_fixture::wait_for(&mut child, "ready\n");
    let server = process(&here, "files");
    let killed = Command::new("kill").args(["-KILL", &server.to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = finish_within(child, PATIENCE);
    assert_code(&output, 125);
    assert!(
        complaint(&output).contains("the process that serves its files had ended"),
        "{}",
        complaint(&output)
    );
    here.assert_nothing_left();
}

/// What it keeps open for the guest alone goes when the caller may not have as many.
#[test]
fn a_small_limit_of_open_files_hides_none() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let many = here.path("many");
    for number in 0..1500 {
        let folder = many.join(format!("{number}"));
        fs::create_dir_all(&folder).expect("the test's own files");
        fs::write(folder.join("file"), "x").expect("the test's own files");
    }
    let count = format!("find {0} -type f -size -2k | wc -l; cat {0}/*/file | wc -c", plain(&many));
    let exec = here.command(&["--ro", plain(&many), "--", "sh", "-c", &count]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1100 && exec \"$@\"", "sh"]).arg(exec.get_program()).args(exec.get_args());
    limited.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish_within(limited.spawn().expect("it starts"), PATIENCE);
    assert_code(&output, 0);
    assert_eq!(text(&output), "1500\n1500\n", "{}", complaint(&output));
    here.assert_nothing_left();
}

/// The process started here that has this word on its command line.
fn process(here: &Here, word: &str) -> u32 {
    let mark = format!("TMPDIR={}", here.temporary().display());
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let has =
            |bytes: &[u8], wanted: &str| bytes.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes());
        if has(&read("environ"), &mark)
            && has(&read("cmdline"), word)
            && let Ok(number) = entry.file_name().to_string_lossy().parse()
        {
            return number;
        }
    }
    panic!("no process {word} runs")
}
