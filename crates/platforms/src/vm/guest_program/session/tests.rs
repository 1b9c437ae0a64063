//! Sessions without a guest: connections to servers of this machine that have no time, or listen elsewhere.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::link::stream::wait;
use model::partition::session::Look;

/// Generous: nothing here takes longer than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// The host's end of the port.
struct Host {
    port: UnixStream,
    unpacker: Unpacker,
}

impl Host {
    fn say(&mut self, number: u32, word: SessionWord) {
        self.port.write_all(&pack(number, &SessionContent::Word(word)).expect("small")).expect("written");
    }

    fn open(&mut self, number: u32, ask: Ask) {
        self.say(number, SessionWord::Open { ask });
    }

    /// What came until now, but for ends of streams that nobody has.
    fn heard(&mut self) -> Vec<(u32, SessionContent)> {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = self.port.read(&mut chunk) {
            self.unpacker.push(&chunk[..count]);
        }
        let mut all = Vec::new();
        while let Some(packet) = self.unpacker.next_packet().expect("packets") {
            all.push((packet.session, packet.content));
        }
        all
    }
}

fn both(program: &Program) -> (Sessions<'_>, Host) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("non-blocking");
    let sessions =
        Sessions::new(theirs.into(), program, Vec::new(), StarvedWatch::begin()).expect("sessions");
    (sessions, Host { port: ours, unpacker: Unpacker::default() })
}

/// Turns until something of session `number` is `wanted`; everything that came by then.
fn until(
    sessions: &mut Sessions<'_>,
    host: &mut Host,
    wanted: impl Fn(&(u32, SessionContent)) -> bool,
) -> Vec<(u32, SessionContent)> {
    let (mut all, begun) = (Vec::new(), Instant::now());
    while !all.iter().any(&wanted) {
        assert!(begun.elapsed() < PATIENCE, "{all:?}");
        let patience = sessions.patience().unwrap_or(PATIENCE).min(Duration::from_millis(100));
        wait(&sessions.wanted(), Some(patience)).expect("waited");
        assert!(sessions.turn(true).expect("believed"));
        all.extend(host.heard());
    }
    all
}

fn started(number: u32) -> impl Fn(&(u32, SessionContent)) -> bool {
    move |(session, content)| *session == number && *content == SessionContent::Word(SessionWord::Started)
}

fn refused(number: u32) -> impl Fn(&(u32, SessionContent)) -> bool {
    move |(session, content)| {
        *session == number && matches!(content, SessionContent::Word(SessionWord::Refused { .. }))
    }
}

/// A server whose queue has room for one, which is taken; its port, and who took it.
fn busy() -> (TcpListener, u16, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&server, 0).expect("a short queue");
    let port = server.local_addr().expect("an address").port();
    let first = TcpStream::connect(("127.0.0.1", port)).expect("the first one");
    (server, port, first)
}

#[test]
fn who_waits_for_a_busy_program_is_not_refused_and_holds_up_nobody() {
    let program = Program::default();
    let (mut sessions, mut host) = both(&program);
    let (server, port, _first) = busy();
    for number in 1..=5 {
        host.open(number, Ask::Connect(port));
    }
    // What is sent meanwhile is kept for it.
    let bytes = pack(5, &SessionContent::Bytes(Stream::Input, b"early".to_vec())).expect("small");
    host.port.write_all(&bytes).expect("written");
    host.open(6, Ask::Look(Look::File(PathBuf::from("/"))));
    let came = until(&mut sessions, &mut host, started(6));
    assert!(came.iter().all(|(session, _)| *session == 6), "{came:?}");
    assert_eq!(sessions.all.len(), 5);

    // Of four that are left all are let in, one after the other; who is gone meanwhile takes no place.
    host.say(1, SessionWord::Close);
    server.accept().expect("the one before them");
    let mut taken = Vec::new();
    let mut came = Vec::new();
    while taken.len() < 4 {
        came.extend(until(&mut sessions, &mut host, |(_, content)| {
            *content == SessionContent::Word(SessionWord::Started)
        }));
        while came
            .iter()
            .filter(|(_, content)| *content == SessionContent::Word(SessionWord::Started))
            .count()
            > taken.len()
        {
            taken.push(server.accept().expect("one that waited").0);
        }
    }
    assert!((2..=5).all(|number| came.iter().any(started(number))), "{came:?}");
    assert!(!came.iter().any(|(session, _)| *session == 1), "{came:?}");
    let mut early = [0; 5];
    let said = taken.iter_mut().find_map(|taken| {
        taken.set_nonblocking(true).expect("non-blocking");
        taken.read_exact(&mut early).ok()
    });
    assert_eq!((said, &early), (Some(()), b"early"));
}

