//! Loads kernel modules in a guest, in the order the host worked out.

use std::fs::File;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::guest::GuestModule;
use super::pid1::{in_context, say};
use units::Reason;

/// Loads them one after the other. One that is not required may refuse: its processor feature is not there.
pub fn load(modules: &[GuestModule]) -> Result<(), Reason> {
    for module in modules {
        let file = File::open(&module.path).map_err(in_context(&module.path))?;
        match finit_module(&file, c"", ModuleInitFlags::empty()) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(Errno::ENODEV) if !module.required => {}
            Err(error) if !module.required => say(&format!("module {} was left out: {error}", module.path)),
            Err(error) => return Err(format!("loading module {}: {error}", module.path).into()),
        }
    }
    Ok(())
}
