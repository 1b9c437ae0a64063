//! `bulkhead up --emit`: writes a set for another manager, with everything that its partitions boot.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use nix::unistd::geteuid;

use super::ending::{Ending, OrStop, Verdict};
use super::set_args::{EmitFor, SplitAt, UpArgs};
use super::up::told;
use super::{file, output};
use model::partition::set::{Faults, PartitionSet, PartitionUnit, Tools, UnitSpec};
use partition::emit::boot::{self, AtBoot};
use partition::emit::{Emission, KERNEL_FILE, Manager, Prepared, emit, initrd_file, output_folder, shell};
use partition::image::Around;
use partition::run::{Surroundings, can_be_left_alone, unattended};
use partition::set::images;
use partition::set::resolve::kept;
use partition::set::root::STATE_VARIABLE;
use platforms::ledger::Ledger;
use platforms::own_folder::{OwnFolder, check_way};
use platforms::sweep::new_folder;
use platforms::vm::qemu::Engine;

/// Variables that say where our folders are: a service has none of its caller's.
const FOLDERS: [&str; 5] =
    ["BULKHEAD_CACHE", STATE_VARIABLE, "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// Writes the files, says which, and what is otherwise than with us.
pub fn run(
    args: &UpArgs,
    whose: EmitFor,
    set: &PartitionSet,
    text: &str,
    tools: &Tools,
    exe: &Path,
) -> Verdict {
    // Nobody listens at the sockets of plugs, so it does not matter where they would be.
    let mut faults = Faults::default();
    let mut around = Around { cache: &tools.cache, is_wanted: &|| true, tell: &mut |text| output::say(text) };
    let images = images::of(set, &mut around, &mut faults);
    let kept = kept(set, tools, Path::new("/"), &images, &mut faults);
    let faults = Vec::from(faults);
    if !faults.is_empty() {
        return Err(told(&args.file, text, faults)).or_bad_input();
    }
    let (manager, word) = match whose {
        EmitFor::Libvirt => (Manager::Libvirt, "libvirt"),
        EmitFor::Qemu => (Manager::Qemu, "qemu"),
        EmitFor::Systemd => (Manager::Systemd, "systemd"),
        EmitFor::Boot => return at_boot(args, set, exe),
    };
    let units = kept.into_iter().filter_map(|kept| match kept.unit {
        UnitSpec::Partition(unit_spec) => Some(*unit_spec),
        UnitSpec::Switch(_) => None,
    });
    let units: Vec<_> = units.collect();
    for unit_spec in &units {
        can_be_left_alone(&unit_spec.spec)
            .map_err(|failed| anyhow!("partition {}: {}", unit_spec.spec.name, failed.reason))
            .or_bad_input()?;
    }
    let folder = made(args, set, word).or_bad_input()?;
    let (partitions, qemu, engine) = prepare(units.into_iter(), set, tools, exe, &folder).or_lacking()?;
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
        file::write(&path, file.text.as_bytes(), mode).or_lacking()?;
        output::data(&format!("{}\n", path.display())).or_lacking()?;
    }
    Ok(Ending::Done)
}

/// Writes the service that brings the set up, and says what enables it.
fn at_boot(args: &UpArgs, set: &PartitionSet, exe: &Path) -> Verdict {
    let file = args.file.canonicalize().or_bad_input()?;
    for path in [exe, &file] {
        nobody_elses(path).or_bad_input()?;
    }
    let tools = &args.tools;
    let given = [("--kernel", &tools.kernel), ("--modules", &tools.modules), ("--qemu", &tools.qemu)];
    let given = given.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value.clone()?]));
    let split = args.split.map(|SplitAt::Node| ["--split".to_owned(), "node".to_owned()]);
    let words: Vec<String> = given.chain(split).flatten().collect();
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| (name, value));
    let env: Vec<(&str, String)> = FOLDERS.into_iter().filter_map(named).collect();
    let is_root = geteuid().is_root();
    let boot = AtBoot { set: &set.name, exe, file: &file, words: &words, env: &env, is_root };
    let unit = boot::write(&boot).map_err(anyhow::Error::msg).or_bad_input()?;
    let path = made(args, set, "boot").or_bad_input()?.join(format!("bulkhead-{}.service", set.name));
    file::write(&path, unit.as_bytes(), 0o644).or_lacking()?;
    output::data(&format!("{}\n", path.display())).or_lacking()?;
    let whose = if is_root { "" } else { " --user" };
    output::say(&format!(
        "at each boot, and now: systemctl{whose} enable --now {}",
        shell(&path.to_string_lossy())
    ));
    if !is_root {
        output::say("a user's services begin at the first login, or at boot after loginctl enable-linger");
    }
    Ok(Ending::Done)
}

/// What is run at each boot must be nobody's who could have us run something else then.
fn nobody_elses(path: &Path) -> anyhow::Result<()> {
    check_way(path)?;
    let found = fs::metadata(path).with_context(|| path.display().to_string())?;
    let is_ours = found.uid() == 0 || found.uid() == geteuid().as_raw();
    if is_ours && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    Err(anyhow!(
        "{}: what is run at each boot must be root's or yours and writable by nobody else, got user {owner}, mode {mode:o}",
        path.display()
    ))
}

fn made(args: &UpArgs, set: &PartitionSet, word: &str) -> anyhow::Result<PathBuf> {
    let folder = &args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-{word}", set.name)));
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))
}

/// Writes what partitions boot, and returns them with QEMU's path and what runs the CPUs.
fn prepare(
    units: impl Iterator<Item = PartitionUnit>,
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
    for unit_spec in units {
        let name = unit_spec.spec.name.clone();
        around.names = set.names_for(&name).unwrap_or_default();
        let parts = unattended(&unit_spec.spec, &around)
            .map_err(|failed| anyhow!("partition {name}: {}", failed.reason))?;
        if let Some(initramfs) = parts.initramfs {
            // The program's environment is in it.
            file::write(&folder.join(initrd_file(&name)), &initramfs, 0o600)?;
            let kernel = fs::read(&parts.kernel)
                .with_context(|| format!("{} cannot be read", parts.kernel.display()))?;
            file::write(&folder.join(KERNEL_FILE), &kernel, 0o644)?;
        }
        let after = set.partitions.get(&name).map(|entry| entry.after.clone()).unwrap_or_default();
        let is_watched = unit_spec.ready.is_some() || unit_spec.health.is_some();
        let (shares, restart) = (parts.shares, unit_spec.restart);
        prepared.push(Prepared { spec: unit_spec.spec, shares, restart, after, is_watched });
        (qemu, engine) = (parts.qemu, parts.engine);
    }
    Ok((prepared, qemu, engine))
}
