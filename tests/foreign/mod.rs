//! What strangers write, into what reads it: each function takes any bytes, panics when a promise is broken, and says
//! whether it understood them. `tests/mutations.rs` mutates good inputs, the targets in `fuzz/` follow the coverage.

#![allow(dead_code, reason = "each user takes its own part")]

pub mod frames;
mod images;
mod plans;
mod verify;

pub use images::{image_documents, image_layer};
pub use plans::{certificate, host_file, plan_file, system_file};
pub use verify::{requirements, verify_journal};

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use bulkhead::model::channel_worker::{WorkerOrder, read_answer};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::partition::network::SwitchState;
use bulkhead::model::partition::session::{Unpacker, pack};
use bulkhead::model::partition::set::{KeptState, PartitionSet, SetRecord, Undertaking};
use bulkhead::model::partition::{FromGuest, LONGEST_MESSAGE, ToGuest, read_env_file};
use bulkhead::model::results::RunResults;
use bulkhead::partition::mpi::agent::{TOKEN_CHARS, read_command};
use bulkhead::partition::network::switch::{LONGEST_FRAME, Rules, Switch};
use bulkhead::partition::network::watch::changes;
use bulkhead::platforms::console::{CHARS, Console, LINES, harmless};
use bulkhead::platforms::host::numa_maps::guest_memory;
use bulkhead::platforms::ledger::Thing;
use bulkhead::platforms::link::{Decoder, decode};
use bulkhead::platforms::ssh::{errand, explain, is_our_folder};
use bulkhead::platforms::storage::mounts;
use bulkhead::platforms::sweep::mounts_listed_below;
use bulkhead::platforms::vm::guest::GuestConfig;
use bulkhead::platforms::vm::qmp::Qmp;
use bulkhead::platforms::wall::Below;
use bulkhead::probes::net::control::{LONGEST, Message};
use bulkhead::probes::rendezvous::hello::{HELLO_BYTES, Hello};
use bulkhead::report::terminal::{Style, summary};
use bulkhead::report::{change, compare, page};
use bulkhead::units::Mebibytes;
use bulkhead::units::clock_wire::{ClockAnswer, ClockQuestion};
use files::{Answer as FileAnswer, Files, Tree};
use serde::Serialize;
use serde::de::DeserializeOwned;

const SECOND: Duration = Duration::from_secs(1);

/// Nothing that moves a terminal's cursor.
fn assert_harmless(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

/// Whether it is read; what is read can be written, and reads back the same.
fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return false };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let again = serde_json::from_slice::<T>(&written).expect("what was written can be read");
    assert_eq!(again, value);
    true
}

/// Lines of a QEMU that executes its guest's code: greeting, events, answers.
pub fn qmp(bytes: &[u8]) -> bool {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    // More than the socket takes would wait for a reader.
    theirs.write_all(&bytes[..bytes.len().min(64 << 10)]).expect("room");
    theirs.shutdown(Shutdown::Write).expect("open");
    let mut qmp = Qmp::new(ours);
    let mut understood = false;
    for _ in 0..2 {
        match qmp.query("query-status", &serde_json::Value::Null, 10 * SECOND) {
            Ok(_) => understood = true,
            Err(reason) => assert_harmless(&reason.to_string()),
        }
    }
    understood
}

/// What a guest's kernel or a child says on its console.
pub fn console(bytes: &[u8]) -> bool {
    assert_harmless(&harmless(bytes));
    let (from, mut to) = std::io::pipe().expect("a pipe");
    let console = Console::follow_for(from.into(), Some("Kernel panic")).expect("a thread");
    to.write_all(&bytes[..bytes.len().min(48 << 10)]).expect("room");
    drop(to);
    console.settle(10 * SECOND);
    let lines = console.tail();
    assert!(lines.len() <= LINES && lines.iter().all(|line| line.chars().count() <= CHARS + 1), "{lines:?}");
    lines.iter().chain(console.marked().iter()).for_each(|line| assert_harmless(line));
    !lines.is_empty()
}

/// What a ledger says was made.
pub fn ledger(bytes: &[u8]) -> bool {
    round_trip::<Thing>(bytes)
}

