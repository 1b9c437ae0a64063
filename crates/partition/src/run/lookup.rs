//! Looks on the host for what a partition is to run and to see, before anything is made.
//!
//! ```text
//!  argv[0] with a slash ──► that file          ┐  in the tree that is served, symbolic links
//!          without      ──► each folder of PATH ┘  followed as the program would see them
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Failed, links, view};
use model::partition::{Files, Program};
use units::Reason;

/// Where the machine's number is in an ELF header, and that of this one.
const MACHINE_FIELD: usize = 18;
/// Bytes of a file that tell what it is.
const HEAD_BYTES: u64 = 4096;

/// A path as the program would see it and where it is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundProgram {
    /// Inside the partition.
    pub inside: PathBuf,
    /// On the host.
    pub host: PathBuf,
}

/// What is at the start of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupKind {
    /// An ELF file for this machine; whether it needs a loader.
    Elf { is_static: bool },
    /// A script, or something the kernel may know.
    Other,
}

/// Finds the program. `Ok(None)` when only the partition can tell, because something is mounted over the place.
pub fn program(program: &Program) -> Result<Option<FoundProgram>, Failed> {
    let Some(name) = program.argv.first() else { return Err(Failed::own("no program was named")) };
    let shown = String::from_utf8_lossy(name).into_owned();
    let name = Path::new(OsStr::from_bytes(name));
    let path = path_of(program);
    let candidates: Vec<PathBuf> = if name.as_os_str().as_bytes().contains(&b'/') {
        vec![program.workdir.join(name)]
    } else {
        path.split(|byte| *byte == b':')
            .map(|folder| program.workdir.join(OsStr::from_bytes(folder)).join(name))
            .collect()
    };
    let mut refused = None;
    let view = view::of(program)?;
    for inside in candidates {
        if is_covered(program, &inside) {
            return Ok(None);
        }
        let Some(host) = resolve(root_of(program), &inside) else { continue };
        let seen = view.as_ref().map_or(Ok(()), |view| view::sees(view, program, &inside, &host));
        match runnable(&host, &shown).and_then(|()| seen.map_err(|folder| hidden(&inside, &folder))) {
            Ok(()) => return Ok(Some(FoundProgram { inside, host })),
            Err(failed) => refused = refused.or(Some(failed)),
        }
    }
    Err(refused.unwrap_or_else(|| Failed::of(127, not_found(program, &shown))))
}

fn hidden(program: &Path, folder: &Path) -> Failed {
    let (program, folder) = (program.display(), folder.display());
    let what = format!("{program} is there on this host, but not shown to the program");
    Failed::of(127, format!("{what}: --ro {folder} shows its folder, --files all everything"))
}

fn not_found(program: &Program, shown: &str) -> String {
    let place = match &program.files {
        Files::Tree(folder) => format!(" in {}, which is all that is served", folder.display()),
        Files::System | Files::All | Files::None => String::new(),
    };
    if shown.contains('/') {
        format!("{shown} was not found{place}")
    } else {
        format!(
            "{shown} was not found{place} in any folder of PATH={}",
            String::from_utf8_lossy(path_of(program))
        )
    }
}

/// `PATH` of its environment; without one the usual folders, as the C library has them.
pub fn path_of(program: &Program) -> &[u8] {
    let found = program.env.iter().rev().find(|(name, _)| name == b"PATH");
    found.map_or(b"/bin:/usr/bin".as_slice(), |(_, path)| path.as_slice())
}

/// The folder of the host that the program sees as its root.
pub fn root_of(program: &Program) -> &Path {
    match &program.files {
        Files::Tree(folder) => folder,
        Files::System | Files::All | Files::None => Path::new("/"),
    }
}

/// Whether another tree is mounted over this path.
fn is_covered(program: &Program, inside: &Path) -> bool {
    let binds =
        program.binds.iter().map(|bind| &bind.to).chain(program.volumes.iter().map(|volume| &volume.at));
    let tree = matches!(program.files, Files::Tree(_));
    let opened = program.writable.iter().filter(|_| tree);
    binds.chain(opened).any(|mount| inside.starts_with(mount))
}

