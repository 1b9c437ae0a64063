//! Host and guest change the same few files by turns, at random, and the same is done natively in another folder: after each step all that
//! can be seen of both must be the same, by the host and by the guest.
//!
//! ```text
//!  each step ─┬─ the guest's, or the host's ─► the opened folder ─┐
//!             └─ the same, natively ─────────► a folder beside it ┴─► answers, names, contents, modes, links: equal?
//! ```
//! `BULKHEAD_FILES_RACE` says how many steps; the seed is printed, and `BULKHEAD_FILES_RACE_SEED` repeats a run.
//! Not among the steps is what `docs/partitions.md` says is otherwise: links by the guest, and descriptors whose name the host gives away.

use crate::exec_fixture;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use exec_fixture::{Here, guests_start};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Steps of an everyday run.
const STEPS: u64 = 400;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Worker one step for each line, and answers it: what was read, or the error's number.
const SCRIPT: &str = r"
import os, sys
held = {}
for line in sys.stdin:
    what, name, other, place, data = line.split()
    place, data, said = int(place), bytes.fromhex(data[1:]), 'done'
    def opened(flags):
        file = os.open(name, flags, 0o644)
        try: return os.read(file, 1 << 20) if flags & 3 == os.O_RDONLY else os.write(file, data)
        finally: os.close(file)
    try:
        if what == 'read': said = opened(os.O_RDONLY).hex() or 'empty'
        elif what == 'append': opened(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        elif what == 'anew': opened(os.O_WRONLY | os.O_TRUNC | os.O_CREAT)
        elif what == 'within':
            file = os.open(name, os.O_RDWR)
            try: os.pwrite(file, data, place)
            finally: os.close(file)
        elif what == 'put':
            with open('.' + name, 'wb') as file: file.write(data)
            os.rename('.' + name, name)
        elif what == 'truncate': os.truncate(name, place)
        elif what == 'chmod': os.chmod(name, 0o600 + place % 64)
        elif what == 'rename': os.rename(name, other)
        elif what == 'link': os.link(name, other)
        elif what == 'unlink': os.unlink(name)
        elif what == 'hold':
            file = os.open(name, os.O_RDWR)
            if name in held: os.close(held[name])
            held[name] = file
        elif what == 'let':
            if name in held: os.close(held.pop(name))
    except OSError as error: said = 'error-%d' % error.errno
    print(said, flush=True)
";
const OF_BOTH: [&str; 10] =
    ["read", "append", "anew", "within", "put", "truncate", "chmod", "rename", "unlink", "hold"];
const OF_THE_HOST: [&str; 2] = ["link", "rename"];

/// A process that does steps.
struct Worker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    fn natively(folder: &Path) -> Self {
        Self::start(Command::new("python3").args(["-c", SCRIPT]).current_dir(folder))
    }

    fn answer(&mut self, step: &str) -> String {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{step}").expect("it listens");
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Content and mode of each name, and the first of the names that are the same file.
fn seen(folder: &Path) -> BTreeMap<&'static str, (Vec<u8>, u32, &'static str)> {
    let mut first = BTreeMap::new();
    let look = |name: &'static str| {
        let path = folder.join(name);
        let meta = fs::metadata(&path).ok()?;
        let same = *first.entry(meta.ino()).or_insert(name);
        Some((name, (fs::read(&path).expect("it is there"), meta.mode() & 0o777, same)))
    };
    NAMES.into_iter().filter_map(look).collect()
}

fn one_of<'a>(random: &mut Xoshiro256PlusPlus, all: &[&'a str]) -> &'a str {
    all[random.random_range(0..all.len())]
}

fn step(random: &mut Xoshiro256PlusPlus, is_guests: bool) -> String {
    let what = if !is_guests && random.random_range(0..4) == 0 { &OF_THE_HOST[..] } else { &OF_BOTH[..] };
    let what = one_of(random, what);
    let what = if what == "hold" && random.random_range(0..2) == 0 { "let" } else { what };
    let (name, other) = (one_of(random, &NAMES), one_of(random, &NAMES));
    let length = [3, 5000][random.random_range(0..2)];
    let bytes = (0..length).map(|_| random.random::<u8>());
    let data = bytes.fold(String::new(), |data, byte| data + &format!("{byte:02x}"));
    format!("{what} {name} {other} {} x{data}", random.random_range(0..6000))
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn what_host_and_guest_do_by_turns_is_as_if_natively() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, native) = (here.path("open"), here.path("native"));
    for folder in [&open, &native] {
        fs::create_dir(folder).expect("the test's own files");
    }
    let path = open.to_str().expect("a path of text");
    let words = ["--rw", path, "--workdir", path, "--", "python3", "-c", SCRIPT];
    let mut guest = Worker::start(&mut here.command(&words));
    let mut host = Worker::natively(&open);
    // One for each side, so that each has open what it has there.
    let mut natives = [Worker::natively(&native), Worker::natively(&native)];
    let steps = from_environment("BULKHEAD_FILES_RACE").unwrap_or(STEPS);
    let seed = from_environment("BULKHEAD_FILES_RACE_SEED").unwrap_or_else(rand::random);
    println!("BULKHEAD_FILES_RACE_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut done = Vec::new();
    for number in 0..steps {
        let is_guests = random.random_range(0..2) == 0;
        let step = step(&mut random, is_guests);
        done.push(format!("{} {:.30}", if is_guests { "guest" } else { "host " }, step));
        let told =
            || format!("seed {seed}, step {number} of\n{}", done[done.len().saturating_sub(12)..].join("\n"));
        let here = if is_guests { &mut guest } else { &mut host };
        let (here, there) = (here.answer(&step), natives[usize::from(is_guests)].answer(&step));
        assert_eq!(here, there, "{}", told());
        assert!(seen(&open) == seen(&native), "{}", told());
        for name in NAMES {
            let reads = format!("read {name} - 0 x");
            let (got, wanted) = (guest.answer(&reads), natives[1].answer(&reads));
            assert!(got == wanted, "the guest reads {name}: {got:.60}, natively {wanted:.60}; {}", told());
        }
    }
    println!("{steps} steps by turns, seed {seed}");
    for one in natives.into_iter().chain([guest, host]) {
        one.end();
    }
    here.assert_nothing_left();
}
