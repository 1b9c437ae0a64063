//! `bulkhead exec` from a saved machine: the first one of a shape is saved, later ones are made from it, have nothing random and no time
//! in common, and what is stale or broken is noticed and not used.

use crate::exec_fixture;

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bulkhead::cli::cache_folder;
use bulkhead::platforms::vm::saved::{self, Store};
use exec_fixture::{Here, assert_code, complaint, guests_start};

/// A cache of a test's own, with the kernel of the usual one.
struct Cache {
    here: Here,
    folder: tempfile::TempDir,
}

/// One start: what came of it, and what its report says.
struct Start {
    output: Output,
    report: serde_json::Value,
}

impl Start {
    fn is_restored(&self) -> bool {
        self.report["restored"].as_bool().expect("the report says it")
    }

    fn why_not(&self) -> String {
        self.report["not_restored"].to_string()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}

impl Cache {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("cache-").tempdir().expect("the test's own files");
        for part in ["kernel", "vmlinux"] {
            copy(&cache_folder().join(part), &folder.path().join(part));
        }
        Self { here: Here::new(), folder }
    }

    fn start(&self, words: &[&str]) -> Start {
        let path = self.here.path("report.json");
        let report = format!("--report={}", path.display());
        let mut command = self.here.command(&[&[report.as_str()], words].concat());
        command.env("BULKHEAD_CACHE", self.folder.path());
        let output = exec_fixture::finish(command.spawn().expect("it starts"));
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{error}: {}", complaint(&output)));
        Start { output, report: serde_json::from_slice(&text).expect("JSON") }
    }

    /// Ends with 0 and says this, whatever way it came.
    #[track_caller]
    fn says(&self, words: &[&str], said: &str) -> Start {
        let start = self.start(words);
        assert_code(&start.output, 0);
        assert_eq!(start.text(), said);
        assert_eq!(complaint(&start.output), "", "nothing is said about the way it took");
        self.here.assert_nothing_left();
        start
    }

    /// The saved machines.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("saved")).into_iter().flatten();
        entries.map(|entry| entry.expect("readable").path()).collect()
    }

    /// The only one.
    fn kept_one(&self) -> PathBuf {
        let kept = self.kept();
        assert_eq!(kept.len(), 1, "{kept:?}");
        kept.into_iter().next().expect("one")
    }

    /// What was done to the saved machine is noticed: the start is right without it, says why, and the next one has a good one.
    #[track_caller]
    fn assert_noticed(&self, why: &str) {
        let start = self.says(&["--", "echo", "right"], "right\n");
        assert!(!start.is_restored() && start.why_not().contains(why), "{why}: {}", start.why_not());
        let next = self.says(&["--", "echo", "again"], "again\n");
        assert!(next.is_restored(), "{why}: {}", next.why_not());
    }

    fn saved(&self) {
        let start = self.says(&["--", "echo", "first"], "first\n");
        assert!(
            !start.is_restored() && start.why_not().contains("none of this shape"),
            "{}",
            start.why_not()
        );
        self.kept_one();
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("the test's own files");
        for entry in fs::read_dir(from).expect("readable") {
            let entry = entry.expect("readable");
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else if from.exists() {
        fs::copy(from, to).expect("the test's own files");
    }
}

#[test]
fn the_first_of_a_shape_is_saved_and_later_ones_are_made_from_it() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("there"));
    let before = inode(&cache.kept_one());
    assert_eq!(cache.kept_one().metadata().expect("there").permissions().mode() & 0o777, 0o600);
    for number in 0..3 {
        let said = format!("{number}\n");
        assert!(cache.says(&["--", "sh", "-c", &format!("echo {number}")], &said).is_restored());
    }
    assert_eq!(inode(&cache.kept_one()), before, "nothing was saved anew");
    let start = cache.start(&["--", "sh", "-c", "exit 42"]);
    assert_code(&start.output, 42);
    assert!(start.is_restored());
    // Another shape, and another one that is not even saved.
    assert!(!cache.says(&["--cpus", "2", "--", "nproc"], "2\n").is_restored());
    assert!(cache.says(&["--cpus", "2", "--", "nproc"], "2\n").is_restored());
    let cold = cache.says(&["--cold", "--memory", "384MiB", "--", "nproc"], "1\n");
    assert!(!cold.is_restored() && cold.why_not().contains("not asked for"), "{}", cold.why_not());
    assert_eq!(cache.kept().len(), 2);
}

