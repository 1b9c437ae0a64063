//! Whether KVM works, remembered for as long as the host is up: the trial takes up to five seconds, a partition two.
//!
//! What is remembered is forgotten when the host was started again, or when QEMU or the kernel changed.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Event, Failed, Surroundings};
use model::experiment::{Accelerator, PlatformSpec};
use platforms::vm::kernel::identity;
use platforms::vm::platform::Vm;
use platforms::vm::qemu::Engine;
use platforms::vm::toolbox::Toolbox;
use platforms::{Cancel, PlatformContext};
use units::names::PlatformKind;

/// File in the cache folder.
const FILE: &str = "kvm-works.json";
/// Longest such file that is read.
const MOST_BYTES: u64 = 16 * 1024;

/// What was found out, and about what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    about: About,
    works: bool,
    why: String,
}

/// What a verdict holds for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    boot: String,
    qemu: String,
    kernel: String,
}

impl About {
    fn now(tools: &Toolbox) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        Self { boot, qemu: stamp(&tools.qemu), kernel: stamp(&tools.kernel.image) }
    }
}

/// A file's path, size and time of change: another file is another verdict.
fn stamp(path: &Path) -> String {
    let identity = fs::metadata(path).map(|meta| identity(&meta)).unwrap_or_default();
    format!("{} {identity}", path.display())
}

/// Chooses what runs the CPUs.
pub fn choose(
    tools: &Toolbox,
    named: &PlatformSpec,
    around: &Surroundings,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Event),
) -> Result<Engine, Failed> {
    if around.accelerator == Accelerator::Tcg {
        return Ok(Engine::Tcg);
    }
    let about = About::now(tools);
    let path = around.cache.join(FILE);
    let known = recall(&path).filter(|known| known.about == about);
    let (works, why) = if let Some(known) = known {
        (known.works, known.why)
    } else {
        tell(Event::Trying);
        let (works, why) = try_it(named, around, cancel)?;
        remember(&path, &Remembered { about, works, why: why.clone() });
        (works, why)
    };
    match (works, around.accelerator) {
        (true, _) => Ok(Engine::Kvm),
        (false, Accelerator::Kvm) => {
            Err(Failed::own(format!("KVM was asked for, but: {why}; use --accel auto or tcg")))
        }
        (false, _) => Ok(Engine::Tcg),
    }
}

fn try_it(named: &PlatformSpec, around: &Surroundings, cancel: &Cancel) -> Result<(bool, String), Failed> {
    let spec = PlatformSpec { accelerator: Accelerator::Auto, kind: PlatformKind::Vm, ..named.clone() };
    let context = PlatformContext {
        exe: around.exe.clone(),
        ledger: around.ledger.clone(),
        cache: around.cache.clone(),
        counter_hz: around.counter_hz,
        seed: 0,
        may_destroy: false,
    };
    let verdict = Vm::new(&spec, &context).engine(cancel).map_err(|error| Failed::own(error.to_string()))?;
    Ok((verdict.engine == Some(Engine::Kvm), verdict.why))
}

fn recall(path: &Path) -> Option<Remembered> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Written beside and renamed. When it cannot be kept, the next one tries again.
fn remember(path: &Path, what: &Remembered) {
    let Some(folder) = path.parent() else { return };
    let keep = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, what)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    let _ = keep();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back_and_damage_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/kvm.json");
        let about = About { boot: "1".to_owned(), qemu: stamp(Path::new("/bin/sh")), kernel: "k".to_owned() };
        let what = Remembered { about, works: false, why: "no /dev/kvm".to_owned() };
        remember(&path, &what);
        assert_eq!(recall(&path), Some(what));
        fs::write(&path, b"{\"about\": 3}").unwrap();
        assert_eq!(recall(&path), None);
    }
}
