//! `bulkhead up --emit`: writes a set for another manager, with everything that its partitions boot.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};

use super::ending::{Ending, OrStop, Verdict};
use super::output;
use super::set_args::{EmitFor, UpArgs};
use crate::model::partition::set::{Charge, PartitionCharge, PartitionSet, Tools};
use crate::partition::emit::{Emission, KERNEL_FILE, Manager, Prepared, emit, initrd_file};
use crate::partition::run::{Surroundings, can_be_left_alone, unattended};
use crate::partition::set::resolve::kept;
use crate::platforms::ledger::Ledger;

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
    let kept = kept(set, tools, Path::new("/"));
    let kept =
        kept.map_err(|fault| anyhow!("{}: {}", args.file.display(), fault.in_text(text))).or_bad_input()?;
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
    let (partitions, qemu) = prepare(charges.into_iter(), set, tools, exe, &folder).or_lacking()?;
    let emission = Emission {
        set: set.name.clone(),
        networks: set.networks.iter().map(|(name, network)| (name.clone(), network.links)).collect(),
        partitions,
        qemu,
        accelerator: set.accelerator,
        folder: folder.clone(),
    };
    let emitted = emit(&emission, manager).map_err(anyhow::Error::msg).or_bad_input()?;
    for remark in &emitted.remarks {
        output::say(&format!("not as with Bulkhead: {remark}"));
    }
    for file in &emitted.files {
        let path = folder.join(&file.name);
        let mode = if file.executable { 0o755 } else { 0o644 };
        write(&path, file.text.as_bytes(), mode).or_lacking()?;
        output::data(&format!("{}\n", path.display())).or_lacking()?;
    }
    Ok(Ending::Done)
}

fn made(folder: &Path) -> anyhow::Result<PathBuf> {
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// Writes what partitions boot, and returns them with QEMU's path.
fn prepare(
    charges: impl Iterator<Item = PartitionCharge>,
    set: &PartitionSet,
    tools: &Tools,
    exe: &Path,
    folder: &Path,
) -> anyhow::Result<(Vec<Prepared>, PathBuf)> {
    // Nothing is started, so nothing is written down there.
    let scratch = tempfile::tempdir().context("a temporary folder")?;
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
    };
    let (mut prepared, mut qemu) = (Vec::new(), PathBuf::new());
    for charge in charges {
        let name = charge.spec.name.clone();
        around.names = set.names_for(&name).unwrap_or_default();
        let parts = unattended(&charge.spec, &around)
            .map_err(|failed| anyhow!("partition {name}: {}", failed.reason))?;
        if let Some(initramfs) = parts.initramfs {
            write(&folder.join(initrd_file(&name)), &initramfs, 0o644)?;
            let kernel = folder.join(KERNEL_FILE);
            fs::copy(&parts.kernel, &kernel)
                .with_context(|| format!("{} cannot be written", kernel.display()))?;
        }
        let after = set.partitions.get(&name).map(|entry| entry.after.clone()).unwrap_or_default();
        prepared.push(Prepared { spec: charge.spec, shares: parts.shares, restart: charge.restart, after });
        qemu = parts.qemu;
    }
    Ok((prepared, qemu))
}

fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let open = fs::OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(path);
    open.and_then(|mut file| file.write_all(content))
        .with_context(|| format!("{} cannot be written", path.display()))
}