/// What a guest finds that must not be another one's: random numbers of the kernel, of the processor's stack of a new program, places of
/// its parts.
const RANDOM: &str = r#"cat /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid
od -An -v -tx1 -w32 -N32 /dev/urandom
od -An -v -tx1 -w32 -N32 /dev/random
grep -F '[stack]' /proc/self/maps | cut -d- -f1
perl -e 'open F,"/proc/self/auxv"; read F,$b,4096; my %a=unpack("Q*",$b); print unpack("H*", unpack("P16", pack("Q",$a{25}))), "\n"'
perl -e 'my $b = "\0" x 32; syscall(318, $b, 32, 0) == 32 or die; print unpack("H*", $b), "\n"'
mktemp -u"#;

#[test]
fn guests_of_one_saved_machine_have_no_random_number_in_common() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let start = cache.start(&["--cpus", "1", "--", "sh", "-c", RANDOM]);
        assert_code(&start.output, 0);
        assert!(start.is_restored(), "{}", start.why_not());
        let text = start.text();
        assert_eq!(text.lines().count(), 8, "{text}");
        for line in text.lines() {
            assert!(line.len() > 8 && seen.insert(line.to_owned()), "seen before: {line}");
        }
    }
}

#[test]
fn a_guest_has_the_time_of_its_start_not_that_of_its_saving() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    std::thread::sleep(Duration::from_secs(6));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let before = now();
    let start = cache.start(&["--", "date", "+%s%3N"]);
    assert!(start.is_restored(), "{}", start.why_not());
    let said: u128 = start.text().trim().parse().expect("a number");
    assert!(before <= said && said <= now(), "between {before} and {}: {said}", now());
}

#[test]
fn who_it_is_and_what_it_is_given_are_those_of_its_start() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let folder = cache.here.path("opened");
    fs::create_dir(&folder).expect("the test's own files");
    let opened = folder.to_str().expect("a name");
    let secret = cache.here.path("secret");
    fs::write(&secret, "whisper").expect("the test's own files");
    let secret = format!("word={}", secret.display());
    let words =
        ["--hostname", "other", "--env", "X=y z", "--secret", &secret, "--rw", opened, "--workdir", opened];
    let script = "hostname; echo $X; cat /run/secrets/word; echo made > here; ls /sys/class/net";
    let start = cache.says(&[&words[..], &["--", "sh", "-c", script]].concat(), "other\ny z\nwhisperlo\n");
    assert!(start.is_restored(), "{}", start.why_not());
    assert_eq!(fs::read_to_string(folder.join("here")).expect("written"), "made\n");
    let saved = fs::read(cache.kept_one()).expect("readable");
    assert!(!saved.windows(7).any(|part| part == b"whisper"), "what was told later is not in what is kept");
}

#[test]
fn a_saved_machine_that_is_damaged_is_not_used() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let flip = |from_end: Option<u64>| {
        let file = File::options().read(true).write(true).open(cache.kept_one()).expect("ours");
        let at = from_end.map_or(100, |back| file.metadata().expect("there").len() - back);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("readable");
        file.write_all_at(&[byte[0] ^ 1], at).expect("writable");
    };
    flip(None);
    cache.assert_noticed("its state is damaged");
    flip(Some(20 << 20));
    cache.assert_noticed("its memory is damaged");
    flip(Some(200));
    cache.assert_noticed("its header is damaged");
    let file = File::options().write(true).open(cache.kept_one()).expect("ours");
    file.set_len(10 << 20).expect("cut");
    cache.assert_noticed("it is cut");
    fs::write(cache.kept_one(), "").expect("ours");
    cache.assert_noticed("it is cut");
    fs::set_permissions(cache.kept_one(), fs::Permissions::from_mode(0o666)).expect("ours");
    cache.assert_noticed("written to by everybody");
}

#[test]
fn one_of_another_shape_is_stale() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let name = cache.kept_one();
    let aside = cache.here.path("aside");
    fs::rename(&name, &aside).expect("ours");
    assert!(!cache.says(&["--cpus", "2", "--", "nproc"], "2\n").is_restored());
    fs::rename(cache.kept_one(), &name).expect("ours");
    cache.assert_noticed("it is of another machine");
}

/// The words under which a machine was saved.
fn shape(path: &Path) -> String {
    let bytes = fs::read(path).expect("readable");
    let trailer = bytes.len() - 16;
    let length = u32::from_le_bytes(bytes[trailer..trailer + 4].try_into().expect("four")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[trailer - length..trailer]).expect("JSON");
    header["shape"].as_str().expect("text").to_owned()
}

