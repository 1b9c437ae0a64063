//! A switch process for tests, and stations that stand in for QEMU: they listen where it would.

#![allow(dead_code, reason = "each test needs its part")]

pub mod doubled;
pub mod guest;
pub mod prober;

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::network::SwitchState;
use bulkhead::partition::network::switch::{Decoder, SwitchOrder, socket_name};

/// Only so that a broken switch fails its test instead of holding it up for ever.
pub const HANGS: Duration = Duration::from_secs(60);

/// A folder as a link has it.
pub fn folder(parent: &Path, name: &str) -> PathBuf {
    let folder = parent.join(name);
    std::fs::create_dir(&folder).expect("the test's own");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("the test's own");
    folder
}

/// A switch that runs; killed when dropped.
pub struct Running(pub Child, pub PathBuf);

impl Running {
    /// Starts one and waits until it is ready.
    pub fn start(order: &SwitchOrder) -> Self {
        let state = order.state.clone().unwrap_or_else(|| order.folder.join("state.json"));
        let order = SwitchOrder { state: Some(state.clone()), ..order.clone() };
        let _ = std::fs::remove_file(&state);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        let child = command.args(order.words()).stdin(Stdio::null()).spawn().expect("the test's own");
        let running = Self(child, state);
        until("the switch is ready", || running.1.exists().then_some(()));
        running
    }

    /// What it last wrote of itself.
    pub fn state(&self) -> SwitchState {
        serde_json::from_slice(&std::fs::read(&self.1).expect("the test's own")).expect("the test's own")
    }

    /// Ends it as `down` does, and says whether it ended well.
    pub fn terminate(mut self) -> bool {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).expect("the test's own"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("the test's own");
        self.0.wait().expect("the test's own").success() && !self.1.exists()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks again and again; panics when it never comes.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANGS, "{what}: not within {HANGS:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A station at a plug.
pub struct Station {
    door: UnixListener,
    wire: Option<UnixStream>,
    decoder: Decoder,
}

impl Station {
    /// Listens; the switch may come later.
    pub fn at(folder: &Path, number: u8) -> Self {
        let path = folder.join(socket_name(number));
        let _ = std::fs::remove_file(&path);
        Self {
            door: UnixListener::bind(path).expect("the test's own"),
            wire: None,
            decoder: Decoder::default(),
        }
    }

    /// Waits for the switch.
    pub fn connected(mut self) -> Self {
        self.door.set_nonblocking(true).expect("the test's own");
        let (wire, _) = until("the switch dials", || self.door.accept().ok());
        wire.set_nonblocking(false).expect("the test's own");
        wire.set_read_timeout(Some(HANGS)).expect("the test's own");
        wire.set_write_timeout(Some(HANGS)).expect("the test's own");
        self.wire = Some(wire);
        self.decoder = Decoder::default();
        self
    }

    fn wire(&mut self) -> &mut UnixStream {
        self.wire.as_mut().expect("connected")
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire().write_all(bytes)
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).expect("the test's own").to_be_bytes();
        self.raw(&[&length, frame].concat()).expect("the test's own");
    }

    /// The next frame that comes until then, if one does.
    pub fn receive_until(&mut self, end: Instant) -> Option<Vec<u8>> {
        let mut chunk = vec![0; 65_536];
        loop {
            if let Some(frame) = self.decoder.frame().expect("the test's own") {
                return Some(frame.to_vec());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.wire().set_read_timeout(Some(left)).expect("the test's own");
            match self.wire().read(&mut chunk) {
                Ok(0) => panic!("the prober's own switch hung up"),
                Ok(read) => self.decoder.feed(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("the prober's own switch: {error}"),
            }
        }
    }

    /// The next frame; none when the switch hung up.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let mut chunk = vec![0; 65_536];
        loop {
            if let Some(frame) = self.decoder.frame().expect("the test's own") {
                return Some(frame.to_vec());
            }
            match self.wire().read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.decoder.feed(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }
}

/// A frame; `to` 0 is everybody.
pub fn frame(to: u8, from: u8, text: &str) -> Vec<u8> {
    let to = if to == 0 { [0xff; 6] } else { address(to) };
    [&to[..], &address(from), &[0x88, 0xb5], text.as_bytes()].concat()
}

/// Hardware address of a station.
pub fn address(number: u8) -> [u8; 6] {
    [2, 0x4b, 10, 77, 1, number]
}

/// What a frame carries.
pub fn text(frame: &[u8]) -> String {
    String::from_utf8_lossy(&frame[14..]).into_owned()
}
