//! Writes the partitions of a set for other managers: files that run without us. Pure: from a set to texts.
//!
//! ```text
//!  set ─► unit specs ─► Emission ─┬─ libvirt:  domains and networks, XML
//!                                 ├─ qemu:     a script for each partition
//!                                 └─ systemd:  a service for each partition, a target for all
//!                 what cannot be said there: remarks, in the files as comments and on stderr
//! ```
//! A program's partition boots the kernel and first file system that lie beside these files. Nobody is at the other end
//! of its link there, so the program starts by itself: its output goes to `out` and `err` in the folder
//! `NAME.output`, how it ended to `end`, its guest's console to `console`; its input is empty. Nothing else there is written to.

pub mod boot;
mod libvirt;
mod qemu;
mod quote;
mod systemd;
#[cfg(test)]
mod tests;
mod words;
mod xml;

pub use quote::shell;

use std::path::{Path, PathBuf};

use crate::run;
use model::partition::set::Restart;
use model::partition::{CardSpec, Content, PartitionSpec, SectionSpec};
use platforms::lab::address::Mac;
use platforms::vm::qemu::{Engine, SectionArgument, ShareArgument, SharedTree};
use units::Reason;

/// Name of the kernel's file, for all programs of a set.
pub const KERNEL_FILE: &str = "kernel";

/// For whom is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// Domain and network XML.
    Libvirt,
    /// Command lines.
    Qemu,
    /// Units.
    Systemd,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    /// Name of the set.
    pub set: String,
    /// Networks with their number of links.
    pub networks: Vec<(String, u8)>,
    /// In the order in which they are started.
    pub partitions: Vec<Prepared>,
    /// QEMU.
    pub qemu: PathBuf,
    /// What runs the CPUs.
    pub engine: Engine,
    /// Where the files will be; absolute.
    pub folder: PathBuf,
    /// Whose the files are, when they are not root's: as whom QEMU is to run.
    pub user: Option<u32>,
}

/// A partition of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// What it is.
    pub spec: PartitionSpec,
    /// File trees its program sees, as the first file system expects them.
    pub shares: Vec<ShareArgument>,
    /// What happens at its end.
    pub restart: Restart,
    /// Whom it waits for.
    pub after: Vec<String>,
    /// Whether it is looked at with us: when it is ready, and whether it is well.
    pub is_watched: bool,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its name in the folder.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// Whether it is a program.
    pub executable: bool,
    /// Whether its reader is another user, who is told nothing there: units are read by the service manager.
    pub readable: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emitted {
    /// The files.
    pub files: Vec<TextFile>,
    /// What the manager does otherwise, or not at all, each once.
    pub remarks: Vec<String>,
}

/// Writes a set for `manager`.
///
/// # Errors
/// A path that is no text: none of these files could name it.
pub fn emit(emission: &Emission, manager: Manager) -> Result<Emitted, Reason> {
    let mut emitted = Emitted::default();
    emission.common_remarks(&mut emitted);
    match manager {
        Manager::Libvirt => libvirt::write(emission, &mut emitted)?,
        Manager::Qemu => qemu::write(emission, &mut emitted)?,
        Manager::Systemd => systemd::write(emission, &mut emitted)?,
    }
    Ok(emitted)
}

/// Name of the first file system of a program's partition.
pub fn initrd_file(partition: &str) -> String {
    format!("{partition}.initrd")
}

/// Name of the folder that a partition writes to.
pub fn output_folder(partition: &str) -> String {
    format!("{partition}.output")
}

impl Emission {
    /// Under which the partition is known to the manager.
    fn full_name(&self, partition: &Prepared) -> String {
        format!("{}-{}", self.set, partition.spec.name)
    }

    /// A file beside those that are written.
    fn beside(&self, name: &str) -> Result<String, Reason> {
        text(&self.folder.join(name)).map(str::to_owned)
    }

    /// Where a partition writes: a folder of its own, so that it can be kept from all others.
    fn output_folder(&self, partition: &Prepared) -> PathBuf {
        self.folder.join(output_folder(&partition.spec.name))
    }

    /// A file that it writes to.
    fn output(&self, partition: &Prepared, name: &str) -> Result<String, Reason> {
        text(&self.output_folder(partition).join(name)).map(str::to_owned)
    }

    fn common_remarks(&self, emitted: &mut Emitted) {
        for (name, links) in &self.networks {
            if *links > 1 {
                emitted.remark(format!(
                    "network {name}: its {links} links are one here, because there is no switch process that could fail"
                ));
            }
        }
        for partition in &self.partitions {
            let name = &partition.spec.name;
            let shares = &partition.shares;
            if partition.is_watched {
                emitted.remark(format!(
                    "{name}: nobody looks whether it is ready or well; those after it start as soon as its machine does"
                ));
            }
            if !partition.spec.ports.is_empty() {
                emitted.remark(format!(
                    "{name}: no ports of the host lead to it, because nobody is there who would carry them"
                ));
            }
            if shares.iter().any(|share| matches!(share.tree, SharedTree::Only(_))) {
                emitted.remark(format!(
                    "{name}: its program sees all of this host's files, read-only, not only the system's"
                ));
            }
            if shares.iter().any(|share| share.writable) {
                emitted.remark(format!(
                    "{name}: what it writes is 0600 here, and modes, owners, devices and symbolic links stand beside \
                     the files (attributes user.virtfs.*), which only such a QEMU reads"
                ));
            }
        }
    }
}

impl Prepared {
    /// Whether it runs a program, and so needs kernel and first file system.
    fn is_program(&self) -> bool {
        matches!(self.spec.content, Content::Program(_))
    }

    /// Its plugs at networks of the set, each with its hardware address.
    fn plugs(&self) -> Result<Vec<(&str, String)>, Reason> {
        let plugs = self.spec.cards.iter().filter_map(|card| match card {
            CardSpec::Switch { network, address, .. } => Some((network.as_str(), address)),
            CardSpec::User => None,
        });
        plugs.map(|(network, address)| Ok((network, hardware(address)?))).collect()
    }

    /// Its sections, each in a file that `file` names after its channel.
    fn sections(&self, file: impl Fn(&str) -> PathBuf) -> Vec<SectionArgument> {
        let moved = |section: &SectionSpec| SectionSpec { path: file(&section.name), ..section.clone() };
        run::sections(&self.spec.sections.iter().map(moved).collect::<Vec<_>>())
    }

    fn has_user_card(&self) -> bool {
        self.spec.cards.contains(&CardSpec::User)
    }
}

impl Emitted {
    fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    fn file(&mut self, name: String, text: String, executable: bool) {
        self.files.push(TextFile { name, text, executable, readable: false });
    }

    fn unit(&mut self, name: String, text: String) {
        self.files.push(TextFile { name, text, executable: false, readable: true });
    }
}

/// Hardware address that belongs to an address with prefix length.
fn hardware(address: &str) -> Result<String, Reason> {
    let bare = address.split('/').next().unwrap_or_default();
    let bare = bare.parse().map_err(|_| format!("an IPv4 address was wanted, got {address}"))?;
    Ok(Mac::of(bare).to_string())
}

fn text(path: &Path) -> Result<&str, Reason> {
    path.to_str()
        .filter(|text| !text.contains(['\n', '\r', '\0']))
        .ok_or_else(|| format!("a path that is one line of text was wanted, got {}", path.display()).into())
}
