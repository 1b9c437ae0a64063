//! A scripted QEMU: takes its place on the command line, says what a guest would say, runs nothing.

#![expect(unsafe_code, reason = "the sockets are inherited under numbers that only the command line names")]

#[path = "../../tests/set_fixture/answers.rs"]
mod answers;

use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bulkhead::model::partition::{FromGuest, LONGEST_MESSAGE, PROGRAM_PROTOCOL, ProgramEnd, Stream, ToGuest};
use bulkhead::platforms::link::{Decoder, decode, encode};

use answers::{Answers, answer};

pub fn run(words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--version") {
        crate::say("QEMU emulator version 0.0.0 (scripted)");
        return ExitCode::SUCCESS;
    }
    match serve(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The socket of `-chardev socket,id=NAME,fd=N`.
fn socket(words: &[String], name: &str) -> Result<UnixStream> {
    let start = format!("socket,id={name},fd=");
    let number = words.iter().find_map(|word| word.strip_prefix(&start)).context("no such socket")?;
    // SAFETY: the number was inherited for this purpose, and nobody else here knows it.
    Ok(unsafe { UnixStream::from_raw_fd(number.parse()?) })
}

/// N of the `exit N` that the guest is to run: bytes are numbers in its config. There is no environment behind QEMU's wall.
fn code(words: &[String]) -> Result<u8> {
    let at = words.iter().position(|word| word == "-initrd").context("no first file system")?;
    let files = std::fs::read(words.get(at + 1).context("no first file system")?)?;
    let exit: Vec<String> = b"exit ".iter().map(u8::to_string).collect();
    let exit = format!("{},", exit.join(","));
    let found = files.windows(exit.len()).rposition(|window| window == exit.as_bytes()).context("no exit")?;
    let digits = files[found + exit.len()..].split(|byte| *byte == b']').next().unwrap_or_default();
    let digits =
        std::str::from_utf8(digits)?.split(',').map(|digit| Ok(char::from(digit.trim().parse::<u8>()?)));
    Ok(digits.collect::<Result<String>>()?.parse()?)
}

fn serve(words: &[String]) -> Result<()> {
    let control = socket(words, "control")?;
    let mut link = socket(words, "link")?;
    answer(control, &Answers::of(&words.join(" ")), &mut || true);
    let code = code(words)?;
    let say = |message: &FromGuest| -> Result<()> {
        Ok(link.try_clone()?.write_all(&encode(message, LONGEST_MESSAGE)?)?)
    };
    say(&FromGuest::Ready { protocol: PROGRAM_PROTOCOL, cpus: 1, memory_bytes: 1, free_bytes: 1 })?;
    say(&FromGuest::Started)?;
    say(&FromGuest::OutputEnds { stream: Stream::Output, bytes: 0 })?;
    say(&FromGuest::OutputEnds { stream: Stream::Error, bytes: 0 })?;
    say(&FromGuest::Ended { how: ProgramEnd::Exit(code) })?;
    let mut decoder = Decoder::new(LONGEST_MESSAGE);
    let mut chunk = [0; 4096];
    loop {
        while let Some(frame) = decoder.next_frame()? {
            if decode::<ToGuest>(&frame)? == ToGuest::Bye {
                return Ok(());
            }
        }
        match link.read(&mut chunk)? {
            0 => return Ok(()),
            count => decoder.push(&chunk[..count]),
        }
    }
}
