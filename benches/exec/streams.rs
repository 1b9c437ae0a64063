//! Bytes through a program's standard streams against bytes through a bare virtio port of the same kind of guest.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bulkhead::platforms::vm::qemu::{Engine, HostCounter, MACHINE, TRANSLATED_CPU, command_line};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::boot::MEMORY_MIB;
use crate::verdict::{Judge, Mark};
use crate::{Fixture, guest, say};

const MARK: f64 = 0.5;
/// As few as an interval can be made of: a gibibyte through a translated guest takes its time.
const ROUNDS: u64 = 5;
const CHUNK: usize = 1 << 20;

pub fn compare(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let mib = fixture.number("--mib", 1024);
    let mut ratios = Vec::new();
    for round in 0..fixture.number("--rounds", ROUNDS) {
        let bare = bare(fixture, mib)?;
        let ours = ours(fixture, mib)?;
        say(&format!(
            "round {round}: {mib} MiB, bare port {bare:.1} MiB/s, exec -- cat {ours:.1} MiB/s, checksums agree"
        ));
        ratios.push(ours / bare);
    }
    judge.rounds("standard streams / bare port", &ratios, Mark::AtLeast(MARK));
    Ok(())
}

/// Sends so many bytes in while reading them back; MiB per second. A first byte goes round before the clock starts.
pub fn throughput(mut to: impl Write + Send, mut from: impl Read, mib: u64) -> Result<f64> {
    to.write_all(b"x")?;
    from.read_exact(&mut [0])?;
    let begun = Instant::now();
    let (sent, got) = std::thread::scope(|scope| -> Result<(u32, u32)> {
        let sender = scope.spawn(move || -> Result<u32> {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut sum = crc32fast::Hasher::new();
            let mut chunk: Vec<u8> = (0..CHUNK).map(|_| random.random()).collect();
            for number in 0..mib {
                chunk[..8].copy_from_slice(&number.to_le_bytes());
                sum.update(&chunk);
                to.write_all(&chunk)?;
            }
            Ok(sum.finalize())
        });
        let mut sum = crc32fast::Hasher::new();
        let mut chunk = vec![0; CHUNK];
        for _ in 0..mib {
            from.read_exact(&mut chunk)?;
            sum.update(&chunk);
        }
        Ok((sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??, sum.finalize()))
    })?;
    ensure!(sent == got, "checksum {sent:08x} went in, {got:08x} came out");
    Ok(mib as f64 / begun.elapsed().as_secs_f64())
}

fn ours(fixture: &Fixture, mib: u64) -> Result<f64> {
    let memory = format!("{MEMORY_MIB}MiB");
    let mut child = Command::new(fixture.exe)
        .args(["exec", "--accel", "tcg", "--memory", &memory, "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (to, from) = (child.stdin.take().context("a pipe")?, child.stdout.take().context("a pipe")?);
    let rate = throughput(to, from, mib);
    let status = child.wait()?;
    ensure!(status.success(), "exec -- cat ended with {status}");
    rate
}

fn bare(fixture: &Fixture, mib: u64) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("port");
    let listener = UnixListener::bind(&path)?;
    let initrd = guest::first_files(fixture, "echo")?;
    let mut child = Command::new(&fixture.tools.qemu)
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", MACHINE])
        .args(["-accel", "tcg,thread=multi", "-cpu", TRANSLATED_CPU, "-m", &format!("{MEMORY_MIB}M")])
        .arg("-kernel")
        .arg(&fixture.tools.bootable.path)
        .args(["-initrd", &format!("/proc/{}/fd/{}", std::process::id(), initrd.as_raw_fd())])
        .args(["-append", &command_line(Engine::Tcg, fixture.tools.modules.device, HostCounter::default())])
        .args(["-chardev", &format!("socket,id=echo,path={}", path.display())])
        .args(["-device", "virtio-serial-pci,id=ports,disable-legacy=on"])
        .args(["-device", &format!("virtserialport,bus=ports.0,chardev=echo,name={}", guest::PORT)])
        // Modules of file trees want a device to find.
        .stdin(Stdio::null())
        .spawn()?;
    let (socket, _) = listener.accept()?;
    let rate = throughput(socket.try_clone()?, socket, mib);
    child.kill()?;
    child.wait()?;
    rate
}
