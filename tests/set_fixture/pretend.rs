//! A stand-in for QEMU and the guest in it: greets, answers, says what PID 1 of a guest says, and runs the program itself,
//! as an ordinary process that dies with it. What the program is, it finds where PID 1 would: in the first file system. Like
//! QEMU it is behind a wall, where it can signal nobody: a program that is to end is killed by the kernel with it.

#![expect(unsafe_code, reason = "inherited descriptors have no safe owner")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{fs, thread};

use bulkhead::model::partition::{
    FromGuest, LONGEST_MESSAGE, PROGRAM_PROTOCOL, Program, ProgramEnd, Stream, ToGuest,
};
use bulkhead::platforms::link::{Decoder, decode, encode};
use bulkhead::platforms::spawn::{Bond, spawn};
use bulkhead::platforms::vm::guest::GuestConfig;

use super::answers::{Answers, answer};

/// Holds the command line.
pub const WORDS: &str = "BULKHEAD_PRETEND_WORDS";
/// In a program's environment: milliseconds until the guest is there.
const BOOT_MS: &str = "PRETEND_BOOT_MS";
/// In a program's environment: the guest ends instead.
const PANICS: &str = "PRETEND_PANIC";

/// What the stand-in does, from its command line to its end.
pub fn run() {
    let words = std::env::var(WORDS).expect("started by its script");
    let sockets = sockets(&words);
    let socket = |name: &str| sockets[name].try_clone().expect("a socket");
    let program = program(&words);
    let variable = |name: &str| {
        let found = program.env.iter().find(|(key, _)| key == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let (let_go, gate) = channel();
    let control = socket("control");
    let answers = Answers::of(&words);
    thread::spawn(move || {
        answer(control, &answers, &mut || {
            let _ = let_go.send(());
            false
        });
    });
    gate.recv().expect("let go");
    let boots = variable(BOOT_MS).and_then(|text| text.parse().ok()).unwrap_or(0);
    thread::sleep(Duration::from_millis(boots));
    if variable(PANICS).is_some() {
        socket("console").write_all(b"Kernel panic - not syncing: pretended\n").expect("written");
        return;
    }
    guest(socket("link"), &program, [socket("port1"), socket("port2")]);
}

/// Every `-chardev socket,id=NAME,fd=NUMBER`.
fn sockets(words: &str) -> BTreeMap<String, UnixStream> {
    let arguments = words.split(' ').filter_map(|word| word.strip_prefix("socket,id="));
    arguments
        .map(|word| {
            let (name, fd) = word.split_once(",fd=").expect("a descriptor");
            let fd: i32 = fd.parse().expect("a number");
            // SAFETY: inherited for this, and owned by nobody else in this process.
            let owned = unsafe { OwnedFd::from_raw_fd(fd) };
            (name.to_owned(), UnixStream::from(owned))
        })
        .collect()
}

/// The configuration in the archive that QEMU is given (cpio(5), the new form: eight digits a field, sizes of file and name
/// in the seventh and twelfth).
fn program(words: &str) -> Program {
    let path = words.split(' ').skip_while(|word| *word != "-initrd").nth(1).expect("a first file system");
    let archive = fs::read(path).expect("it can be read");
    let mut rest = archive.as_slice();
    loop {
        let field = |number: usize| {
            let digits = &rest[6 + 8 * number..14 + 8 * number];
            usize::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("digits")
        };
        let (size, name) = (field(6), field(11));
        let begin = (110 + name).next_multiple_of(4);
        if rest[110..].starts_with(b"bulkhead.json\0") {
            let config: GuestConfig =
                serde_json::from_slice(&rest[begin..begin + size]).expect("a configuration");
            return config.program.expect("a program").program;
        }
        rest = &rest[(begin + size).next_multiple_of(4)..];
    }
}

/// What PID 1 says, and does.
fn guest(link: UnixStream, program: &Program, outputs: [UnixStream; 2]) {
    let mut to_host = link.try_clone().expect("a socket");
    let mut say = |message: &FromGuest| {
        let frame = encode(message, LONGEST_MESSAGE).expect("a frame");
        to_host.write_all(&frame).expect("written");
    };
    say(&FromGuest::Ready {
        protocol: PROGRAM_PROTOCOL,
        cpus: 1,
        memory_bytes: 1 << 28,
        free_bytes: 1 << 27,
    });
    let (sender, inbox) = channel();
    let hears = sender.clone();
    thread::spawn(move || listen(link, &hears));
    match inbox.recv() {
        Ok(Heard::Said(ToGuest::Start)) => {}
        _ => panic!("a start was wanted"),
    }
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let mut command = Command::new(text(&program.argv[0]));
    command.args(program.argv.iter().skip(1).map(text)).current_dir(&program.workdir);
    command.envs(program.env.iter().map(|(key, value)| (text(key), text(value))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, Bond::DiesWithUs, None).expect("the program starts");
    say(&FromGuest::Started);
    let [out, error] = outputs;
    let counted: [Arc<AtomicU64>; 2] = Default::default();
    let out = copied(child.stdout.take().expect("a pipe"), out, &counted[0]);
    let error = copied(child.stderr.take().expect("a pipe"), error, &counted[1]);
    thread::spawn(move || {
        let counts = [out.join().expect("no panic"), error.join().expect("no panic")];
        let _ = sender.send(Heard::Ended(child.wait().expect("reaped"), counts));
    });
    while let Ok(heard) = inbox.recv() {
        match heard {
            Heard::Said(ToGuest::Signal { number }) => {
                say(&FromGuest::Passed { number });
                let [out, error] = [0, 1].map(|stream: usize| counted[stream].load(Ordering::SeqCst));
                say(&FromGuest::OutputEnds { stream: Stream::Output, bytes: out });
                say(&FromGuest::OutputEnds { stream: Stream::Error, bytes: error });
                say(&FromGuest::Ended { how: ProgramEnd::Signal(number) });
            }
            Heard::Said(ToGuest::Bye) | Heard::Nothing => return,
            Heard::Said(_) => {}
            Heard::Ended(status, [out, error]) => {
                say(&FromGuest::OutputEnds { stream: Stream::Output, bytes: out });
                say(&FromGuest::OutputEnds { stream: Stream::Error, bytes: error });
                say(&FromGuest::Ended { how: end(status) });
            }
        }
    }
}

/// What reaches the guest.
enum Heard {
    Said(ToGuest),
    Ended(ExitStatus, [u64; 2]),
    Nothing,
}

fn listen(mut link: UnixStream, hears: &Sender<Heard>) {
    let mut decoder = Decoder::new(LONGEST_MESSAGE);
    let mut chunk = [0; 4096];
    loop {
        let count = link.read(&mut chunk).unwrap_or(0);
        if count == 0 {
            let _ = hears.send(Heard::Nothing);
            return;
        }
        decoder.push(&chunk[..count]);
        while let Some(frame) = decoder.next_frame().expect("a frame") {
            let _ = hears.send(Heard::Said(decode(&frame).expect("a message")));
        }
    }
}

fn copied(
    mut from: impl Read + Send + 'static,
    mut to: UnixStream,
    counted: &Arc<AtomicU64>,
) -> thread::JoinHandle<u64> {
    let counted = Arc::clone(counted);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            to.write_all(&chunk[..count]).expect("written");
            counted.fetch_add(count as u64, Ordering::SeqCst);
        }
        counted.load(Ordering::SeqCst)
    })
}

fn end(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exit(u8::try_from(code).expect("a code")),
        (None, signal) => ProgramEnd::Signal(signal.unwrap_or(9)),
    }
}

/// Not a test: the stand-in for QEMU, started by the script of a bench.
#[test]
#[ignore = "started by the tests, in a process of its own"]
fn pretend_qemu() {
    run();
}
