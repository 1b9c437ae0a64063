//! Which kernel modules a guest needs, in the order in which they must be loaded.
//!
//! Told by the modules themselves: the `.modinfo` section of each names what it depends on (`depends=`), what should be
//! there before (`softdep=pre:`), and which aliases it answers to. No index made by depmod is needed, so a kernel
//! package that was only unpacked is enough. What `modules.builtin` lists is part of the kernel.
//!
//! ```text
//!  roots ──► closure over depends and softdep ──► load order: every module after what it needs
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use super::unpack::{UnpackError, unpack};
use units::Reason;

/// Largest module that is read, packed or not.
const MAX_MODULE_BYTES: usize = 64 * 1024 * 1024;
/// Most entries looked at below a modules folder; distributions have about 5000.
const MAX_FILES: usize = 100_000;
/// Deepest folder looked into.
const MAX_DEPTH: usize = 16;

/// A module to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Its ELF file, unpacked.
    pub image: Vec<u8>,
    /// Whether the guest cannot do without it. Others may refuse to load: a driver for a CPU feature that is not there.
    pub required: bool,
}

/// Why the modules do not add up.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// A file or folder cannot be read.
    #[error("kernel module files: {}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A module is neither there nor built in.
    #[error("kernel module \"{name}\"{} is neither in {} nor built into that kernel: run `make setup`, which \
             fetches a kernel that has it, or use a kernel package with virtio, AHCI, NVMe and ext4 (Debian: \
             linux-image-amd64)", .wanted_by.as_deref().map(|by| format!(", needed by {by},")).unwrap_or_default(), folder.display())]
    Missing {
        /// Its name.
        name: String,
        /// Who needs it.
        wanted_by: Option<String>,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Modules that need each other in a ring.
    #[error("kernel modules need each other in a ring: {0}")]
    Cycle(String),
    /// A module cannot be unpacked.
    #[error("kernel module {}: {error}", path.display())]
    Packed {
        /// Which.
        path: PathBuf,
        /// Why.
        error: UnpackError,
    },
    /// A module has no readable `.modinfo`.
    #[error("kernel module {} is damaged: {message}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// What a module says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModInfo {
    /// Modules that must be loaded before.
    pub depends: Vec<String>,
    /// Modules or aliases that should be loaded before.
    pub soft_before: Vec<String>,
    /// Other names it answers to.
    pub aliases: Vec<String>,
}

impl ModInfo {
    /// Reads the `.modinfo` section of a module's ELF file: strings `key=value`, each ended by a zero byte.
    pub fn parse(image: &[u8]) -> Result<Self, Reason> {
        let file = object::File::parse(image).map_err(|error| error.to_string())?;
        let section = file.section_by_name(".modinfo").ok_or("it has no section .modinfo")?;
        let data = section.data().map_err(|error| error.to_string())?;
        let mut info = Self::default();
        for entry in data.split(|byte| *byte == 0) {
            let Some((key, value)) = std::str::from_utf8(entry).ok().and_then(|entry| entry.split_once('='))
            else {
                continue;
            };
            match key {
                "depends" => {
                    info.depends.extend(value.split(',').filter(|name| !name.is_empty()).map(normal));
                }
                "softdep" => info.soft_before.extend(soft_before(value)),
                "alias" => info.aliases.push(value.to_owned()),
                _ => {}
            }
        }
        Ok(info)
    }
}

/// The names after `pre:` up to `post:`.
fn soft_before(value: &str) -> Vec<String> {
    let mut before = false;
    let mut names = Vec::new();
    for word in value.split_whitespace() {
        match word {
            "pre:" => before = true,
            "post:" => before = false,
            name if before => names.push(name.to_owned()),
            _ => {}
        }
    }
    names
}

/// Module names are compared with underscores; file names have either.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// The module name in a file name: `virtio-rng.ko.xz` is `virtio_rng`.
fn module_name(file_name: &str) -> Option<String> {
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().find_map(|end| file_name.strip_suffix(end))?;
    Some(normal(stem))
}

