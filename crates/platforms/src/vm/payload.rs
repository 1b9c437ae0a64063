//! What goes into a guest's first file system: this program, kernel modules, the config.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::{fs, io};

use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use super::guest::{CONFIG_PATH, GuestConfig, GuestModule, LinkDevice, PROGRAM_PATH};
use super::initramfs::{Archive, in_memory};
use super::modules::{Module, ModuleTree, ModulesError};
use super::qemu::FileDevice;
use model::platform::DiskBus;

/// Where the section headers' place, size and number are in a 64-bit ELF header.
const SECTION_FIELDS: [std::ops::Range<usize>; 2] = [40..48, 60..64];
/// What a program's guest needs for disks.
pub const DISKS: &[&str] = &["virtio_blk"];
/// What it needs for a saved layer.
pub const SAVED_LAYER: &[&str] = &["virtio_blk", "ext4"];

/// Modules a guest needs, and what they allow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestModules {
    /// For the link.
    pub link: Vec<Module>,
    /// For the disk, beyond those of the link.
    pub disk: Vec<Module>,
    /// For the network cards, beyond those of the link; empty for guests without cards.
    pub nic: Vec<Module>,
    /// For a program's file tree and disks, beyond those of the link; empty for guests with an agent.
    pub program: Vec<Module>,
    /// How a program's files come with these modules.
    pub files: FileDevice,
    /// What carries the link with these modules.
    pub device: LinkDevice,
}

impl GuestModules {
    /// Whether guests can have a disk.
    pub fn has_disk(&self) -> bool {
        self.device == LinkDevice::VirtioPort
    }

    /// Finds them in a modules folder; without a folder everything must be built into the kernel.
    ///
    /// # Errors
    /// Some are missing, or damaged.
    pub fn collect(folder: Option<&Path>, bus: DiskBus) -> Result<Self, ModulesError> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let tree = ModuleTree::open(folder)?;
        let virtio = tree.has("virtio_pci") && tree.has("virtio_console");
        let (device, link) = if virtio {
            (LinkDevice::VirtioPort, tree.closure(&["virtio_pci", "virtio_console"], &[])?)
        } else {
            (LinkDevice::Serial, Vec::new())
        };
        let drivers: &[&str] = match bus {
            DiskBus::Virtio => &["virtio_pci", "virtio_blk", "ext4"],
            DiskBus::Sata => &["ahci", "sd_mod", "ext4"],
            DiskBus::Nvme => &["nvme", "ext4"],
        };
        let disk = tree.closure(drivers, &link)?;
        Ok(Self { link, disk, device, ..Self::default() })
    }

    /// Those of a guest that runs a program: file trees, and what its disks and cards need.
    ///
    /// # Errors
    /// Some are missing, or damaged; there is no program without `virtio_console`.
    pub fn for_program(folder: Option<&Path>, disks: &[&str], cards: &[&str]) -> Result<Self, ModulesError> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let tree = ModuleTree::open(folder)?;
        let files = if tree.has("virtiofs") { FileDevice::VirtioFs } else { FileDevice::Plan9 };
        Self::with_files(&tree, files, disks, cards)
    }

    /// The same where nobody can serve files over virtio-fs.
    ///
    /// # Errors
    /// See [`Self::for_program`].
    pub fn for_lone_qemu(
        folder: Option<&Path>,
        disks: &[&str],
        cards: &[&str],
    ) -> Result<Self, ModulesError> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        Self::with_files(&ModuleTree::open(folder)?, FileDevice::Plan9, disks, cards)
    }

    fn with_files(
        tree: &ModuleTree,
        files: FileDevice,
        disks: &[&str],
        cards: &[&str],
    ) -> Result<Self, ModulesError> {
        let link = tree.closure(&["virtio_pci", "virtio_console"], &[])?;
        let mut roots = match files {
            FileDevice::VirtioFs => vec!["virtiofs", "overlay"],
            FileDevice::Plan9 => vec!["9pnet_virtio", "9p", "overlay"],
        };
        roots.extend(disks);
        let program = tree.closure(&roots, &link)?;
        let loaded = [link.as_slice(), &program].concat();
        let nic = if cards.is_empty() { Vec::new() } else { tree.closure(cards, &loaded)? };
        Ok(Self { link, nic, program, files, ..Self::default() })
    }

    /// The same with the driver of a network card; without a folder it must be built into the kernel.
    pub fn with_nic(&self, folder: Option<&Path>, driver: &str) -> Result<Self, ModulesError> {
        self.with_cards(folder, &["virtio_pci", driver])
    }

    /// The same with all that network cards need.
    pub fn with_cards(&self, folder: Option<&Path>, drivers: &[&str]) -> Result<Self, ModulesError> {
        let Some(folder) = folder else { return Ok(self.clone()) };
        let nic = ModuleTree::open(folder)?.closure(drivers, &self.link)?;
        Ok(Self { nic, ..self.clone() })
    }
}

