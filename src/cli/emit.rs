//! `bulkhead up --emit`: writes a set for another manager, with everything that its partitions boot.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use nix::unistd::geteuid;

use super::ending::{Ending, OrStop, Verdict};
use super::output;
use super::set_args::{EmitFor, UpArgs};
use super::up::told;
use crate::model::partition::set::{Charge, Faults, PartitionCharge, PartitionSet, Tools};
use crate::partition::emit::{Emission, KERNEL_FILE, Manager, Prepared, emit, initrd_file, output_folder};
use crate::partition::run::{Surroundings, can_be_left_alone, unattended};
use crate::partition::set::resolve::kept;
use crate::platforms::ledger::Ledger;
use crate::platforms::own_folder::OwnFolder;
use crate::platforms::sweep::new_folder;
use crate::platforms::vm::qemu::Engine;

/// Writes the files, says which, and what is otherwise than with us.
pub fn run(
    args: &UpArgs,
    whose: EmitFor,
    set: &PartitionSet,
    text: &str,
    tools: &Tools,
    exe: &Path,
) -> Verdict {
    let (manager, word) = match whose {
        EmitFor::Libvirt => (Manager::Libvirt, "libvirt"),
        EmitFor::Qemu => (Manager::Qemu, "qemu"),
        EmitFor::Systemd => (Manager::Systemd, "systemd"),
    };
    // Nobody listens at the sockets of plugs, so it does not matter where they would be.
    let mut faults = Faults::default();
    let kept = kept(set, tools, Path::new("/"), &mut faults);
    let faults = Vec::from(faults);
    if !faults.is_empty() {
        return Err(told(&args.file, text, faults)).or_bad_input();
    }
    let charges = kept.into_iter().filter_map(|kept| match kept.charge {
        Charge::Partition(charge) => Some(*charge),
        Charge::Switch(_) => None,
    });
    let charges: Vec<_> = charges.collect();
    for charge in &charges {
        can_be_left_alone(&charge.spec)
            .map_err(|failed| anyhow!("partition {}: {}", charge.spec.name, failed.reason))
            .or_bad_input()?;
    }
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-{word}", set.name)));
    let folder = made(&folder).or_bad_input()?;
    let (partitions, qemu, engine) = prepare(charges.into_iter(), set, tools, exe, &folder).or_lacking()?;
    let emission = Emission {
        set: set.name.clone(),
        networks: set.networks.iter().map(|(name, network)| (name.clone(), network.links)).collect(),
        partitions,
        qemu,
        engine,
        folder: folder.clone(),
        user: Some(geteuid()).filter(|user| !user.is_root()).map(nix::unistd::Uid::as_raw),
    };
    let emitted = emit(&emission, manager).map_err(anyhow::Error::msg).or_bad_input()?;
    for remark in &emitted.remarks {
        output::say(&format!("not as with Bulkhead: {remark}"));
    }
    for partition in &emission.partitions {
        OwnFolder::make_private(&folder.join(output_folder(&partition.spec.name))).or_lacking()?;
    }
    for file in &emitted.files {
        let path = folder.join(&file.name);
        let mode = match (file.executable, file.readable) {
            (true, _) => 0o700,
            (_, true) => 0o644,
            _ => 0o600,
        };
        write(&path, file.text.as_bytes(), mode).or_lacking()?;
        output::data(&format!("{}\n", path.display())).or_lacking()?;
    }
    Ok(Ending::Done)
}

fn made(folder: &Path) -> anyhow::Result<PathBuf> {
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// Writes what partitions boot, and returns them with QEMU's path and what runs the CPUs.
fn prepare(
    charges: impl Iterator<Item = PartitionCharge>,
    set: &PartitionSet,
    tools: &Tools,
    exe: &Path,
    folder: &Path,
) -> anyhow::Result<(Vec<Prepared>, PathBuf, Engine)> {
    // Nothing is started, so nothing is written down there.
    let scratch = new_folder("emit").context("a temporary folder")?;
    let mut around = Surroundings {
        exe: exe.to_owned(),
        cache: tools.cache.clone(),
        ledger: Ledger::open(scratch.path()).context("a temporary folder")?,
        counter_hz: None,
        accelerator: tools.accelerator,
        qemu: tools.qemu.clone(),
        kernel: tools.kernel.clone(),
        modules: tools.modules.clone(),
        boot_deadline: None,
        names: Vec::new(),
        restores: false,
        door: None,
    };
    let (mut prepared, mut qemu, mut engine) = (Vec::new(), PathBuf::new(), Engine::Tcg);
    for charge in charges {
        let name = charge.spec.name.clone();
        around.names = set.names_for(&name).unwrap_or_default();
        let parts = unattended(&charge.spec, &around)
            .map_err(|failed| anyhow!("partition {name}: {}", failed.reason))?;
        if let Some(initramfs) = parts.initramfs {
            // The program's environment is in it.
            write(&folder.join(initrd_file(&name)), &initramfs, 0o600)?;
            let kernel = fs::read(&parts.kernel)
                .with_context(|| format!("{} cannot be read", parts.kernel.display()))?;
            write(&folder.join(KERNEL_FILE), &kernel, 0o644)?;
        }
        let after = set.partitions.get(&name).map(|entry| entry.after.clone()).unwrap_or_default();
        let is_watched = charge.ready.is_some() || charge.health.is_some();
        let (shares, restart) = (parts.shares, charge.restart);
        prepared.push(Prepared { spec: charge.spec, shares, restart, after, is_watched });
        (qemu, engine) = (parts.qemu, parts.engine);
    }
    Ok((prepared, qemu, engine))
}

/// Writes it under another name first: a file of an earlier time keeps its rights, and whoever has it open.
fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let keep = || {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(content)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    keep().with_context(|| format!("{} cannot be written", path.display()))
}
