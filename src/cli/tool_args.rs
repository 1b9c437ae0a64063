//! Arguments of all verbs that start guests.

use clap::Args;

/// What guests are made of, for the verbs that start some.
#[derive(Debug, Default, Clone, Args)]
pub struct ToolArgs {
    /// Guest kernel (bzImage or vmlinux)
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<String>,
    /// Modules folder of the guest's kernel, that of --kernel or the one that is found [default: looked for beside it]
    #[arg(long, value_name = "DIR")]
    pub modules: Option<String>,
    /// QEMU binary
    #[arg(long, value_name = "NAME|PATH")]
    pub qemu: Option<String>,
}
