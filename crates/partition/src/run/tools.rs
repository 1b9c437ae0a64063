//! What partitions are made of, looked for: by whoever starts one, and by `up` before it begins.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Failed, Surroundings};
use crate::network::cards;
use model::experiment::PlatformSpec;
use model::partition::set::Tools;
use model::partition::{Content, PartitionSpec};
use platforms::vm::modules::ModulesError;
use platforms::vm::payload::{DISKS, GuestModules, SAVED_LAYER};
use platforms::vm::toolbox::{Toolbox, Unavailable};
use units::names::PlatformKind;

/// Whether QEMU, a kernel and the modules that these partitions need are on this host.
///
/// # Errors
/// What is missing, and what installs it.
pub fn all_there<'a>(
    specs: impl Iterator<Item = &'a PartitionSpec>,
    tools: &Tools,
    exe: &Path,
) -> Result<(), Failed> {
    let named = PlatformSpec {
        accelerator: tools.accelerator,
        qemu: tools.qemu.clone(),
        kernel: tools.kernel.clone(),
        modules: tools.modules.clone(),
        ..PlatformSpec::of_kind(PlatformKind::Vm)
    };
    // Partitions of one kind need the same: looked for once.
    let kinds: BTreeSet<Needs> = specs.map(Needs::of).collect::<Result<_, _>>()?;
    for needs in kinds {
        let find = |folder: Option<&Path>| needs.modules(folder);
        Toolbox::find_with(&named, exe, &tools.cache, None, &find).map_err(|missing| in_words(&missing))?;
    }
    Ok(())
}

/// What one partition is made of.
pub fn tools(spec: &PartitionSpec, named: &PlatformSpec, around: &Surroundings) -> Result<Toolbox, Failed> {
    find(&Needs::of(spec)?, named, around)
}

/// The same for one that QEMU alone keeps.
pub fn lone_tools(
    spec: &PartitionSpec,
    named: &PlatformSpec,
    around: &Surroundings,
) -> Result<Toolbox, Failed> {
    find(&Needs { is_alone: true, ..Needs::of(spec)? }, named, around)
}

fn find(needs: &Needs, named: &PlatformSpec, around: &Surroundings) -> Result<Toolbox, Failed> {
    let find = |folder: Option<&Path>| needs.modules(folder);
    Toolbox::find_with(named, &around.exe, &around.cache, around.counter_hz, &find)
        .map_err(|missing| in_words(&missing))
}

/// What the user named, in the words of the platform.
pub fn named(around: &Surroundings) -> PlatformSpec {
    PlatformSpec {
        accelerator: around.accelerator,
        qemu: around.qemu.clone(),
        kernel: around.kernel.clone(),
        modules: around.modules.clone(),
        ..PlatformSpec::of_kind(PlatformKind::Vm)
    }
}

fn in_words(unavailable: &Unavailable) -> Failed {
    Failed::own(unavailable.to_string())
}

/// For what a partition needs modules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Needs {
    disks: &'static [&'static str],
    /// Nobody is there to serve its files but QEMU.
    is_alone: bool,
    cards: Vec<&'static str>,
}

impl Needs {
    fn of(spec: &PartitionSpec) -> Result<Self, Failed> {
        let cards = cards(&spec.cards)?.modules;
        let is_saved = matches!(&spec.content, Content::Program(program) if program.layer.is_some());
        let disks = match (is_saved, spec.disks.is_empty()) {
            (true, _) => SAVED_LAYER,
            (false, false) => DISKS,
            (false, true) => &[],
        };
        Ok(Self { disks, is_alone: false, cards })
    }

    fn modules(&self, folder: Option<&Path>) -> Result<GuestModules, ModulesError> {
        if self.is_alone {
            return GuestModules::for_lone_qemu(folder, self.disks, &self.cards);
        }
        GuestModules::for_program(folder, self.disks, &self.cards)
    }
}
