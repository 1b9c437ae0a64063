//! A partition that nobody of us keeps: what another manager needs to boot it.

use std::path::PathBuf;

use super::assemble::{assemble, single_files};
use super::engine::choose;
use super::tools::{lone_tools, named};
use super::{Failed, Surroundings};
use model::experiment::Accelerator;
use model::partition::{CardSpec, Content, PartitionSpec};
use platforms::Cancel;
use platforms::vm::payload;
use platforms::vm::qemu::{Engine, ShareArgument};

/// What lies beside another manager's files.
#[derive(Debug)]
pub struct Unattended {
    /// The first file system of a program's partition.
    pub initramfs: Option<Vec<u8>>,
    /// The kernel, in the form that starts fastest.
    pub kernel: PathBuf,
    /// QEMU.
    pub qemu: PathBuf,
    /// What runs its CPUs: as was asked for, or, by a trial here, what works.
    pub engine: Engine,
    /// File trees that the first file system expects.
    pub shares: Vec<ShareArgument>,
}

/// Checks a partition like [`super::check`], and that it needs nothing that we alone can give it.
pub fn can_be_left_alone(spec: &PartitionSpec) -> Result<(), Failed> {
    super::check(spec)?;
    if let Content::Program(program) = &spec.content
        && let Some(secret) = program.secrets.first()
    {
        return Err(Failed::own(format!(
            "secret {}: what another manager boots lies in files, and a secret must not: leave it out, or open a folder with it",
            secret.name
        )));
    }
    if let Content::Program(program) = &spec.content
        && let Some(volume) = program.volumes.first()
    {
        return Err(Failed::own(format!(
            "volume {}: nobody would know that another manager uses it, so it could be removed meanwhile: open a folder with rw",
            volume.name
        )));
    }
    if let Content::Program(program) = &spec.content
        && let Some(layer) = &program.layer
    {
        return Err(Failed::own(format!(
            "saved layer {}: nobody would hold it against a second partition that writes to it under another manager: open a folder \
             with rw",
            layer.folder.display()
        )));
    }
    let opened = single_files(spec)?;
    let Some(file) = opened.first() else { return Ok(()) };
    let shown = file.display();
    Err(Failed::own(format!(
        "{shown} is a single file opened for writing, which no other manager can show a partition: \
         open the folder it lies in"
    )))
}

/// Makes what a partition boots without us. Its networks have one link each, whatever their number is with us.
///
/// # Errors
/// Everything that [`can_be_left_alone`] refuses, and what is missing here.
pub fn unattended(spec: &PartitionSpec, around: &Surroundings) -> Result<Unattended, Failed> {
    let mut spec = spec.clone();
    for card in &mut spec.cards {
        if let CardSpec::Switch { sockets, .. } = card {
            sockets.truncate(1);
        }
    }
    let spec = &spec;
    can_be_left_alone(spec)?;
    let failed = |error: std::io::Error| Failed::own(format!("the first file system: {error}"));
    let named = named(around);
    let tools = lone_tools(spec, &named, around)?;
    let engine = match around.accelerator {
        // It may be meant for a host that is not this one.
        Accelerator::Kvm => Engine::Kvm,
        Accelerator::Tcg | Accelerator::Auto => choose(&tools, &named, around, &Cancel::new(), &mut |_| {})?,
    };
    let mut made = assemble(spec, &around.names, tools.modules.files, false)?;
    if let Some(program) = &mut made.config.program {
        program.unattended = true;
    }
    let is_program = matches!(spec.content, Content::Program(_));
    let build = || payload::archive(&tools.program, &tools.modules, made.config, made.alone.as_deref());
    let initramfs = is_program.then(build).transpose().map_err(failed)?;
    let (kernel, qemu) = (tools.bootable.path, tools.qemu);
    Ok(Unattended { initramfs, kernel, qemu, engine, shares: made.extras.shares })
}