/// A folder of modules (`…/lib/modules/RELEASE`).
#[derive(Debug)]
pub struct ModuleTree {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl ModuleTree {
    /// Lists the folder; reads none of the modules yet.
    pub fn open(folder: &Path) -> Result<Self, ModulesError> {
        let mut files = BTreeMap::new();
        let mut left = MAX_FILES;
        let mut open = vec![(folder.join("kernel"), 0_usize), (folder.join("updates"), 0)];
        while let Some((path, depth)) = open.pop() {
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                // Folders for rebuilt modules are seldom there.
                Err(error) if error.kind() == io::ErrorKind::NotFound && depth == 0 => continue,
                Err(error) => return Err(ModulesError::Io { path, error }),
            };
            for entry in entries.filter_map(Result::ok).take(left) {
                left -= 1;
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && depth < MAX_DEPTH {
                    open.push((entry.path(), depth + 1));
                } else if let Some(name) = module_name(&entry.file_name().to_string_lossy()) {
                    files.insert(name, entry.path());
                }
            }
        }
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin.lines().filter_map(|line| module_name(line.rsplit('/').next()?)).collect();
        Ok(Self { folder: folder.to_owned(), files, builtin })
    }

    /// Whether the module is there as a file or part of the kernel.
    pub fn has(&self, name: &str) -> bool {
        let name = normal(name);
        self.builtin.contains(&name) || self.files.contains_key(&name)
    }

    /// What must be loaded for `roots`, in load order, without what is in `loaded` or built in.
    pub fn closure(&self, roots: &[&str], loaded: &[Module]) -> Result<Vec<Module>, ModulesError> {
        let mut walk = Walk { tree: self, done: BTreeSet::new(), path: Vec::new(), order: Vec::new() };
        walk.done.extend(loaded.iter().map(|module| module.name.clone()));
        for root in roots {
            walk.visit(&normal(root), true)?;
        }
        Ok(walk.order)
    }

    fn read(&self, name: &str, path: &Path) -> Result<(Vec<u8>, ModInfo), ModulesError> {
        debug_assert!(self.files.contains_key(name));
        let mut packed = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_MODULE_BYTES as u64).read_to_end(&mut packed))
            .map_err(|error| ModulesError::Io { path: path.to_owned(), error })?;
        let image = unpack(&packed, MAX_MODULE_BYTES)
            .map_err(|error| ModulesError::Packed { path: path.to_owned(), error })?;
        let info = ModInfo::parse(&image)
            .map_err(|message| ModulesError::Damaged { path: path.to_owned(), message: message.into() })?;
        Ok((image, info))
    }

    /// Modules meant by a soft dependency: the one of that name, or those that answer to it as an alias. Only files
    /// whose name begins like it are opened, because no index tells the aliases. `crypto-` marks names of algorithms.
    fn meant_by(&self, wanted: &str) -> Vec<String> {
        let name = normal(wanted);
        if self.has(&name) {
            return vec![name];
        }
        let stem = normal(wanted.strip_prefix("crypto-").unwrap_or(wanted));
        let answers = |info: &ModInfo| info.aliases.iter().any(|alias| normal(alias) == name);
        self.files
            .range(stem.clone()..)
            .take_while(|(file, _)| file.starts_with(&stem))
            .filter(|(file, path)| self.read(file, path).is_ok_and(|(_, info)| answers(&info)))
            .map(|(file, _)| file.clone())
            .collect()
    }
}

/// A depth-first walk; a module is put into the order after everything it needs.
struct Walk<'a> {
    tree: &'a ModuleTree,
    done: BTreeSet<String>,
    path: Vec<String>,
    order: Vec<Module>,
}