/// A set of partitions as a user writes it.
pub fn set_file(bytes: &[u8]) -> bool {
    match PartitionSet::from_toml(&String::from_utf8_lossy(bytes), "fuzz") {
        Ok(set) => {
            set.wiring().expect("what was checked has its addresses");
            true
        }
        Err(error) => {
            assert_harmless(&error.to_string());
            false
        }
    }
}

/// Classes of work as a user writes them.
pub fn classes(bytes: &[u8]) -> bool {
    let Ok(set) = ClassSet::from_toml(&String::from_utf8_lossy(bytes)) else { return false };
    let written = set.to_toml().expect("what was read can be written");
    assert_eq!(ClassSet::from_toml(&written).expect("what was written can be read"), set);
    true
}

/// A results.json of anybody, shown in all ways and compared with itself.
pub fn results(bytes: &[u8]) -> bool {
    let Ok(results) = serde_json::from_slice::<RunResults>(bytes) else { return false };
    let style = Style { width: 100, colour: false };
    assert_harmless(&summary(&results, style));
    let html = page::html(&results);
    assert!(!html.contains("<script>alert"), "a page runs nothing that came from a file");
    let changes = change::changes(&results, &results);
    assert_harmless(&compare::compare_text(&results, &results, &changes, style));
    let _ = compare::compare_html(&results, &results, &changes);
    true
}

/// What lies in the folder of a set that is up.
pub fn set_state(bytes: &[u8]) -> bool {
    let record = serde_json::from_slice::<SetRecord>(bytes);
    if let Ok(record) = &record {
        let _ = record.set.wiring();
    }
    round_trip::<SetRecord>(bytes)
        | round_trip::<KeptState>(bytes)
        | round_trip::<Undertaking>(bytes)
        | serde_json::from_slice::<SwitchState>(bytes).is_ok()
}

/// The plug whose frames are held to its address.
const HELD: u8 = 1;

/// Streams of frames of three plugs, one of them with an address and a rate: the first byte of each piece says whose.
pub fn switch(bytes: &[u8]) -> bool {
    let mut switch = Switch::default();
    let rules = |plug: u8| match plug {
        HELD => Rules { address: Some(frames::HARDWARE), bytes_per_s: Some(10_000) },
        _ => Rules::default(),
    };
    (0..3).for_each(|plug| switch.plug_in(plug, rules(plug)));
    let mut forwarded = false;
    for (number, piece) in bytes.chunks(97).enumerate() {
        let Some((from, piece)) = piece.split_first() else { continue };
        let (from, now) = (from % 3, Duration::from_millis(number as u64));
        let before = [0, 1, 2].map(|plug| switch.waiting(plug).len());
        let taken = switch.receive(from, piece, now).and_then(|()| switch.resume(from, now));
        let others = (0..3).filter(|plug| from == HELD && *plug != HELD);
        for plug in others {
            let left = &switch.waiting(plug)[before[usize::from(plug)]..];
            frames::frames(left).into_iter().for_each(frames::assert_own);
        }
        if taken.is_err() {
            switch.unplug(from);
            switch.plug_in(from, rules(from));
        }
        let _ = switch.holds_back(from, now);
        for plug in 0..3 {
            let waiting = switch.waiting(plug).len();
            forwarded |= waiting > 0;
            // What waits is bounded, whatever comes.
            assert!(waiting <= 64 << 20, "{waiting} bytes wait for plug {plug}");
            switch.sent(plug, waiting.min(LONGEST_FRAME / 2));
        }
    }
    forwarded
}

/// The folder of the trees that a guest asks about, with a file beside it that none leads to. One for the process: what earlier inputs
/// have made of it is there.
fn trees() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        for tree in ["trees/0/d", "trees/1"] {
            std::fs::create_dir_all(folder.path().join(tree)).expect("a folder");
        }
        for file in ["outside", "trees/0/a", "trees/0/d/b", "trees/1/a"] {
            std::fs::write(folder.path().join(file), "content").expect("a file");
        }
        std::os::unix::fs::symlink("../../outside", folder.path().join("trees/0/out")).expect("a link");
        folder
    });
    made.path()
}

