//! What is behind a wall, as words of a command line: whoever starts a process writes them, the wall reads them. Paths are
//! bytes there, whatever their encoding.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::Reason;

/// What a process may do with something that it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Read and execute what everybody may: its own program and libraries.
    Execute,
    /// Read what everybody may read.
    Public,
    /// Read as the caller, without root's power over what others own.
    Read,
    /// Read and write as the caller, without root's power over what others own. What is made there is the caller's.
    Write,
}

impl Rights {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Execute, "--execute"),
        (Self::Public, "--public"),
        (Self::Read, "--read"),
        (Self::Write, "--write"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(rights, _)| *rights == self).map_or("", |(_, word)| word)
    }

    fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(rights, _)| *rights)
    }
}

/// Something of the host that is seen behind the wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// On the host: a file, or a folder with the file systems mounted below it (not those that the kernel makes up).
    pub from: PathBuf,
    /// Behind the wall, absolute.
    pub at: PathBuf,
    /// What may be done with it.
    pub rights: Rights,
}

/// Which network is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// One of its own, with nothing in it.
    #[default]
    Own,
    /// The host's.
    Host,
}

/// Which sizes files may be given. Others have some of them mapped, whom a shorter one would end (mmap(2), SIGBUS): so none is
/// cut, and none grows beyond a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeLimits {
    /// No file grows beyond so many bytes.
    pub longest: u64,
    /// Sizes in bytes of the files that its own memory is made of: the only ones that can be set.
    pub own: Vec<u64>,
}

/// What a process behind a wall is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    /// What it sees, in the order in which it is put there.
    pub shown: Vec<Shown>,
    /// Symbolic links: what they say, and where.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Empty folders.
    pub folders: Vec<PathBuf>,
    /// Devices of the host that it may use, as the caller may; those that are not there are left out.
    pub devices: Vec<PathBuf>,
    /// Descriptors that it has besides the standard streams, under the numbers they have here.
    pub descriptors: Vec<i32>,
    /// Its network.
    pub network: Network,
    /// Whether it may make sockets by itself that reach others on this host (unix(7)).
    pub local_sockets: bool,
    /// Whether it may have the kernel report who opens and changes files that it sees (fanotify(7)).
    pub watches_files: bool,
    /// Which sizes it may give to files; any if not set.
    pub size_limits: Option<SizeLimits>,
    /// Where owners cannot be mapped, it stays the caller: for our own programs that see nothing but what they write to.
    pub or_as_caller: bool,
    /// Program, as seen there, and its arguments.
    pub words: Vec<OsString>,
}

impl Order {
    /// Shows `from` at `at`.
    pub fn show(&mut self, from: &Path, at: impl Into<PathBuf>, rights: Rights) {
        self.shown.push(Shown { from: from.to_owned(), at: at.into(), rights });
    }

