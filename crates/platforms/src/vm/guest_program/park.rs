//! PID 1 of a guest that is saved before it is told what it is: waits, and after that has nothing in common with the
//! other guests that are made from the same saved machine but what it had loaded.
//!
//! ```text
//!  modules, ports ─► Parked … saved … made from what was saved, once or many times
//!                                └─► Wake ─► time ─► random numbers ─► late devices ─► Awake ─► as any other guest
//! ```
//! Nobody may ask for a random number before that: the kernel makes its `boot_id` when it is first read.
//! Sources: `random(4)`; `drivers/char/random.c` of Linux (a reseeding makes every CPU take a new key, and forget the numbers that it
//! had in stock); `Documentation/ABI/testing/sysfs-bus-pci` (`rescan`).

#![expect(unsafe_code, reason = "the kernel's random numbers are seeded by ioctl")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::libc::c_int;

use super::super::guest::{GuestConfig, LATE_PLACE, LONGEST_WAKE, SEED_BYTES, Wake};
use super::super::pid1::in_context;
use super::clock;
use crate::link::{Decoder, decode, encode};
use model::partition::{FromGuest, LONGEST_MESSAGE};
use units::Reason;

/// How long a port that nobody holds at the other end is left alone.
const UNCONNECTED_PAUSE: Duration = Duration::from_millis(5);
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// What `RNDADDENTROPY` takes: how many bits to count, how many bytes follow, both as `int`; the bytes.
type Entropy = [u8; 2 * size_of::<c_int>() + SEED_BYTES];

nix::ioctl_write_ptr_bad!(
    add_entropy,
    nix::request_code_write!(b'R', 0x03, size_of::<[c_int; 2]>()),
    Entropy
);
nix::ioctl_none_bad!(reseed, nix::request_code_none!(b'R', 0x07));

/// Says that it waits, waits, renews what must not be shared, and says so; what it is.
pub fn wait(link: &OwnedFd) -> Result<GuestConfig, Reason> {
    let mut link = File::from(link.try_clone().map_err(in_context("the link"))?);
    tell(&mut link, &FromGuest::Parked)?;
    let wake = hear(&mut link)?;
    // About right at once; exact as soon as the host's files can be reached.
    clock::set_to(Duration::from_nanos(wake.unix_time_ns))?;
    seed(&wake.seed.0)?;
    find_late_devices();
    tell(&mut link, &FromGuest::Awake)?;
    Ok(wake.config)
}

fn tell(link: &mut File, message: &FromGuest) -> Result<(), Reason> {
    let frame = encode(message, LONGEST_MESSAGE).map_err(in_context("the link"))?;
    link.write_all(&frame).map_err(in_context("the link"))
}

/// There is no deadline: the machine stands still meanwhile, or its host ends it.
fn hear(link: &mut File) -> Result<Wake, Reason> {
    let mut decoder = Decoder::new(LONGEST_WAKE);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match link.read(&mut chunk).map_err(in_context("the link"))? {
            0 => std::thread::sleep(UNCONNECTED_PAUSE),
            count => decoder.push(chunk.get(..count).unwrap_or_default()),
        }
        if let Some(frame) = decoder.next_frame().map_err(in_context("the link"))? {
            return decode(&frame).map_err(in_context("the link"));
        }
    }
}

fn seed(bytes: &[u8]) -> Result<(), Reason> {
    let failed = || in_context::<nix::Error>("new random numbers");
    let device = File::options().write(true).open("/dev/urandom").map_err(in_context("/dev/urandom"))?;
    let length = c_int::try_from(SEED_BYTES).unwrap_or_default();
    let entropy = [&(length * 8).to_ne_bytes()[..], &length.to_ne_bytes(), bytes].concat();
    let entropy: Entropy = entropy
        .try_into()
        .map_err(|_| format!("a seed of {SEED_BYTES} bytes was wanted, got {}", bytes.len()))?;
    // SAFETY: the bytes are laid out as the kernel wants them, as many as they say, and live until the call returns.
    unsafe { add_entropy(device.as_raw_fd(), &raw const entropy) }.map_err(failed())?;
    // SAFETY: it takes no argument.
    unsafe { reseed(device.as_raw_fd()) }.map(drop).map_err(failed())
}

/// Has the kernel look behind the port of the late devices now: it would by itself, a while after it was told of them. Who needs one
/// of them says what is missing.
fn find_late_devices() {
    let port = format!("/sys/bus/pci/devices/0000:00:{LATE_PLACE:02x}.0/pci_bus");
    for bus in fs::read_dir(port).into_iter().flatten().flatten() {
        let _ = fs::write(Path::new(&bus.path()).join("rescan"), "1");
    }
}
