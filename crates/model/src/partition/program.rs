//! A program that is to run in a partition: its words, its surroundings, what of the host's files it sees.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::layer::LayerSpec;
use super::volume::Volume;

/// Bytes as the user typed them: words of a command line need not be text.
pub type Word = Vec<u8>;

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Program {
    /// Its words, the program first: looked for in `PATH` of its environment when it holds no slash.
    pub argv: Vec<Word>,
    /// Its whole environment, names and values.
    pub env: Vec<(Word, Word)>,
    /// Folder it starts in, an absolute path inside the partition.
    pub workdir: PathBuf,
    /// Who runs it.
    pub user: UserIds,
    /// The file tree it sees.
    pub files: Files,
    /// Digest of the manifest of the container's image that this tree is the root of.
    pub image: Option<String>,
    /// Where what it changes of this tree is kept; else it is thrown away.
    pub layer: Option<LayerSpec>,
    /// Folders and files of the host that it sees besides the system's own, read-only, under their own paths. Only with
    /// [`Files::System`].
    #[serde(default)]
    pub readable: Vec<PathBuf>,
    /// Folders of the host that it may write to; each appears under its own path.
    pub writable: Vec<PathBuf>,
    /// Folders and files of the host that appear, read-only, elsewhere.
    pub binds: Vec<Bind>,
    /// Folders by name that it may write to, and that last.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// The terminal it gets, if it gets one.
    pub terminal: Option<TerminalSize>,
    /// Name of the machine that it sees; unset means that of the partition.
    pub hostname: Option<String>,
    /// What it has from who starts it; the rest is as usual in a guest.
    pub inherited: Inherited,
    /// Files that it alone can read.
    pub secrets: Vec<SecretSpec>,
}

/// What a process has from the one that starts it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inherited {
    /// Its limits, each once.
    pub limits: Vec<Limit>,
    /// Rights that files do not have which it makes: bits of a mode (umask(2)).
    pub umask: Option<u32>,
}

/// A limit of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Which, by the kernel's name: `nofile`.
    pub name: String,
    /// What holds.
    pub soft: u64,
    /// To which the program may raise it.
    pub hard: u64,
}

/// A secret: the program finds what is in a file of the host in one of its own, which its user alone can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// Name of the program's file.
    pub name: String,
    /// The host's, read when the partition is made.
    pub from: PathBuf,
}

/// Numbers of a user and its groups; the user's own are looked up on the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserIds {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// The file tree a program sees. It can change nothing of it: changes go to a layer, a throw-away one in the guest's memory or a saved one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// The system's programs and libraries, its `/etc` as everybody may read it, and what was named.
    #[default]
    System,
    /// All of the host's own, but what the kernel makes up.
    All,
    /// A folder of the host as its root.
    Tree(PathBuf),
    /// Nothing but the program itself.
    None,
}

/// A path of the host that appears under another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host, absolute.
    pub from: PathBuf,
    /// In the partition, absolute.
    pub to: PathBuf,
}

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}
