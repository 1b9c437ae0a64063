//! Host and guest change the same few files by turns, at random, and the same is done natively in another folder: after each step all that
//! can be seen of both must be the same, by the host and, after its own steps, by the guest.
//!
//! ```text
//!  each step ─┬─ the guest's, or the host's ─► the opened folder ─┐
//!             └─ the same, natively ─────────► a folder beside it ┴─► answers, names, contents, modes, links: equal?
//! ```
//! `BULKHEAD_FILES_RACE` says how many steps; the seed is printed, and `BULKHEAD_FILES_RACE_SEED` repeats a run.
//! Two games: one of files in a folder, and one of files in folders that the host moves. Not among the steps is what `docs/partitions.md`
//! says is otherwise: links by the guest, descriptors whose name the host gives away, and new names, or names that are taken away, by the
//! guest in folders that the host has just moved.

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

/// What is played with, and what each side does with it.
struct Game {
    folders: &'static [&'static str],
    files: &'static [&'static str],
    of_both: &'static [&'static str],
    /// In a quarter of its steps.
    of_the_host: &'static [&'static str],
}

const IN_A_FOLDER: Game = Game {
    folders: &[""],
    files: &["a", "b", "c"],
    of_both: &["read", "append", "anew", "within", "put", "truncate", "chmod", "rename", "unlink", "hold"],
    of_the_host: &["link", "rename"],
};
const IN_MOVED_FOLDERS: Game = Game {
    folders: &["d", "e", "f"],
    files: &["d/a", "d/b", "e/a", "e/b", "f/a"],
    of_both: &["read", "append", "anew", "within", "truncate", "chmod", "attribute"],
    of_the_host: &["move", "swap", "rename", "unlink", "put", "mkdir"],
};

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
            with open(name + '~', 'wb') as file: file.write(data)
            os.rename(name + '~', name)
        elif what == 'truncate': os.truncate(name, place)
        elif what == 'chmod': os.chmod(name, 0o600 + place % 64)
        elif what == 'attribute': os.setxattr(name, 'user.note', data[:9])
        elif what in ('rename', 'move'): os.rename(name, other)
        elif what == 'swap':
            os.rename(name, 'aside')
            try: os.rename(other, name)
            finally: os.rename('aside', other)
        elif what == 'mkdir': os.mkdir(name)
        elif what == 'list': said = ','.join(sorted(os.listdir(name))) or 'none'
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

/// Content, mode and attribute of a file, and the first of the names that are the same file.
type Look = (Vec<u8>, u32, Vec<u8>, &'static str);

/// What is there under each name.
fn seen(folder: &Path, game: &Game) -> BTreeMap<&'static str, Look> {
    let mut first = BTreeMap::new();
    let look = |name: &'static str| {
        let path = folder.join(name);
        let meta = fs::metadata(&path).ok()?;
        let same = *first.entry(meta.ino()).or_insert(name);
        let mut attribute = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.note", &mut attribute).unwrap_or(0);
        let attribute = attribute[..length].to_vec();
        Some((name, (fs::read(&path).expect("it is there"), meta.mode() & 0o777, attribute, same)))
    };
    game.files.iter().copied().filter_map(look).collect()
}

fn one_of<'a>(random: &mut Xoshiro256PlusPlus, all: &[&'a str]) -> &'a str {
    all[random.random_range(0..all.len())]
}

fn step(random: &mut Xoshiro256PlusPlus, game: &Game, is_guests: bool) -> String {
    let is_hosts = !is_guests && random.random_range(0..4) == 0;
    let what = one_of(random, if is_hosts { game.of_the_host } else { game.of_both });
    let what = if what == "hold" && random.random_range(0..2) == 0 { "let" } else { what };
    let names = if matches!(what, "move" | "swap" | "mkdir") { game.folders } else { game.files };
    let (name, other) = (one_of(random, names), one_of(random, names));
    let length = [3, 5000][random.random_range(0..2)];
    let bytes = (0..length).map(|_| random.random::<u8>());
    let data = bytes.fold(String::new(), |data, byte| data + &format!("{byte:02x}"));
    format!("{what} {name} {other} {} x{data}", random.random_range(0..6000))
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The guest, the host in the same folder, and natively one for each of them, so that each has open what it has there.
struct Players {
    guest: Worker,
    host: Worker,
    natives: [Worker; 2],
}

impl Players {
    fn start(here: &Here, (open, native): (&Path, &Path)) -> Self {
        let path = open.to_str().expect("a path of text");
        let words = ["--rw", path, "--workdir", path, "--", "python3", "-c", SCRIPT];
        let guest = Worker::start(&mut here.command(&words));
        let natives = [Worker::natively(native), Worker::natively(native)];
        Self { guest, host: Worker::natively(open), natives }
    }

    /// What one of them says to a step, and what is said to it natively.
    fn both(&mut self, is_guests: bool, step: &str) -> (String, String) {
        let here = if is_guests { &mut self.guest } else { &mut self.host };
        (here.answer(step), self.natives[usize::from(is_guests)].answer(step))
    }

    fn end(self) {
        for one in self.natives.into_iter().chain([self.guest, self.host]) {
            one.end();
        }
    }
}

fn play(game: &Game) {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, native) = (here.path("open"), here.path("native"));
    for folder in [&open, &native].iter().flat_map(|all| game.folders.iter().map(|one| all.join(one))) {
        fs::create_dir_all(folder).expect("the test's own files");
    }
    let mut players = Players::start(&here, (&open, &native));
    let steps = from_environment("BULKHEAD_FILES_RACE").unwrap_or(STEPS);
    let seed = from_environment("BULKHEAD_FILES_RACE_SEED").unwrap_or_else(rand::random);
    println!("BULKHEAD_FILES_RACE_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut done = Vec::new();
    let reads = game.files.iter().map(|name| format!("read {name} - 0 x"));
    let lists = game.folders.iter().map(|name| format!("list ./{name} - 0 x"));
    let looks: Vec<String> = reads.chain(lists).collect();
    for number in 0..steps {
        let is_guests = random.random_range(0..2) == 0;
        let step = step(&mut random, game, is_guests);
        done.push(format!("{} {:.30}", if is_guests { "guest" } else { "host " }, step));
        let told =
            || format!("seed {seed}, step {number} of\n{}", done[done.len().saturating_sub(12)..].join("\n"));
        let (got, wanted) = players.both(is_guests, &step);
        assert_eq!(got, wanted, "{}", told());
        assert!(seen(&open, game) == seen(&native, game), "{}", told());
        // Not after the host's: what the guest does next finds what the guest knew before.
        for look in looks.iter().filter(|_| is_guests) {
            let (got, wanted) = players.both(true, look);
            assert!(got == wanted, "the guest's {look}: {got:.60}, natively {wanted:.60}; {}", told());
        }
    }
    println!("{steps} steps by turns, seed {seed}");
    players.end();
    here.assert_nothing_left();
}

#[test]
fn what_host_and_guest_do_by_turns_is_as_if_natively() {
    play(&IN_A_FOLDER);
}

#[test]
fn what_they_do_in_folders_that_the_host_moves_is_as_if_natively() {
    play(&IN_MOVED_FOLDERS);
}
