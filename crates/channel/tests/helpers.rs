//! Streams, requests and responses, and the examples as a user runs them.

mod common;

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use channel::{Client, Error, Server, Stream};
use common::{HANG, message, pair};

#[test]
fn a_stream_keeps_bytes_and_their_order_and_ends_with_its_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: _sections, ends: [one, two] } = pair(folder.path(), 4096);
    let sent = message(4, 1_000_000);
    let mut writer = Stream::new(one, HANG);
    let mut reader = Stream::new(two, HANG);
    let wanted = sent.clone();
    let writing = thread::spawn(move || {
        for piece in sent.chunks(77_777) {
            writer.write_all(piece).expect("written");
        }
    });
    let mut got = vec![0; 10];
    reader.read_exact(&mut got).expect("ten bytes of a longer message");
    reader.read_to_end(&mut got).expect("the rest");
    writing.join().expect("no panic");
    assert!(got == wanted, "{} of {} bytes, or changed", got.len(), wanted.len());
}

#[test]
fn a_stream_that_waits_too_long_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: _sections, ends: [one, _two] } = pair(folder.path(), 4096);
    let mut stream = Stream::new(one, Duration::from_millis(20));
    assert_eq!(stream.read(&mut [0; 8]).expect_err("nothing").kind(), io::ErrorKind::TimedOut);
    let error = stream.write_all(&vec![0; 100_000]).expect_err("nobody reads");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(matches!(stream.finish(), Err(Error::Timeout { .. })));
}

#[test]
fn a_response_that_comes_too_late_is_not_taken_for_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: _sections, ends: [one, two] } = pair(folder.path(), 64 << 10);
    let (mut client, mut server) = (Client::new(one), Server::new(two));
    let error = client.call(b"first", Duration::from_millis(20)).expect_err("nobody serves");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let serving = thread::spawn(move || {
        for _ in 0..3 {
            let upper =
                |request: &[u8], response: &mut Vec<u8>| response.extend(request.to_ascii_uppercase());
            server.serve(HANG, upper).expect("served");
        }
    });
    assert_eq!(client.call(b"second", HANG).expect("answered"), b"SECOND");
    let long = vec![b'x'; 3_000_000];
    assert_eq!(client.call(&long, HANG).expect("answered"), vec![b'X'; 3_000_000]);
    serving.join().expect("no panic");
}

/// Examples lie beside the folder of the tests.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("this test");
    let path =
        test.parent().and_then(|deps| deps.parent()).expect("a build folder").join("examples").join(name);
    assert!(path.exists(), "{} was not built; run `cargo test`, which builds it", path.display());
    Command::new(path)
}

#[test]
fn the_stream_example_copies_a_file_between_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let sent = message(8, 3_000_000);
    let file = folder.path().join("in");
    std::fs::write(&file, &sent).expect("written");
    let sender = example("stream")
        .args(["send".as_ref(), folder.path().as_os_str()])
        .stdin(std::fs::File::open(&file).expect("readable"))
        .spawn();
    let mut sender = sender.expect("started");
    let receiver =
        example("stream").args(["receive".as_ref(), folder.path().as_os_str()]).stdin(Stdio::null()).output();
    let output = receiver.expect("ran");
    assert!(sender.wait().expect("ended").success());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == sent, "{} bytes", output.stdout.len());
}

#[test]
fn the_request_response_example_runs() {
    let output = example("request_response").output().expect("ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2000 calls"));
}
