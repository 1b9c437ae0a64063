//! A guest's kernel in small: it asks the server as that does, over a folder of this host.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part; what fails here fails the test"
)]

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::{JoinHandle, spawn};

use files::{Answer, Files, Fullness, Tree};

pub const LOOKUP: u32 = 1;
pub const GETATTR: u32 = 3;
pub const SETATTR: u32 = 4;
pub const READLINK: u32 = 5;
pub const MKNOD: u32 = 8;
pub const MKDIR: u32 = 9;
pub const UNLINK: u32 = 10;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const STATFS: u32 = 17;
pub const RELEASE: u32 = 18;
pub const SETXATTR: u32 = 21;
pub const GETXATTR: u32 = 22;
pub const LISTXATTR: u32 = 23;
pub const FLUSH: u32 = 25;
pub const INIT: u32 = 26;
pub const DESTROY: u32 = 38;
pub const OPENDIR: u32 = 27;
pub const RELEASEDIR: u32 = 29;
pub const GETLK: u32 = 31;
pub const SETLK: u32 = 32;
pub const SETLKW: u32 = 33;
pub const CREATE: u32 = 35;
pub const FALLOCATE: u32 = 43;
pub const READDIRPLUS: u32 = 44;
pub const RENAME2: u32 = 45;
pub const COPY_FILE_RANGE: u32 = 47;

pub const KEEP_CACHE: u32 = 2;

/// A guest's kernel in small.
pub struct Guest {
    pub files: Files,
    pub user: u32,
    pub group: u32,
    /// Which of its threads asks.
    pub thread: u32,
    pub folder: tempfile::TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub size: u64,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

pub fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Attributes that begin there.
pub fn attributes(bytes: &[u8], at: usize) -> Attributes {
    Attributes {
        size: long(bytes, at + 8),
        mode: number(bytes, at + 60),
        user: number(bytes, at + 68),
        group: number(bytes, at + 72),
    }
}

pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn named(front: Vec<u8>, name: &str) -> Vec<u8> {
    [front, name.as_bytes().to_vec(), vec![0]].concat()
}

fn read_answer(answer: &[u8]) -> Result<Vec<u8>, i32> {
    assert_eq!((number(answer, 0) as usize, long(answer, 8)), (answer.len(), 77));
    match number(answer, 4).cast_signed() {
        0 => Ok(answer[16..].to_vec()),
        error => Err(-error),
    }
}

impl Guest {
    /// Tree 0 may be written to, tree 1 not.
    pub fn new() -> Self {
        // On a disk: memory may keep no attributes of users.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for tree in ["0", "1"] {
            fs::create_dir(folder.path().join(tree)).unwrap();
        }
        let top = OwnedFd::from(File::open(folder.path()).unwrap());
        let trees = vec![Tree { is_writable: true }, Tree { is_writable: false }];
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut guest = Self { files: Files::new(top, trees), user, group, thread: 1, folder };
        guest.ask(INIT, 0, &words(&[7, 36, 131_072, u32::MAX])).unwrap();
        guest
    }

    pub fn full_when(&mut self, fullness: Fullness) {
        let nothing = OwnedFd::from(File::open("/").unwrap());
        let files = std::mem::replace(&mut self.files, Files::new(nothing, Vec::new()));
        self.files = files.full_when(fullness);
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn request(&self, opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(40 + body.len()).unwrap();
        let head =
            [words(&[length, opcode]), longs(&[77, node]), words(&[self.user, self.group, self.thread, 0])];
        [head.concat(), body.to_vec()].concat()
    }

    /// What is answered, or the number of the error.
    pub fn ask(&mut self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let request = self.request(opcode, node, body);
        let answer = match self.files.handle(&request, 1 << 20) {
            Answer::None => panic!("no answer"),
            Answer::Now(answer) => answer,
            Answer::Later(job) => job(),
        };
        read_answer(&answer)
    }

    /// The same of a request that waits, on a thread of its own.
    pub fn ask_later(&mut self, opcode: u32, node: u64, body: &[u8]) -> JoinHandle<Result<Vec<u8>, i32>> {
        let request = self.request(opcode, node, body);
        let Answer::Later(job) = self.files.handle(&request, 1 << 20) else {
            panic!("it is answered at once")
        };
        spawn(move || read_answer(&job()))
    }

    pub fn lookup(&mut self, node: u64, name: &str) -> Result<(u64, Attributes), i32> {
        let entry = self.ask(LOOKUP, node, &named(Vec::new(), name))?;
        Ok((long(&entry, 0), attributes(&entry, 40)))
    }

    /// The node of a path, each step looked up.
    pub fn walk(&mut self, path: &str) -> u64 {
        path.split('/').fold(1, |node, name| self.lookup(node, name).unwrap().0)
    }

    pub fn create(&mut self, parent: u64, name: &str, flags: i32, mode: u32) -> Result<(u64, u64), i32> {
        let body = words(&[flags.cast_unsigned() | 0o100, mode, 0, 0]);
        let answer = self.ask(CREATE, parent, &named(body, name))?;
        Ok((long(&answer, 0), long(&answer, 128)))
    }

    /// Handle, and what OPEN said.
    pub fn open(&mut self, node: u64, flags: i32) -> Result<(u64, u32), i32> {
        let opened = self.ask(OPEN, node, &words(&[flags.cast_unsigned(), 0]))?;
        Ok((long(&opened, 0), number(&opened, 8)))
    }

    pub fn read(&mut self, node: u64, handle: u64) -> Vec<u8> {
        let body = [longs(&[handle, 0]), words(&[65_536, 0]), longs(&[0]), words(&[0, 0])].concat();
        self.ask(READ, node, &body).unwrap()
    }

    pub fn write(&mut self, node: u64, handle: u64, at: u64, data: &[u8], how: u32) -> Result<(), i32> {
        let size = u32::try_from(data.len()).unwrap();
        let front = [longs(&[handle, at]), words(&[size, how]), longs(&[0]), words(&[0, 0])].concat();
        self.ask(WRITE, node, &[front, data.to_vec()].concat()).map(drop)
    }

    pub fn set(&mut self, node: u64, valid: u32, mode: u32, owner: (u32, u32)) -> Result<Attributes, i32> {
        let body =
            [words(&[valid, 0]), longs(&[0, 0, 0, 0, 0, 0]), words(&[0, 0, 0, mode, 0, owner.0, owner.1, 0])];
        self.ask(SETATTR, node, &body.concat()).map(|answer| attributes(&answer, 16))
    }

    pub fn get(&mut self, node: u64) -> Result<Attributes, i32> {
        self.ask(GETATTR, node, &[0; 16]).map(|answer| attributes(&answer, 16))
    }

    pub fn lock(&mut self, node: u64, handle: u64, owner: u64, kind: u32, flags: u32) -> Result<(), i32> {
        let body =
            [longs(&[handle, owner, 0, i64::MAX.cast_unsigned()]), words(&[kind, 5, flags, 0])].concat();
        self.ask(SETLK, node, &body).map(drop)
    }
}

pub const STALE: i32 = 116;
