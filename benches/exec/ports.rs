//! Small requests and many bytes over a partition's port, by two versions of the program, side by side: each has a partition of its own that
//! runs an echo, and they take turns.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::Fixture;
use crate::own_sets::OwnSets;
use crate::streams::throughput;
use crate::verdict::{Judge, Mark, say};

const ROUNDS: u64 = 12;
/// Requests of a round, one after the other.
const REQUESTS: usize = 200;
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
struct Plant {
    sets: OwnSets,
    port: u16,
}

impl Plant {
    fn start(program: &Path) -> Result<Self> {
        let sets = OwnSets::of(program)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let echo = sets.path("echo.py");
        std::fs::write(&echo, ECHO)?;
        let echo = echo.to_str().context("a folder's name")?;
        let set = format!(
            "accelerator = \"tcg\"\n[partition.echo]\nprogram = [\"/usr/bin/python3\", \"{echo}\"]\nro = [\"{echo}\"]\nports = [\"{port}:9000\"]\n\
             ready = {{ tcp = 9000 }}\n"
        );
        std::fs::write(sets.path("plant.toml"), set)?;
        let plant = Self { sets, port };
        plant.sets.call(&["up", "plant.toml"], &[0])?;
        Ok(plant)
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
        let bytes = self.connect()?;
        let mib_per_s = throughput(bytes.try_clone()?, bytes, mib)?;
        Ok(Round { request_ms, mib_per_s })
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        let _ = self.sets.call(&["down", "plant"], &[0]);
    }
}

struct Round {
    request_ms: f64,
    mib_per_s: f64,
}

pub fn compare(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let against =
        fixture.word("--against").context("ports are held --against another version of the program")?;
    let against = PathBuf::from(against).canonicalize().context(against.to_owned())?;
    let mib = fixture.number("--mib", 16);
    let (new, old) = (Plant::start(fixture.exe)?, Plant::start(&against)?);
    let (mut requests, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..fixture.number("--rounds", ROUNDS) {
        let is_first = round % 2 == 0;
        let (first, second) = if is_first { (&new, &old) } else { (&old, &new) };
        let (one, other) = (first.round(mib)?, second.round(mib)?);
        let (ours, theirs) = if is_first { (one, other) } else { (other, one) };
        say(&format!(
            "round {round}: a request {:.2} ms against {:.2}, {mib} MiB there and back {:.2} MiB/s against {:.2}",
            ours.request_ms, theirs.request_ms, ours.mib_per_s, theirs.mib_per_s
        ));
        requests.push(ours.request_ms / theirs.request_ms);
        bytes.push(ours.mib_per_s / theirs.mib_per_s);
    }
    judge.rounds("time of a request over a port / the other version's", &requests, Mark::AtMost(1.05));
    judge.rounds("bytes there and back over a port / the other version's", &bytes, Mark::AtLeast(0.95));
    Ok(())
}