impl Walk<'_> {
    fn visit(&mut self, name: &str, required: bool) -> Result<(), ModulesError> {
        if self.done.contains(name) || self.tree.builtin.contains(name) {
            // A module met first as a soft dependency may turn out to be needed.
            if let Some(module) = self.order.iter_mut().find(|module| required && module.name == name) {
                module.required = true;
            }
            return Ok(());
        }
        if self.path.iter().any(|on_path| on_path == name) {
            return Err(ModulesError::Cycle(format!("{} → {name}", self.path.join(" → "))));
        }
        let Some(file) = self.tree.files.get(name) else {
            return Err(ModulesError::Missing {
                name: name.to_owned(),
                wanted_by: self.path.last().cloned(),
                folder: self.tree.folder.clone(),
            });
        };
        let (image, info) = self.tree.read(name, file)?;
        self.path.push(name.to_owned());
        for soft in &info.soft_before {
            for meant in self.tree.meant_by(soft) {
                self.visit(&meant, false)?;
            }
        }
        for needed in &info.depends {
            self.visit(needed, required)?;
        }
        self.path.pop();
        self.done.insert(name.to_owned());
        self.order.push(Module { name: name.to_owned(), image, required });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit ELF file with a `.modinfo` section.
    fn module(entries: &[&str]) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let info: Vec<u8> = entries.iter().flat_map(|e| e.bytes().chain([0])).collect();
        let mut bytes = vec![0_u8; 64];
        bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        (bytes[16], bytes[18], bytes[20], bytes[52], bytes[58], bytes[60], bytes[62]) =
            (1, 62, 1, 64, 64, 3, 2);
        let info_at = bytes.len();
        bytes.extend(&info);
        let names_at = bytes.len();
        bytes.extend(names);
        let table = bytes.len() as u64;
        bytes[40..48].copy_from_slice(&table.to_le_bytes());
        let section = |name: u32, kind: u32, at: usize, size: usize| {
            let mut header = vec![0_u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            header
        };
        bytes.extend(vec![0_u8; 64]);
        bytes.extend(section(1, 1, info_at, info.len()));
        bytes.extend(section(10, 3, names_at, names.len()));
        bytes
    }

    fn tree(modules: &[(&str, &[&str])], builtin: &str) -> (tempfile::TempDir, ModuleTree) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("kernel/drivers")).unwrap();
        for (file, entries) in modules {
            fs::write(folder.path().join("kernel/drivers").join(file), module(entries)).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), builtin).unwrap();
        let tree = ModuleTree::open(folder.path()).unwrap();
        (folder, tree)
    }

    fn names(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|module| module.name.as_str()).collect()
    }

    #[test]
    fn every_module_comes_after_what_it_needs() {
        let (_folder, tree) = tree(
            &[
                ("virtio-pci.ko", &["depends=virtio_ring,virtio"]),
                ("virtio.ko", &["depends=virtio_ring"]),
                ("virtio_ring.ko", &["depends="]),
                ("ext4.ko", &["softdep=pre: crypto-sum post: later", "depends=journal,kernel_part"]),
                ("journal.ko", &["depends="]),
                ("sum_fast.ko", &["alias=crypto-sum", "depends="]),
                ("sum-plain.ko", &["alias=crypto-sum", "depends="]),
                ("summer.ko", &["depends=nowhere"]),
            ],
            "kernel/lib/kernel-part.ko\n",
        );
        let link = tree.closure(&["virtio_pci"], &[]).unwrap();
        assert_eq!(names(&link), ["virtio_ring", "virtio", "virtio_pci"]);
        let disk = tree.closure(&["ext4", "virtio"], &link).unwrap();
        assert_eq!(names(&disk), ["sum_fast", "sum_plain", "journal", "ext4"]);
        assert_eq!(disk.iter().map(|m| m.required).collect::<Vec<_>>(), [false, false, true, true]);
        assert!(tree.has("kernel-part") && !tree.has("later"));
    }

    #[test]
    fn rings_and_gaps_are_named() {
        let (_folder, tree) =
            tree(&[("a.ko", &["depends=b"]), ("b.ko", &["depends=a"]), ("c.ko", &["depends=gone"])], "");
        let ring = tree.closure(&["a"], &[]).unwrap_err().to_string();
        assert!(ring.contains("a → b → a"), "{ring}");
        let gap = tree.closure(&["c"], &[]).unwrap_err().to_string();
        assert!(gap.contains("\"gone\", needed by c,"), "{gap}");
    }

    #[test]
    fn damaged_modules_are_errors() {
        let (folder, _) = tree(&[("a.ko", &["depends="])], "");
        fs::write(folder.path().join("kernel/drivers/a.ko"), b"\x7fELFnonsense").unwrap();
        let tree = ModuleTree::open(folder.path()).unwrap();
        assert!(matches!(tree.closure(&["a"], &[]), Err(ModulesError::Damaged { .. })));
    }

    proptest::proptest! {
        #[test]
        fn mutated_modules_never_panic(changes in proptest::collection::vec((0_usize..400, proptest::num::u8::ANY), 0..10)) {
            let mut image = module(&["depends=a,b", "softdep=pre: c"]);
            for (at, byte) in changes {
                let at = at % image.len();
                image[at] = byte;
            }
            let _ = ModInfo::parse(&image);
        }
    }
}
