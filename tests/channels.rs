//! Channels of a set: two real partitions talk through memory that only one of them can write, see each other's death and
//! return; what `up`, `down` and others make of the memory's files, with a stand-in for QEMU.

use crate::set_fixture;

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use channel::{Endpoint, Error, Gone, Layout, Memory, PeerSection, Section};
use set_fixture::{Bench, PATIENCE, kill};

/// In a program's environment: which worker it is.
const WORKER: &str = "WORKER";
/// Smaller than the longest message, which is streamed then.
const RING: u64 = 64 << 10;
const LONGEST: usize = 70_000;
const MESSAGES: usize = 100;

/// Not a test: the program of a partition.
#[test]
#[ignore = "started by the tests, in a partition"]
fn worker() {
    match std::env::var(WORKER).as_deref() {
        Ok("talker") => talk(1, 2, &["talk", "echo"].map(in_guest)),
        Ok("echo") => echo(2, 1, &["echo", "talk"].map(in_guest)),
        other => panic!("no worker {other:?}"),
    }
}

fn in_guest(channel: &str) -> PathBuf {
    Path::new("/dev/bulkhead").join(channel)
}

/// Our own section, and the peer's.
fn sections(me: u32, peer: u32, [own, its]: &[PathBuf; 2]) -> (Section, PeerSection) {
    let memory = Memory::writable(own).expect("ours to write");
    let section = Section::create_in(memory, &Layout::new(me).ring(peer, RING)).expect("a section");
    (section, PeerSection::new(Memory::readable(its).expect("the peer's")).expect("a section"))
}