/// Requests of a guest's kernel for files: two bytes of length before each. Whether one was done after the first.
pub fn file_requests(bytes: &[u8]) -> bool {
    const HEADER: usize = 40;
    const FALLOCATE: u32 = 43;
    let folder = trees();
    let top = std::fs::File::open(folder.join("trees")).expect("it is there");
    let mut server = Files::new(top.into(), vec![Tree { is_writable: true }, Tree { is_writable: false }]);
    let (mut rest, mut done) = (bytes, 0);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (request, after) = behind.split_at(length);
        rest = after;
        let mut request = request.to_vec();
        // A length that lies is refused at once, so that only one in a few does.
        if request.len() >= HEADER && request[4] & 0x40 == 0 {
            let honest = u32::try_from(request.len()).expect("short").to_le_bytes();
            request[..4].copy_from_slice(&honest);
        }
        // It would fill this host's disk, as the guest's own limits allow it.
        let long = |at: usize| {
            request.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
        };
        if request.get(4..8) == Some(&FALLOCATE.to_le_bytes())
            && long(HEADER + 16).is_some_and(|bytes| bytes > 1 << 16)
        {
            continue;
        }
        // What waits is not waited for.
        if let FileAnswer::Now(answer) = server.handle(&request, 8192) {
            assert!((16..=8192).contains(&answer.len()), "{}", answer.len());
            assert_eq!(answer.get(8..16), request.get(8..16), "whose answer it is");
            done += u32::from(answer[4..8] == [0; 4]);
        }
    }
    let outside = std::fs::symlink_metadata(folder.join("outside")).expect("it is there");
    assert!(outside.is_file() && outside.len() == 7, "what is beside the trees stays");
    done > 1
}

/// What a partition's PID 1 and its host say to each other.
pub fn partition(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::new(LONGEST_MESSAGE);
    let mut understood = false;
    let mut read = |payload: &[u8]| {
        understood |= decode::<ToGuest>(payload).is_ok();
        match decode::<FromGuest>(payload) {
            Ok(FromGuest::Ended { how }) => understood |= how.code() > 0,
            other => understood |= other.is_ok(),
        }
    };
    for chunk in bytes.chunks(61) {
        decoder.push(chunk);
        while let Ok(Some(payload)) = decoder.next_frame() {
            read(&payload);
        }
    }
    // The checksum keeps a fuzzer out of what lies behind it, so that is tried directly as well.
    read(bytes);
    understood
}

/// What PID 1 of a guest is to do.
pub fn guest_config(bytes: &[u8]) -> bool {
    round_trip::<GuestConfig>(bytes)
}

/// Where the memory of a guest lies: a guest decides how much is there, and files are named by anybody.
pub fn numa_maps(bytes: &[u8]) -> bool {
    match guest_memory(&String::from_utf8_lossy(bytes), Some(0x7efd_c3e0_0000), Mebibytes::from_mib(512)) {
        Ok(given) => {
            assert!(given.present_bytes.windows(2).all(|pair| pair[0].0 < pair[1].0), "each node once");
            true
        }
        Err(reason) => {
            assert!(!reason.to_string().is_empty() && reason.to_string().len() < 1000, "{reason}");
            false
        }
    }
}

/// Mounts, which anybody who may mount names.
pub fn mountinfo(bytes: &[u8]) -> bool {
    let numbers = std::collections::BTreeSet::from([(8, 17)]);
    let found =
        mounts(&String::from_utf8_lossy(bytes), &numbers, |path| path.starts_with("/dev").then_some((8, 17)));
    for line in &found {
        assert_harmless(line);
    }
    !found.is_empty()
}

/// A line of a worker of a channel's bench, in a guest or beside it.
pub fn channel_answer(bytes: &[u8]) -> bool {
    let order = serde_json::from_slice::<WorkerOrder>(bytes).is_ok();
    match read_answer(bytes) {
        Ok(answer) => answer.is_sound(),
        Err(reason) => {
            assert_harmless(&reason.to_string());
            assert!(reason.to_string().len() < 1000, "{reason}");
            order
        }
    }
}