#[test]
fn a_port_is_open_wherever_a_look_says_that_somebody_listens() {
    let program = Program::default();
    for (number, address) in
        ["127.0.0.1:0", "[::1]:0", "127.0.0.2:0", "0.0.0.0:0", "[::]:0"].iter().enumerate()
    {
        let Ok(server) = TcpListener::bind(address) else {
            // A machine without IPv6.
            continue;
        };
        let port = server.local_addr().expect("an address").port();
        assert!(look::is_so(&Look::Tcp(port)), "{address}");
        let number = u32::try_from(number).expect("small");
        let (mut sessions, mut host) = both(&program);
        host.open(number, Ask::Connect(port));
        until(&mut sessions, &mut host, started(number));
        server.accept().expect("a connection");
        drop(server);
        host.open(10, Ask::Connect(port));
        let came = until(&mut sessions, &mut host, refused(10));
        assert!(!came.iter().any(started(10)), "{came:?}");
    }
}

/// A program that has ended: what it sent before goes on until the host has it, whoever takes his time, and is not waited for
/// where somebody else holds its end open.
#[test]
fn what_was_sent_before_the_end_is_delivered() {
    const SENT: usize = 150_000;
    let program = Program::default();
    let (mut sessions, mut host) = both(&program);
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    host.open(1, Ask::Connect(port));
    until(&mut sessions, &mut host, started(1));
    let (mut sends, _) = server.accept().expect("a connection");
    sends.write_all(&vec![7; SENT]).expect("the queue is long enough");
    drop(sends);
    host.open(2, Ask::Connect(port));
    let mut heard = until(&mut sessions, &mut host, started(2));
    let held_open = server.accept().expect("a connection");
    drop(server);

    let ended = Instant::now();
    let (mut came, mut got) = (Vec::new(), 0);
    while !sessions.deliver(ended, Patience::LONG).expect("believed") {
        assert!(ended.elapsed() < PATIENCE, "{got}");
        wait(&sessions.wanted(), Some(Duration::from_millis(20))).expect("waited");
        assert!(sessions.turn(false).expect("believed"));
        heard.extend(host.heard());
        for (number, content) in heard.drain(..) {
            if let SessionContent::Bytes(stream, bytes) = &content {
                got += bytes.len();
                let bytes = u32::try_from(bytes.len()).expect("small");
                host.say(number, SessionWord::Credit { stream: *stream, bytes });
            }
            came.push((number, content));
        }
    }
    came.extend(host.heard());
    let end_of = |number: u32| {
        came.iter().find_map(|(session, content)| match content {
            SessionContent::Word(SessionWord::Ended { how }) if *session == number => Some(*how),
            _ => None,
        })
    };
    assert_eq!((got, end_of(1), end_of(2)), (SENT, Some(ProgramEnd::Exit(0)), Some(ProgramEnd::Exit(1))));
    drop(held_open);
}

/// Who writes to it has seen the reset first: for who reads it there is no clean end either.
#[test]
fn a_reset_that_a_write_saw_is_no_clean_end() {
    let program = Program::default();
    let (mut sessions, mut host) = both(&program);
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    host.open(1, Ask::Connect(server.local_addr().expect("an address").port()));
    until(&mut sessions, &mut host, started(1));
    let (cut, _) = server.accept().expect("a connection");
    rustix::net::sockopt::set_socket_linger(&cut, Some(Duration::ZERO)).expect("a socket");
    drop(cut);
    // Heard and fed in one turn, before anything is read.
    let bytes = pack(1, &SessionContent::Bytes(Stream::Input, b"late".to_vec())).expect("small");
    host.port.write_all(&bytes).expect("written");
    let ended = |(_, content): &(u32, SessionContent)| {
        matches!(content, SessionContent::Word(SessionWord::Ended { .. }))
    };
    let came = until(&mut sessions, &mut host, ended);
    let says = |word: SessionWord| came.contains(&(1, SessionContent::Word(word)));
    assert!(says(SessionWord::End { stream: Stream::Input }), "it was a write that saw it: {came:?}");
    assert!(!says(SessionWord::End { stream: Stream::Output }), "{came:?}");
    assert!(says(SessionWord::Ended { how: ProgramEnd::Exit(1) }), "{came:?}");
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_when_somebody_wants_the_end() {
    let program = Program::default();
    let (mut sessions, mut host) = both(&program);
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    host.open(1, Ask::Connect(server.local_addr().expect("an address").port()));
    until(&mut sessions, &mut host, started(1));
    server.accept().expect("a connection").0.write_all(&vec![7; 150_000]).expect("the queue is long enough");
    let end = |(_, content): &(u32, SessionContent)| matches!(content, SessionContent::Bytes(..));
    until(&mut sessions, &mut host, end);
    assert!(!sessions.deliver(Instant::now(), Patience::LONG).expect("believed"));
    assert!(sessions.deliver(Instant::now(), Patience::NONE).expect("believed") && sessions.all.is_empty());
}