fn talk(me: u32, peer: u32, paths: &[PathBuf; 2]) {
    let (section, its) = sections(me, peer, paths);
    let mut end = Endpoint::connect(&section, peer, &its, PATIENCE).expect("connected");
    end.set_gone_after(PATIENCE);
    let mut buffer = vec![0; LONGEST];
    let mut call = |number: usize, length: usize| {
        let sent: Vec<u8> = (0..length).map(|at| (at * 7 + number).to_le_bytes()[0]).collect();
        end.send(&sent, PATIENCE).expect("sent");
        assert_eq!(end.receive(&mut buffer, PATIENCE).expect("the echo"), length);
        assert!(buffer[..length].iter().rev().eq(&sent), "message {number} came back as another one");
    };
    (0..MESSAGES).for_each(|number| call(number, number * LONGEST / MESSAGES));
    println!("\n{MESSAGES} messages came back");
    try_to_write(&its, &paths[1], &Layout::new(peer).ring(me, RING));
    (0..MESSAGES).for_each(|number| call(number, 64));
    println!("\nand {MESSAGES} more");
    loop {
        call(0, 8);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Does what the owner of the peer's section would do.
fn try_to_write(its: &PeerSection, path: &Path, layout: &Layout) {
    let refused = Memory::writable(path).expect_err("the file is to be read only");
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    // The guest's root can change that, the device cannot be changed.
    let real = fs::canonicalize(path).expect("a resource");
    for name in ["resource2", "resource2_wc"] {
        let file = real.with_file_name(name);
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("root may");
        let before = its.state().expect("a state");
        let memory = Memory::writable(&file).expect("mapped");
        assert!(memory.is_writable());
        drop(Section::create_in(memory, layout));
        assert_eq!(its.state().expect("a state"), before, "{name}");
    }
    println!("\nits writing had no effect");
}

fn echo(me: u32, peer: u32, paths: &[PathBuf; 2]) {
    let (section, its) = sections(me, peer, paths);
    let mut end = Endpoint::connect(&section, peer, &its, PATIENCE).expect("connected");
    let mut buffer = vec![0; LONGEST];
    let mut is_silent = false;
    loop {
        match end.receive(&mut buffer, PATIENCE) {
            Ok(length) => {
                is_silent = false;
                buffer[..length].reverse();
                // Only a peer that is gone for good ends this.
                end.set_gone_after(PATIENCE);
                end.send(&buffer[..length], PATIENCE).expect("sent back");
                end.set_gone_after(channel::GONE_AFTER);
            }
            Err(error @ Error::PeerGone { how: Gone::Silent(_), .. }) => {
                if !std::mem::replace(&mut is_silent, true) {
                    println!("\n{error}");
                }
            }
            Err(error @ Error::PeerRestarted { .. }) => {
                println!("\n{error}");
                end.reconnect(PATIENCE).expect("connected again");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two partitions with a channel each; `more` for both, `program` in both.
fn two(program: &str, more: &str) -> String {
    let partition = |name: &str| {
        format!("[partition.{name}]\nprogram = {program}\nenv = {{ {WORKER} = \"{name}\" }}\n{more}")
    };
    format!(
        "{}{}[channel.talk]\nwriter = \"talker\"\nreaders = [\"echo\"]\nsize_mib = 1\n\
         [channel.echo]\nwriter = \"echo\"\nreaders = [\"talker\"]\nsize_mib = 2\n",
        partition("talker"),
        partition("echo")
    )
}

fn sleepers() -> String {
    two("[\"/bin/sleep\", \"1000\"]", "")
}

fn memory(bench: &Bench, channel: &str) -> PathBuf {
    bench.state().join("plant/c").join(channel)
}

/// The longest file that a process may write, in bytes, as its kernel says.
fn longest_file(id: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or_default().to_owned()
}

#[test]
fn two_partitions_talk_and_see_each_others_death() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let myself = std::env::current_exe().expect("this test");
    let program = format!("[{myself:?}, \"--exact\", \"channels::worker\", \"--ignored\", \"--nocapture\"]");
    let more = "memory_mib = 192\nrestart = \"always\"\nuser = \"root\"\n";
    let file = bench.file("plant.toml", &two(&program, more));
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let said = |name: &str, text: &str, times: usize| {
        let folder = bench.wait_for(name, Phase::Running).folder;
        let until = Instant::now() + PATIENCE;
        loop {
            let read = |log: &str| fs::read_to_string(folder.join(log)).unwrap_or_default();
            let out = read("stdout.log");
            if out.matches(text).count() >= times {
                return;
            }
            assert!(Instant::now() < until, "no {text}: {out}{}", read("stderr.log"));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    said("talker", "100 messages came back", 1);
    said("talker", "its writing had no effect", 1);
    said("talker", "and 100 more", 1);

    // The host sees the same memory, and nothing but the writer's words in it.
    let set = bench.ps().expect("it is up");
    let channel = |name: &str| set.channels.iter().find(|channel| channel.name == name).expect("a channel");
    assert_eq!((channel("talk").state.as_str(), channel("echo").state.as_str()), ("ready", "ready"));
    let shown = bench.call(&["ps"]).out;
    assert!(shown.contains("channel talk: talker → echo, 1 MiB, ready"), "{shown}");

    let before = fs::metadata(memory(&bench, "talk")).expect("a file").ino();
    let talker = bench.wait_for("talker", Phase::Running);
    // Its own memory is a file too, which the server of its files sees: 192 MiB.
    let longest = longest_file(talker.pid.expect("a process"));
    assert_eq!(longest, "201326592", "no longer than what it was given");
    kill(talker.pid.expect("a process"));
    said("echo", "peer 1 gave no heartbeat", 1);
    said("echo", "peer 1 began anew", 1);
    said("talker", "and 100 more", 2);
    let again = bench.wait_for("talker", Phase::Running);
    assert!(again.restarts == 1 && again.pid != talker.pid, "{again:?}");
    assert_eq!(fs::metadata(memory(&bench, "talk")).expect("a file").ino(), before, "its memory stayed");
    let generation = |set: &bulkhead::model::partition::set::SetStatus| {
        set.channels.iter().find(|channel| channel.name == "talk").expect("a channel").generation
    };
    assert!(generation(&bench.ps().expect("it is up")) > generation(&set));

    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn what_a_channel_holds_is_written_to_a_file_as_any_memory() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let folder = bench.path("opened");
    fs::create_dir(&folder).expect("the test's own files");
    // The memory of a device, as it is: written past the guest's cache (direct I/O) it would be refused (EFAULT).
    let script = "import mmap, os\n\
        channel = mmap.mmap(os.open('/dev/bulkhead/talk', os.O_RDWR), 4096)\n\
        channel[:7] = b'content'\n\
        file = os.open('dump', os.O_CREAT | os.O_WRONLY | os.O_TRUNC)\n\
        os.write(file, memoryview(channel)[:4096])\n\
        os.close(file)\n\
        again = os.open('dump', os.O_RDONLY)\n\
        os.readv(again, [memoryview(channel)[8:16]])\n\
        print('read', channel[8:15], flush=True)\n\
        import time; time.sleep(1000)\n";
    let text = format!(
        "[partition.talker]\nprogram = [\"/usr/bin/python3\", \"-c\", {script:?}]\nrw = [{folder:?}]\nworkdir = {folder:?}\n\
         user = \"root\"\n[partition.echo]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
         [channel.talk]\nwriter = \"talker\"\nreaders = [\"echo\"]\nsize_mib = 1\n"
    );
    let told = bench.up(&bench.file("plant.toml", &text));
    assert_eq!(told.code, Some(0), "{told:?}");
    let logs = bench.wait_for("talker", Phase::Running).folder;
    let read = |log: &str| fs::read_to_string(logs.join(log)).unwrap_or_default();
    let until = Instant::now() + PATIENCE;
    while !read("stdout.log").contains("read b'content'") {
        assert!(Instant::now() < until, "{}{}", read("stdout.log"), read("stderr.log"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        fs::read(folder.join("dump")).is_ok_and(|dump| dump.len() == 4096 && dump.starts_with(b"content"))
    );
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn a_qemu_that_would_let_a_reader_write_is_refused() {
    if !set_fixture::guests_are_there() {
        return;
    }
    for (instead, wanted) in [
        ("", " for guest RAM: Read-only file system"),
        ("no-such-word=on,", "channels need a QEMU of version 6.0 or later"),
    ] {
        let bench = Bench::real().through(&format!(
            "#!/bin/sh\nfor word; do\nshift\ncase \"$word\" in memory-backend-file,*)\n\
             word=$(printf %s \"$word\" | sed s/readonly=on,/{instead}/);; esac\nset -- \"$@\" \"$word\"\ndone\n\
             exec qemu-system-x86_64 \"$@\"\n"
        ));
        let told = bench.up(&bench.file("plant.toml", &sleepers()));
        assert_eq!(told.code, Some(4), "{told:?}");
        assert!(told.err.contains(wanted), "{}", told.err);
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

#[test]
fn memory_stays_while_it_fits_and_goes_with_the_set() {
    let bench = Bench::pretending();
    let file = bench.file("plant.toml", &sleepers());
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let inode = |channel: &str| fs::metadata(memory(&bench, channel)).expect("a file").ino();
    let found = fs::metadata(memory(&bench, "echo")).expect("a file");
    assert_eq!((found.len(), found.mode() & 0o777), (2 << 20, 0o600));
    let real = fs::canonicalize(memory(&bench, "echo")).expect("a file");
    assert_eq!(fs::metadata(real.parent().expect("a folder")).expect("a folder").mode() & 0o777, 0o700);
    assert!(bench.ps().expect("it is up").channels.iter().all(|channel| channel.state == "absent"));
    let before = (inode("talk"), inode("echo"));
    let told = bench.up(&file);
    assert!(told.err.contains("nothing is missing"), "{}", told.err);
    assert_eq!((inode("talk"), inode("echo")), before);

    // Another size is another channel, for both.
    bench.file("plant.toml", &sleepers().replace("size_mib = 2", "size_mib = 4"));
    let told = bench.up(&file);
    for name in ["talker", "echo"] {
        assert!(told.err.contains(&format!("{name}: ended, because it is another one")), "{}", told.err);
    }
    assert_eq!(
        (inode("talk"), fs::metadata(memory(&bench, "echo")).expect("a file").len()),
        (before.0, 4 << 20)
    );

    // Without channels there is no memory.
    let text = sleepers();
    bench.file("plant.toml", text.split("[channel").next().expect("partitions"));
    assert_eq!(bench.up(&file).code, Some(0));
    assert!(fs::symlink_metadata(bench.state().join("plant/c")).is_err() && !real.exists());
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn cut_and_missing_memory_is_told_before_qemu_starts_and_made_anew_by_up() {
    let bench = Bench::pretending();
    let text = sleepers().replace("[partition.echo]", "restart = \"always\"\n[partition.echo]");
    let file = bench.file("plant.toml", &text);
    assert_eq!(bench.up(&file).code, Some(0));
    for (what, wanted) in [("cut", "has 4096 bytes instead of 1048576"), ("removed", "cannot be looked at")] {
        let path = memory(&bench, "talk");
        if what == "cut" {
            fs::File::options().write(true).open(&path).expect("open").set_len(4096).expect("cut");
        } else {
            fs::remove_file(&path).expect("removed");
        }
        let talker = bench.wait_for("talker", Phase::Running);
        kill(talker.pid.expect("a process"));
        let until = Instant::now() + PATIENCE;
        let reason = loop {
            let last = bench.ps().expect("it is up").partitions[1].last.clone();
            match last.map(|last| last.reason) {
                Some(reason) if reason.contains("the memory of channel talk") => break reason,
                other => assert!(Instant::now() < until, "{what}: {other:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(reason.contains(wanted) && reason.contains("run bulkhead up again"), "{reason}");
        let told = bench.up(&file);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.err.contains("echo: ended, because the memory of its channels is not"), "{}", told.err);
        assert_eq!(fs::metadata(&path).expect("a file").len(), 1 << 20);
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_failed_up_leaves_no_memory() {
    let bench = Bench::pretending();
    let text = sleepers().replace("env = { WORKER = \"echo\" }", "env = { PRETEND_PANIC = \"1\" }");
    let file = bench.file("plant.toml", &text);
    assert_eq!(bench.up(&file).code, Some(4));
    assert_eq!(bench.left(), Vec::<String>::new());
    // Memory that is not there is not promised.
    let huge = sleepers().replace("size_mib = 1\n", "size_mib = 1024\n");
    let many = (0..60).fold(String::new(), |text, number| {
        format!("{text}[channel.c{number}]\nwriter = \"echo\"\nreaders = [\"talker\"]\nsize_mib = 1024\n")
    });
    let told = bench.up(&bench.file("plant.toml", &format!("{huge}{many}")));
    assert!(told.code == Some(2) && told.err.contains("memory is never promised twice"), "{told:?}");
    assert_eq!(bench.left(), Vec::<String>::new());
}