/// Datagrams of the clock by which guests are timed from outside.
pub fn clock(bytes: &[u8]) -> bool {
    let question = ClockQuestion::decode(bytes);
    if let Some(question) = &question {
        assert_eq!(ClockQuestion::decode(&question.encode()).as_ref(), Some(question));
    }
    let answer = ClockAnswer::decode(bytes);
    if let Some(answer) = &answer {
        assert_eq!(ClockAnswer::decode(&answer.encode()).as_ref(), Some(answer));
    }
    question.is_some() || answer.is_some()
}

/// What a remote machine and the SSH client say.
pub fn ssh(bytes: &[u8]) -> bool {
    // As the output of a command is taken.
    let said: Vec<String> = bytes.split(|byte| *byte == b'\n').map(harmless).collect();
    let said = said.join("\n");
    assert_harmless(&explain("host", &said));
    let folder = said.trim();
    let ours = is_our_folder(folder, "/tmp");
    let is_plain = |path: &str| path.chars().all(|c| c.is_ascii_alphanumeric() || "/.-_".contains(c));
    assert!(!(ours || errand::is_program(folder)) || is_plain(folder), "{folder:?}");
    // The other way round: what is to be done there.
    let asked = errand::read_asked(&mut &bytes[..], 64).is_ok_and(|asked| asked.len() <= 64);
    ours || asked
}

/// A path as the kernel writes it into its table of mounts (proc(5)): four bytes as three octal digits each.
fn as_the_kernel_writes(path: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    path.iter().flat_map(one).collect()
}

/// A mount below `/srv` whose name is these bytes, which whoever may mount chooses: the name and its line.
fn mount_named(bytes: &[u8]) -> (PathBuf, Vec<u8>) {
    let name = bytes.iter().filter(|byte| !b"/\0".contains(byte)).take(200);
    let path: Vec<u8> = b"/srv/x".iter().chain(name).copied().collect();
    let line =
        [b"40 1 8:1 / ".as_slice(), &as_the_kernel_writes(&path), b" rw shared:1 - ext4 /dev/a rw"].concat();
    (PathBuf::from(std::ffi::OsString::from_vec(path)), line)
}

/// The table of mounts as the wall reads it: which lie below what is shown, and which of them the kernel makes up.
pub fn wall_mounts(bytes: &[u8]) -> bool {
    let mut understood = false;
    let below = Below::read(bytes);
    for folder in ["/", "/srv", "/proc/self"].map(Path::new) {
        let found = below.of(folder);
        assert!(found.iter().all(|(path, _)| path.starts_with(folder) && *path != folder), "{found:?}");
        assert!(
            found.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "each once, those above first: {found:?}"
        );
        let made_up: Vec<&Path> =
            found.iter().filter(|(_, made_up)| *made_up).map(|(path, _)| *path).collect();
        let is_hidden = |path: &Path| made_up.iter().any(|above| *above != path && path.starts_with(above));
        assert!(!found.iter().any(|(path, _)| is_hidden(path)), "below what is made up: {found:?}");
        understood |= !found.is_empty();
    }
    let (path, line) = mount_named(bytes);
    assert_eq!(Below::read(&line).of(Path::new("/srv")), [(path.as_path(), false)], "whatever its name");
    understood
}

/// The same table as a sweep reads it, which unmounts what it finds there.
pub fn sweep_mounts(bytes: &[u8]) -> bool {
    let top = Path::new("/tmp/bulkhead-1");
    let found = mounts_listed_below(bytes, top);
    assert!(found.iter().all(|path| path.starts_with(top)), "{found:?}");
    assert!(found.len() <= bytes.split(|byte| *byte == b'\n').count(), "one a line: {found:?}");
    let (path, line) = mount_named(bytes);
    assert_eq!(mounts_listed_below(&line, Path::new("/srv")), [path], "whatever its name");
    !found.is_empty()
}