    /// The words after the verb, for a process that is to end with process `parent`.
    pub fn words(&self, parent: u32) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--parent".into(), parent.to_string().into()];
        for Shown { from, at, rights } in &self.shown {
            words.extend([rights.word().into(), from.into(), at.into()]);
        }
        for (target, at) in &self.links {
            words.extend(["--link".into(), target.into(), at.into()]);
        }
        for folder in &self.folders {
            words.extend(["--folder".into(), folder.into()]);
        }
        for device in &self.devices {
            words.extend(["--device".into(), device.into()]);
        }
        for descriptor in &self.descriptors {
            words.extend(["--descriptor".into(), descriptor.to_string().into()]);
        }
        if let Some(sizes) = &self.size_limits {
            words.extend(["--longest-file".into(), sizes.longest.to_string().into()]);
            for size in &sizes.own {
                words.extend(["--own-size".into(), size.to_string().into()]);
            }
        }
        if self.local_sockets {
            words.push("--local-sockets".into());
        }
        if self.watches_files {
            words.push("--watches-files".into());
        }
        if self.network == Network::Host {
            words.push("--host-network".into());
        }
        if self.or_as_caller {
            words.push("--or-as-caller".into());
        }
        words.push("--".into());
        words.extend(self.words.iter().cloned());
        words
    }

    /// Reads the words after the verb; also whose end is its own.
    ///
    /// # Errors
    /// A word that is not known, or one that is missing.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<(Self, i32), Reason> {
        let mut order = Self::default();
        let mut parent = None;
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("wanted a value after {}", word.display()));
            match word.to_str() {
                Some("--parent") => parent = Some(number(&value()?)?),
                Some("--link") => order.links.push((value()?.into(), absolute(value()?)?)),
                Some("--folder") => order.folders.push(absolute(value()?)?),
                Some("--device") => order.devices.push(absolute(value()?)?),
                Some("--descriptor") => order.descriptors.push(number(&value()?)?),
                Some("--longest-file") => {
                    order.size_limits = Some(SizeLimits { longest: number(&value()?)?, own: Vec::new() });
                }
                Some("--own-size") => {
                    let sizes =
                        order.size_limits.as_mut().ok_or("wanted --longest-file before --own-size")?;
                    sizes.own.push(number(&value()?)?);
                }
                Some("--local-sockets") => order.local_sockets = true,
                Some("--watches-files") => order.watches_files = true,
                Some("--host-network") => order.network = Network::Host,
                Some("--or-as-caller") => order.or_as_caller = true,
                Some("--") => {
                    order.words = words.collect();
                    break;
                }
                other => {
                    let rights = other.and_then(Rights::of);
                    let rights = rights.ok_or_else(|| format!("unknown word {}", word.display()))?;
                    order.shown.push(Shown { from: absolute(value()?)?, at: absolute(value()?)?, rights });
                }
            }
        }
        let parent = parent.ok_or("wanted --parent")?;
        if order.words.is_empty() { Err("wanted a program after --".into()) } else { Ok((order, parent)) }
    }
}

fn number<T: FromStr>(word: &OsStr) -> Result<T, Reason> {
    let number = word.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("a number was wanted, got {}", word.display()).into())
}

fn absolute(word: OsString) -> Result<PathBuf, Reason> {
    use std::path::Component;
    let path = PathBuf::from(word);
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    if plain { Ok(path) } else { Err(format!("an absolute path was wanted, got {}", path.display()).into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let odd = PathBuf::from(OsString::from_vec(b"/a b/\xff".to_vec()));
        let mut order = Order {
            links: vec![("usr/bin".into(), "/bin".into())],
            folders: vec!["/tmp".into()],
            devices: vec!["/dev/kvm".into()],
            network: Network::Host,
            or_as_caller: true,
            descriptors: vec![5, 9],
            local_sockets: true,
            watches_files: true,
            size_limits: Some(SizeLimits { longest: 1 << 40, own: vec![4096, 8192] }),
            words: vec!["/usr/bin/qemu".into(), "--".into(), "--read".into()],
            ..Order::default()
        };
        for (rights, _) in Rights::ALL {
            order.show(&odd, "/files/0", rights);
        }
        assert_eq!(Order::parse(order.words(17)), Ok((order, 17)));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let said = |words: &[&str]| Order::parse(words.iter().map(OsString::from)).unwrap_err();
        assert!(said(&["--parent", "1"]).to_string().contains("a program"));
        assert!(said(&["--", "/x"]).to_string().contains("--parent"));
        assert!(said(&["--parent", "x", "--", "/x"]).to_string().contains("a number was wanted"));
        assert!(said(&["--own-size", "1"]).to_string().contains("--longest-file before"));
        assert!(said(&["--read", "/a"]).to_string().contains("a value after --read"));
        assert!(said(&["--read", "a", "/b"]).to_string().contains("absolute"));
        assert!(said(&["--read", "/a/../b", "/b"]).to_string().contains("absolute"));
        assert!(said(&["--reed", "/a", "/b"]).to_string().contains("unknown word --reed"));
    }
}
