//! Small requests and many bytes over a partition's port, by two versions of the program, side by side: each has a partition of its own that
//! runs an echo, and they take turns.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::Fixture;
use crate::streams::throughput;
use crate::verdict::{Judge, Mark, say};

const ROUNDS: u64 = 12;
/// Requests of a round, one after the other.
const REQUESTS: usize = 200;
/// Sent without waiting for answers: as many as come closely after one another where many ask.
const AT_ONCE: usize = 500;
const REQUEST: &[u8; 16] = b"what is it now?\n";
/// A hang must not hang the bench.
const PATIENCE: Duration = Duration::from_secs(120);

const ECHO: &str = "
import socket, threading
door = socket.create_server(('', 9000))
def serve(visitor):
    visitor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while text := visitor.recv(65536):
        visitor.sendall(text)
while True:
    threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()
";

/// A partition that is up until this is dropped.
struct Plant<'a> {
    exe: &'a Path,
    folder: tempfile::TempDir,
    port: u16,
}

impl<'a> Plant<'a> {
    fn start(exe: &'a Path) -> Result<Self> {
        let (folder, port) =
            (tempfile::tempdir()?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port());
        let echo = folder.path().join("echo.py");
        std::fs::write(&echo, ECHO)?;
        let echo = echo.to_str().context("a folder's name")?;
        let set = format!(
            "accelerator = \"tcg\"\n[partition.echo]\nprogram = [\"/usr/bin/python3\", \"{echo}\"]\nro = [\"{echo}\"]\nports = [\"{port}:9000\"]\n\
             ready = {{ tcp = 9000 }}\n"
        );
        std::fs::write(folder.path().join("plant.toml"), set)?;
        let plant = Self { exe, folder, port };
        plant.call(&["up", "plant.toml"])?;
        Ok(plant)
    }

    fn call(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(self.exe);
        command
            .args(words)
            .current_dir(self.folder.path())
            .env("BULKHEAD_STATE", self.folder.path().join("state"));
        let output = command.stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn round(&self, mib: u64) -> Result<Round> {
        let mut stream = self.connect()?;
        let mut answer = [0; REQUEST.len()];
        let begun = Instant::now();
        for _ in 0..REQUESTS {
            stream.write_all(REQUEST)?;
            stream.read_exact(&mut answer)?;
        }
        let request_ms = begun.elapsed().as_secs_f64() * 1e3 / REQUESTS as f64;
        let begun = Instant::now();
        let mut reads = stream.try_clone()?;
        std::thread::scope(|scope| -> Result<()> {
            let sends = scope.spawn(|| (0..AT_ONCE).try_for_each(|_| stream.write_all(REQUEST)));
            reads.read_exact(&mut vec![0; AT_ONCE * REQUEST.len()])?;
            sends.join().ok().context("the sender panicked")??;
            Ok(())
        })?;
        let at_once_per_s = AT_ONCE as f64 / begun.elapsed().as_secs_f64();
        let bytes = self.connect()?;
        let mib_per_s = throughput(bytes.try_clone()?, bytes, mib)?;
        Ok(Round { request_ms, at_once_per_s, mib_per_s })
    }
}

impl Drop for Plant<'_> {
    fn drop(&mut self) {
        let _ = self.call(&["down", "plant"]);
    }
}

struct Round {
    request_ms: f64,
    at_once_per_s: f64,
    mib_per_s: f64,
}

pub fn compare(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let against =
        fixture.word("--against").context("ports are held --against another version of the program")?;
    let against = PathBuf::from(against).canonicalize().context(against.to_owned())?;
    let mib = fixture.number("--mib", 16);
    let (new, old) = (Plant::start(fixture.exe)?, Plant::start(&against)?);
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for round in 0..fixture.number("--rounds", ROUNDS) {
        let is_first = round % 2 == 0;
        let (first, second) = if is_first { (&new, &old) } else { (&old, &new) };
        let (one, other) = (first.round(mib)?, second.round(mib)?);
        let (ours, theirs) = if is_first { (one, other) } else { (other, one) };
        say(&format!(
            "round {round}: a request {:.2} ms against {:.2}, {:.0} a second against {:.0} when sent at once, {mib} MiB there and back \
             {:.2} MiB/s against {:.2}",
            ours.request_ms,
            theirs.request_ms,
            ours.at_once_per_s,
            theirs.at_once_per_s,
            ours.mib_per_s,
            theirs.mib_per_s
        ));
        ratios[0].push(ours.request_ms / theirs.request_ms);
        ratios[1].push(ours.at_once_per_s / theirs.at_once_per_s);
        ratios[2].push(ours.mib_per_s / theirs.mib_per_s);
    }
    let [request, at_once, bytes] = &ratios;
    judge.rounds("time of a request over a port / the other version's", request, Mark::AtMost(1.05));
    judge.rounds(
        "requests a second over a port, sent at once / the other version's",
        at_once,
        Mark::AtLeast(0.95),
    );
    judge.rounds("bytes there and back over a port / the other version's", bytes, Mark::AtLeast(0.95));
    Ok(())
}
