//! What is needed of this host: Open MPI's launcher, and the library through which it sends over channels.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{Failed, find_program};
use model::partition::{Files, Program};
use platforms::spawn::{Bond, spawn};
use units::Reason;

/// Names under which Open MPI's launcher goes; `mpirun` may be another MPI's.
const LAUNCHERS: [&[u8]; 3] = [b"orterun", b"mpirun.openmpi", b"mpirun"];
/// What it calls itself with its version, under either of its names.
const VERSION_MARKS: [&str; 2] = ["(Open MPI) 4.", "(OpenRTE) 4."];
/// How long it may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest such text that is read.
const MOST_VERSION_BYTES: u64 = 4096;
/// File name of the library: libfabric finds providers by their ending `-fi.so`.
pub const LIBRARY: &str = "libbulkhead-fi.so";
/// Variable that names the library, or its folder.
pub const LIBRARY_VARIABLE: &str = "BULKHEAD_FABRIC";

/// Looks for Open MPI's launcher in the `PATH` that the program will have.
///
/// # Errors
/// There is none, or not of the version whose protocol is spoken here.
pub fn launcher(program: &Program) -> Result<PathBuf, Failed> {
    let mut others = Vec::new();
    for name in LAUNCHERS {
        let wanted = Program { argv: vec![name.to_vec()], files: Files::All, ..program.clone() };
        let Ok(Some(found)) = find_program(&wanted) else { continue };
        match version(&found.host) {
            Ok(text) if VERSION_MARKS.iter().any(|mark| text.contains(mark)) => return Ok(found.inside),
            Ok(text) => others.push(format!("{} is {}", found.inside.display(), text.trim())),
            Err(why) => others.push(format!("{}: {why}", found.inside.display())),
        }
    }
    let advice = "wanted Open MPI 4 (Debian: apt-get install openmpi-bin)";
    Err(Failed::own(if others.is_empty() {
        format!("{advice}, found no orterun and no mpirun in PATH")
    } else {
        format!("{advice}, found only others: {}", others.join("; "))
    }))
}

/// The first line of what it says.
fn version(path: &Path) -> Result<String, Reason> {
    use std::io::Read;
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = spawn(command, Bond::DiesWithUs, None).map_err(|error| error.to_string())?;
    let until = Instant::now() + VERSION_TIMEOUT;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("--version did not end within {} s", VERSION_TIMEOUT.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = Vec::new();
    // It has ended, and what it says fits into a pipe.
    child.stdout.take().map(|out| out.take(MOST_VERSION_BYTES).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let line: String =
        text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(100).collect();
    if line.is_empty() { Err("it does not say its version".into()) } else { Ok(line) }
}

/// The folder of the library: named on the command line, by [`LIBRARY_VARIABLE`], or beside `exe` as it is installed.
///
/// # Errors
/// Where it was looked for, and how it is made.
pub fn library_folder(named: Option<&Path>, exe: &Path) -> Result<PathBuf, Failed> {
    let by_variable = env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let candidates = match named.map(Path::to_owned).or(by_variable) {
        Some(one) if one.is_dir() => vec![one.join(LIBRARY)],
        Some(one) => vec![one],
        None => beside(exe),
    };
    let found = candidates.iter().find(|path| path.is_file());
    let folder = found.and_then(|path| path.canonicalize().ok()?.parent().map(Path::to_owned));
    let is_named = |path: &&PathBuf| path.file_name().is_some_and(|name| name == LIBRARY);
    if let (Some(folder), Some(_)) = (&folder, found.filter(is_named)) {
        return Ok(folder.clone());
    }
    if let Some(other) = found {
        return Err(Failed::own(format!(
            "wanted a library of the name {LIBRARY}, which is what libfabric looks for, got {}",
            other.display()
        )));
    }
    let shown: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    Err(Failed::own(format!(
        "wanted the library {LIBRARY}, looked for {}: `make fabric` builds it, `make install` installs it; name it with \
         --provider or {LIBRARY_VARIABLE}",
        shown.join(", ")
    )))
}

/// Where it is installed, and where `make fabric` puts it in the tree that this program was built in.
fn beside(exe: &Path) -> Vec<PathBuf> {
    let Some(folder) = exe.parent() else { return Vec::new() };
    let installed = [folder.join(LIBRARY), folder.join("../lib/bulkhead").join(LIBRARY)];
    // target/TRIPLE/release/bulkhead
    let triple = folder.parent().and_then(Path::file_name);
    let target = folder.parent().and_then(Path::parent);
    let built = target
        .zip(triple)
        .map(|(target, triple)| target.join("fabric").join(triple).join("release").join(LIBRARY));
    installed.into_iter().chain(built).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_where_it_is_installed_built_or_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let exe = root.join("target/x/release/bulkhead");
        let missing = library_folder(None, &exe).unwrap_err().reason;
        assert!(missing.contains("make fabric") && missing.contains("../lib/bulkhead"), "{missing}");
        let built = root.join("target/fabric/x/release");
        std::fs::create_dir_all(&built).unwrap();
        std::fs::create_dir_all(exe.parent().unwrap()).unwrap();
        std::fs::write(built.join(LIBRARY), "").unwrap();
        assert_eq!(library_folder(None, &exe).unwrap(), built);
        let installed = exe.parent().unwrap();
        std::fs::write(installed.join(LIBRARY), "").unwrap();
        assert_eq!(library_folder(None, &exe).unwrap(), installed);
        assert_eq!(library_folder(Some(&built), &exe).unwrap(), built);
        assert_eq!(library_folder(Some(&built.join(LIBRARY)), &exe).unwrap(), built);
        std::fs::write(built.join("other.so"), "").unwrap();
        assert!(library_folder(Some(&built.join("other.so")), &exe).is_err());
    }

    #[test]
    fn another_mpi_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mpirun");
        std::fs::write(&path, "#!/bin/sh\necho 'HYDRA build details:'\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let env = |path: &Path| vec![(b"PATH".to_vec(), path.as_os_str().as_encoded_bytes().to_vec())];
        let program = Program { env: env(folder.path()), workdir: "/".into(), ..Program::default() };
        let said = launcher(&program).unwrap_err().reason;
        assert!(said.contains("HYDRA") && said.contains("openmpi-bin"), "{said}");
        let program = Program { env: env(Path::new("/nowhere")), ..program };
        let said = launcher(&program).unwrap_err().reason;
        assert!(said.contains("no orterun"), "{said}");
    }
}