/// A file of variables: read, or refused without a word of what stands in it.
pub fn env_file(bytes: &[u8]) -> bool {
    match read_env_file(bytes) {
        Ok(variables) => {
            let is_variable = |(name, value): &(Vec<u8>, Vec<u8>)| {
                !name.is_empty()
                    && ![name, value].iter().any(|word| word.contains(&0) || word.contains(&b'\n'))
            };
            assert!(variables.iter().all(is_variable), "{variables:?}");
            !variables.is_empty()
        }
        Err(problem) => {
            assert_harmless(&problem.to_string());
            false
        }
    }
}

/// What comes over the port of sessions, in pieces: packets, of which what is read reads back the same, or an end.
pub fn session_packets(bytes: &[u8]) -> bool {
    let (mut unpacker, mut understood) = (Unpacker::default(), false);
    for piece in bytes.chunks(97) {
        unpacker.push(piece);
        loop {
            match unpacker.next_packet() {
                Ok(None) => break,
                Err(_) => return understood,
                Ok(Some(packet)) => {
                    let mut again = Unpacker::default();
                    again.push(&pack(packet.session, &packet.content).expect("what was read can be written"));
                    assert_eq!(again.next_packet(), Ok(Some(packet)));
                    understood = true;
                }
            }
        }
    }
    understood
}

/// What a QEMU that executes its guest's code says of its plugs, line by line.
pub fn plug_events(bytes: &[u8]) -> bool {
    let mut understood = false;
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        let said = changes(&message);
        let plugs = message.to_string().matches("plug").count();
        assert!(said.len() <= plugs, "{said:?} of {message}");
        assert!(message.get("event").is_none() || said.len() <= 1, "an event is of one plug: {message}");
        understood |= !said.is_empty();
    }
    understood
}

/// What comes to the door at which a partition waits for Open MPI's daemon: a token, a length, a line for a shell.
pub fn daemon_command(bytes: &[u8]) -> bool {
    const HEAD: usize = TOKEN_CHARS + 4;
    let token = "t".repeat(TOKEN_CHARS);
    let Ok(command) = read_command(bytes, &token) else { return false };
    assert!(bytes.starts_with(token.as_bytes()), "nobody is served who does not know the token");
    let length = u32::from_le_bytes(bytes[TOKEN_CHARS..HEAD].try_into().expect("four bytes"));
    assert!(length <= 1 << 20, "{length} bytes");
    assert_eq!(
        command.as_bytes(),
        &bytes[HEAD..HEAD + length as usize],
        "what was said, no more and no less"
    );
    true
}

/// What the other instance of a pair says beside the data: the body of a frame.
pub fn net_control(bytes: &[u8]) -> bool {
    let message = match Message::decode(bytes) {
        Ok(message) => message,
        Err(reason) => {
            assert_harmless(&reason.to_string());
            return false;
        }
    };
    let frame = message.encode();
    let (length, body) = frame.split_first_chunk::<2>().expect("a length");
    assert_eq!(usize::from(u16::from_le_bytes(*length)), body.len());
    assert!(body.len() <= LONGEST, "{} bytes", body.len());
    assert_eq!(Message::decode(body).as_ref(), Ok(&message));
    if let Message::Failed(reason) = &message {
        assert_harmless(reason);
        assert!(!reason.contains('\n') && reason.len() < LONGEST, "{reason:?}");
    } else {
        assert_eq!(body, bytes, "every byte counts");
    }
    true
}

/// What somebody says at the door of a job's member.
pub fn hello(bytes: &[u8]) -> bool {
    /// What follows is room.
    const FIELDS: usize = 36;
    let Some((bytes, _)) = bytes.split_first_chunk::<HELLO_BYTES>() else { return false };
    let Some(hello) = Hello::decode(bytes) else { return false };
    let again = hello.encode();
    assert_eq!(again[..FIELDS], bytes[..FIELDS], "every byte counts");
    assert_eq!(again[FIELDS..], [0; HELLO_BYTES - FIELDS]);
    assert_eq!(Hello::decode(&again), Some(hello));
    assert!(format!("{hello:?}").contains("Word(…)"), "the word of a job is in no message");
    let _ = hello.token();
    true
}