/// Where `inside`, a path below `root`, is on the host; links are followed as if `root` were the root.
pub fn resolve(root: &Path, inside: &Path) -> Option<PathBuf> {
    let below = |at: &Path| root.join(at.strip_prefix("/").unwrap_or(at));
    links::follow(inside, |at| links::on_host(&below(at))).map(|at| below(&at))
}

fn runnable(host: &Path, shown: &str) -> Result<(), Failed> {
    let refused = |why: &str| Err(Failed::of(126, format!("{shown} cannot be executed: {why}")));
    let Ok(meta) = fs::metadata(host) else { return refused("it cannot be looked at") };
    if meta.is_dir() {
        return refused("it is a folder");
    }
    if !meta.is_file() {
        return refused("it is no file");
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return refused("nobody may execute it; use chmod +x");
    }
    match kind(host) {
        Ok(_) => Ok(()),
        Err(why) => refused(&why.to_string()),
    }
}

/// Looks at the start of an executable.
pub fn kind(host: &Path) -> Result<LookupKind, Reason> {
    let mut head = Vec::new();
    let Ok(file) = fs::File::open(host) else {
        // May be executable without being readable; the guest will tell.
        return Ok(LookupKind::Other);
    };
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| error.to_string())?;
    if !head.starts_with(b"\x7fELF") {
        return Ok(LookupKind::Other);
    }
    elf_kind(&head)
}

fn elf_kind(head: &[u8]) -> Result<LookupKind, Reason> {
    use object::Endianness;
    use object::elf::{FileHeader64, PT_INTERP};
    use object::read::elf::{FileHeader, ProgramHeader};
    let wanted: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let is_big = head.get(5) == Some(&2);
    let field: [u8; 2] = head
        .get(MACHINE_FIELD..MACHINE_FIELD + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("its ELF header is cut off")?;
    let machine = if is_big { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) };
    // A 64-bit x86 runs programs for 32 bits, too.
    let fits = machine == wanted || (wanted == 62 && machine == 3);
    if is_big || !fits {
        return Err(format!("it is for another processor (ELF machine {machine}, this is {wanted})").into());
    }
    let has_loader = || -> object::Result<bool> {
        let header = FileHeader64::<Endianness>::parse(head)?;
        let endian = header.endian()?;
        Ok(header.program_headers(endian, head)?.iter().any(|part| part.p_type(endian) == PT_INTERP))
    };
    Ok(LookupKind::Elf { is_static: !has_loader().unwrap_or(true) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/x"), "x").unwrap();
        symlink("/usr/bin", root.path().join("bin")).unwrap();
        symlink("../../../../usr/bin/x", root.path().join("usr/up")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        let real = root.path().join("usr/bin/x");
        assert_eq!(resolve(root.path(), Path::new("/bin/x")), Some(real.clone()));
        assert_eq!(resolve(root.path(), Path::new("/usr/up")), Some(real));
        assert_eq!(resolve(root.path(), Path::new("/loop")), None);
        assert_eq!(resolve(root.path(), Path::new("/etc/passwd")), None);
        assert_eq!(resolve(root.path(), Path::new("/..")), Some(root.path().to_owned()));
    }

    #[test]
    fn what_cannot_run_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8], mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let mut elf = fs::read("/proc/self/exe").unwrap()[..4096].to_vec();
        write("good", &elf, 0o755);
        write("plain", b"#!/bin/sh\n", 0o644);
        elf[18] = 243;
        write("riscv", &elf, 0o755);
        let look = |name: &str| {
            let argv = vec![folder.path().join(name).as_os_str().as_bytes().to_vec()];
            program(&Program { argv, workdir: "/".into(), files: Files::All, ..Program::default() })
        };
        assert!(look("good").unwrap().is_some());
        assert_eq!(look("gone").unwrap_err().code, 127);
        assert_eq!(look("plain").unwrap_err().code, 126);
        assert_eq!(look("").unwrap_err().code, 126);
        let wrong = look("riscv").unwrap_err();
        assert!(wrong.code == 126 && wrong.reason.contains("another processor"), "{}", wrong.reason);
    }
}
