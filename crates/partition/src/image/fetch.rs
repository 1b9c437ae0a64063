//! Images of registries: fetched by an installed `skopeo`, once, into layouts in the cache.
//!
//! ```text
//!  images/names/SUM.lock   held while somebody fetches it; SUM is that of the name
//!  images/names/SUM.new    half fetched: removed by whoever holds the lock next
//!  images/names/SUM        the layout
//! ```

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use images::{Digest, Layout};

use super::{Around, LOOK_EVERY, hold, own_folder};
use platforms::spawn::{Bond, ending, spawn};
use platforms::vm::disk::find_program;
use units::Reason;

/// What fetches.
const FETCHER: &str = "skopeo";
/// How long it may take, as it is told itself.
const DEADLINE: &str = "2h";

/// The layout that holds this image alone.
pub fn layout_of(name: &str, around: &mut Around<'_>) -> Result<PathBuf, Reason> {
    let names = own_folder(around.cache, "names")?;
    let sum = Digest::of(name.as_bytes());
    let sum = sum.digits();
    let place = names.path().join(sum);
    if Layout::is_one(&place) {
        return Ok(place);
    }
    let fetcher = find_program(FETCHER).ok_or_else(|| {
        format!(
            "oci:{name} is to be fetched, and {FETCHER}, which does that, is not installed: apt install {FETCHER}, or \
             dnf install {FETCHER}; or name a folder with an OCI layout"
        )
    })?;
    let _held = hold(&names, sum, around)?;
    if Layout::is_one(&place) {
        return Ok(place);
    }
    let failed =
        |error: io::Error| format!("oci:{name}: fetching it into {}: {error}", names.path().display());
    let half = format!("{sum}.new");
    for old in [sum, &half] {
        names.remove(Path::new(old)).map_err(failed)?;
    }
    (around.tell)(&format!(
        "fetching {name} with {FETCHER}, once; to fetch it anew, remove {}",
        place.display()
    ));
    let there = fetch(&fetcher, name, &half, names.path(), around);
    let there = there.and_then(|()| {
        Layout::open(&names.path().join(&half)).map(drop).map_err(|error| error.to_string().into())
    });
    if let Err(problem) = there {
        // The reason counts, not whether half of it stays for the next one to remove.
        let _ = names.remove(Path::new(&half));
        return Err(format!("oci:{name}: {problem}").into());
    }
    fs::rename(names.path().join(&half), &place).and_then(|()| names.sync()).map_err(failed)?;
    Ok(place)
}

/// No shell reads the name, which is plain besides; what the fetcher says is the user's to see.
fn fetch(fetcher: &Path, name: &str, half: &str, folder: &Path, around: &Around<'_>) -> Result<(), Reason> {
    let mut command = Command::new(fetcher);
    command
        .args(["--command-timeout", DEADLINE, "copy"])
        .arg(format!("docker://{name}"))
        .arg(format!("oci:{half}:image"));
    // In its folder: its way of naming layouts has no place for colons in the path.
    command.current_dir(folder).stdin(Stdio::null());
    let said = io::stderr().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    command.stdout(said);
    let child =
        spawn(command, Bond::DiesWithUs, None).map_err(|error| format!("{}: {error}", fetcher.display()))?;
    wait(child, around)
}

fn wait(mut child: Child, around: &Around<'_>) -> Result<(), Reason> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                return Err(format!("{FETCHER} {}; what it said is above", ending(status)).into());
            }
            Ok(None) if (around.is_wanted)() => std::thread::sleep(LOOK_EVERY),
            other => {
                // It has not been reaped: its number is nobody else's.
                let _ = child.kill();
                let _ = child.wait();
                return Err(other
                    .err()
                    .map_or_else(|| "interrupted".to_owned(), |error| error.to_string())
                    .into());
            }
        }
    }
}