/// Builds the archive in memory.
pub fn build(program: &[u8], modules: &GuestModules, config: GuestConfig) -> io::Result<OwnedFd> {
    build_with(program, modules, config, None)
}

/// The same, with the file of a program that is to have nothing but itself.
pub fn build_with(
    program: &[u8],
    modules: &GuestModules,
    config: GuestConfig,
    alone: Option<&[u8]>,
) -> io::Result<OwnedFd> {
    in_memory("bulkhead-initramfs", &archive(program, modules, config, alone)?)
}

/// The same as bytes, for a file.
pub fn archive(
    program: &[u8],
    modules: &GuestModules,
    config: GuestConfig,
    alone: Option<&[u8]>,
) -> io::Result<Vec<u8>> {
    let mut archive = Archive::new();
    archive.folder("dev")?;
    archive.device("dev/console", 5, 1)?;
    archive.file("init", 0o755, program)?;
    archive.folder("modules")?;
    let mut config = config;
    config.link = modules.device;
    for (modules, listed) in [
        (&modules.link, &mut config.link_modules),
        (&modules.disk, &mut config.disk_modules),
        (&modules.nic, &mut config.nic_modules),
        (&modules.program, &mut config.program_modules),
    ] {
        for module in modules {
            let path = format!("modules/{}.ko", module.name);
            archive.file(&path, 0o644, &module.image)?;
            listed.push(GuestModule { path: format!("/{path}"), required: module.required });
        }
    }
    archive.file(CONFIG_PATH.trim_start_matches('/'), 0o644, &serde_json::to_vec(&config)?)?;
    if let Some(file) = alone {
        archive.file(PROGRAM_PATH.trim_start_matches('/'), 0o755, file)?;
    }
    archive.finish()
}

/// Reads a program, without what running it does not need: what lies behind its last loaded segment are symbols and
/// debugging data, ten times the program itself in a debug build.
pub fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    let mut program = fs::read(path)?;
    if let Ok(Some(end)) = loaded_end(&program)
        && end < program.len()
    {
        program.truncate(end);
        for field in SECTION_FIELDS {
            program.get_mut(field).unwrap_or_default().fill(0);
        }
    }
    Ok(program)
}

fn loaded_end(program: &[u8]) -> object::Result<Option<usize>> {
    let header = FileHeader64::<Endianness>::parse(program)?;
    let endian = header.endian()?;
    let ends = header
        .program_headers(endian, program)?
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_LOAD)
        .filter_map(|segment| segment.p_offset(endian).checked_add(segment.p_filesz(endian)));
    Ok(ends.max().and_then(|end| usize::try_from(end).ok()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_runs_without_what_is_behind_its_segments() {
        let shell = fs::canonicalize("/bin/true").unwrap();
        let mut padded = fs::read(&shell).unwrap();
        padded.resize(padded.len() + 100_000, 7);
        let folder = tempfile::tempdir().unwrap();
        let fat = folder.path().join("fat");
        fs::write(&fat, &padded).unwrap();
        let lean = read_program(&fat).unwrap();
        assert!(lean.len() < padded.len() - 100_000, "{} of {}", lean.len(), padded.len());
        let path = folder.path().join("lean");
        fs::write(&path, lean).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Command::new(&path).status().unwrap().success());
    }
}