/// Whole, ours, with the right words: only what is in it does not work.
#[test]
fn one_that_qemu_or_its_guest_cannot_go_on_with_is_not_used() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    cache.saved();
    let shape = shape(&cache.kept_one());
    let store = Store::open(cache.folder.path()).expect("ours");
    let good = store.find(&shape).expect("whole").expect("there");
    let (state, empty) = (good.state().to_vec(), saved::memory(good.memory_bytes()).expect("memory"));
    store.keep(&shape, b"no state of any machine", &empty).expect("kept");
    cache.assert_noticed("qemu");
    // QEMU takes this, but there is nothing in its guest's memory.
    store.keep(&shape, &state, &empty).expect("kept");
    cache.assert_noticed("the guest has ended");
    let smaller = saved::memory(good.memory_bytes() / 2).expect("memory");
    store.keep(&shape, &state, &smaller).expect("kept");
    cache.assert_noticed("another size");
}

#[test]
fn what_no_saved_machine_has_is_booted() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    let disk = cache.here.path("disk");
    File::create(&disk).and_then(|file| file.set_len(1 << 20)).expect("the test's own files");
    let disk = disk.to_str().expect("a name");
    let cases: [(&[&str], &str); 3] = [
        (&["--disk", disk], "disks"),
        (&["--net", "user"], "cards"),
        (&["--cpus", "2", "--guest-nodes", "2"], "nodes"),
    ];
    for (words, why) in cases {
        let start = cache.says(&[words, &["--", "true"]].concat(), "");
        assert!(!start.is_restored() && start.why_not().contains(why), "{}", start.why_not());
    }
    assert_eq!(cache.kept().len(), 0);
}

#[test]
fn a_port_of_the_host_leads_to_a_restored_guest() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    let port = exec_fixture::free_port();
    let forward = format!("{port}:80");
    // One connection is answered and ends it.
    let serve = "use IO::Socket::INET; my $s = IO::Socket::INET->new(LocalPort => 80, Listen => 1) or die; my $c = $s->accept; \
                 print $c \"served\\n\"";
    let words = ["--port", &forward, "--user", "0:0", "--", "perl", "-e", serve];
    for is_restored in [false, true] {
        let (start, answer) = std::thread::scope(|scope| {
            let asks = scope.spawn(|| answer_of(port));
            (cache.start(&words), asks.join().expect("no panic"))
        });
        assert_code(&start.output, 0);
        assert_eq!(answer, "served\n");
        assert_eq!(start.is_restored(), is_restored, "{}", start.why_not());
    }
}

/// What is said at a port once somebody answers there.
fn answer_of(port: u16) -> String {
    let until = Instant::now() + exec_fixture::PATIENCE;
    while Instant::now() < until {
        let mut answer = String::new();
        let read = TcpStream::connect(("127.0.0.1", port)).and_then(|mut to| to.read_to_string(&mut answer));
        if read.is_ok() && !answer.is_empty() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    "nobody answers".to_owned()
}

/// A QEMU of another name for the port of late devices: what was booted for saving cannot go on.
const STRANGE_QEMU: &str = "#!/bin/sh
for word; do
    shift
    case $word in pcie-root-port,*) word=pcie-root-port,id=other,bus=pcie.0,chassis=1,addr=0x10 ;; esac
    set -- \"$@\" \"$word\"
done
exec qemu-system-x86_64 \"$@\"
";

#[test]
fn a_qemu_that_cannot_do_it_boots_and_is_remembered() {
    if !guests_start() {
        return;
    }
    let cache = Cache::new();
    let qemu = cache.here.path("strange-qemu");
    let real = bulkhead::platforms::vm::disk::find_program("qemu-system-x86_64").expect("guests start");
    let text = STRANGE_QEMU.replace("exec qemu-system-x86_64", &format!("exec {}", real.display()));
    fs::write(&qemu, text).expect("the test's own files");
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    let words = ["--qemu", qemu.to_str().expect("a name"), "--", "echo", "right"];
    let first = cache.says(&words, "right\n");
    assert!(!first.is_restored() && first.why_not().contains("Bus 'late' not found"), "{}", first.why_not());
    let second = cache.says(&words, "right\n");
    assert!(
        !second.is_restored() && second.why_not().contains("did not work before"),
        "{}",
        second.why_not()
    );
    // It holds for that QEMU alone.
    cache.says(&["--", "echo", "first"], "first\n");
    assert!(cache.says(&["--", "echo", "again"], "again\n").is_restored());
}
