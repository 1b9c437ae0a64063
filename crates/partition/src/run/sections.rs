//! Sections of channels, seen from one partition: the file is as announced before QEMU starts, and QEMU maps it as asked.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nix::unistd::geteuid;
use serde_json::{Value, json};

use super::Failed;
use super::assemble::sections;
use model::partition::SectionSpec;
use platforms::vm::qmp::Qmp;
use units::Reason;

/// Rights of the group and of everybody.
const OTHERS: u32 = 0o077;
/// How long QEMU may take to answer.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// Whether the file is there, ours alone, and of the size that was announced. QEMU would make one that is missing and
/// lengthen a short one, which nobody else would have.
///
/// # Errors
/// What it is instead.
pub fn check_file(section: &SectionSpec) -> Result<(), Reason> {
    let wrong = |how: &str| {
        let (name, path) = (&section.name, section.path.display());
        Err(format!(
            "the memory of channel {name}, {path}, {how}; run bulkhead up again, which makes it anew"
        )
        .into())
    };
    let found = match fs::symlink_metadata(&section.path) {
        Ok(found) => found,
        Err(error) => return wrong(&format!("cannot be looked at: {error}")),
    };
    if !found.is_file() {
        return wrong("is no file");
    }
    // Behind a folder of ours alone it may be open to everybody (see `platforms::wall`).
    let others = if is_private_folder(section.path.parent()) { OTHERS & !0o006 } else { OTHERS };
    if found.uid() != geteuid().as_raw() || found.mode() & others != 0 {
        return wrong("is not ours alone: others may have written to it");
    }
    let wanted = section.size_mib.to_bytes().get();
    if found.len() != wanted {
        return wrong(&format!("has {} bytes instead of {wanted}", found.len()));
    }
    Ok(())
}

fn is_private_folder(folder: Option<&Path>) -> bool {
    let found = folder.and_then(|folder| fs::metadata(folder).ok());
    found.is_some_and(|found| found.uid() == geteuid().as_raw() && found.mode() & OTHERS == 0)
}

/// Whether QEMU shares the memory, and cannot write to what others write.
///
/// # Errors
/// A difference, or QEMU does not say.
pub fn check_given(specs: &[SectionSpec], control: &mut Qmp) -> Result<(), Failed> {
    for (spec, section) in specs.iter().zip(sections(specs)) {
        let wanted = [
            ("share", Value::Bool(true)),
            ("readonly", Value::Bool(!spec.writable)),
            ("size", json!(section.bytes.get())),
        ];
        for (property, wanted) in wanted {
            let question = json!({ "path": format!("/objects/{}", section.id()), "property": property });
            let got = control
                .query("qom-get", &question, ANSWER_GRACE)
                .map_err(|error| refused(spec, &error.to_string()))?;
            if got != wanted {
                return Err(refused(spec, &format!("{property}: wanted {wanted}, got {got}")));
            }
        }
    }
    Ok(())
}

fn refused(spec: &SectionSpec, why: &str) -> Failed {
    let kind = if spec.writable { "shared" } else { "read-only" };
    Failed::own(format!(
        "this QEMU does not give the {kind} view of channel {} that was asked for: {why}",
        spec.name
    ))
}

/// What to do when QEMU ended at once and named our words: a QEMU without them.
pub fn advice(specs: &[SectionSpec], console: &[String]) -> Option<&'static str> {
    let names = |line: &String| line.contains("ivshmem") || line.contains("memory-backend-file");
    (!specs.is_empty() && console.iter().any(names)).then_some(
        "channels need a QEMU of version 6.0 or later that has ivshmem-plain and read-only memory-backend-file; take \
         another one, or the channels out",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;
    use units::Mebibytes;

    fn section(path: &Path) -> SectionSpec {
        SectionSpec {
            name: "x".to_owned(),
            path: path.to_owned(),
            size_mib: Mebibytes::from_mib(1),
            writable: true,
        }
    }

    #[test]
    fn only_a_file_of_ours_with_the_announced_size_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let said = |path: &Path| check_file(&section(path)).unwrap_err();
        assert!(said(&path).to_string().contains("cannot be looked at"));
        let file = fs::File::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for bytes in [0, 4096, (1 << 20) + 1] {
            file.set_len(bytes).unwrap();
            assert!(said(&path).to_string().contains(&format!("has {bytes} bytes instead of 1048576")));
        }
        file.set_len(1 << 20).unwrap();
        assert_eq!(check_file(&section(&path)), Ok(()));
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(
            said(&link).to_string().contains("is no file")
                && said(dir.path()).to_string().contains("is no file")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(said(&path).to_string().contains("not ours alone"));
    }

    #[test]
    fn a_qemu_that_lacks_them_is_told_apart() {
        let console = |text: &str| vec![text.to_owned()];
        let specs = [section(Path::new("/x"))];
        let lacks = console("qemu: Property 'memory-backend-file.readonly' not found");
        assert!(advice(&specs, &lacks).is_some_and(|text| text.contains("version 6.0")));
        assert_eq!(advice(&specs, &console("Kernel panic")), None);
        assert_eq!(advice(&[], &lacks), None);
    }
}
