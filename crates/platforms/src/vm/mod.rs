//! A virtual machine: this binary as PID 1 of a guest under QEMU, with the agent's link on a virtio port.
//!
//! Host side: [`platform`] is the platform; [`toolbox`] finds what guests are made of ([`kernel`], [`bzimage`], [`unpack`],
//! [`modules`]); [`accel`] tries KVM; [`payload`] and [`initramfs`] build the guest's first file system; [`qemu`] says
//! what machine it is, [`enclosure`] what it sees behind its wall, [`files`] what serves its file trees, [`machine`] runs it, [`inherit`], [`qmp`], [`disk`] and
//! [`network`] are its parts; [`system_view`] is what programs see of the host;
//! [`guest_memory`] looks where its memory lies on the host; [`migration`] takes the state of a machine out of QEMU and brings it in, [`saved`]
//! keeps it.
//!
//! Guest side: [`init`] is PID 1, [`guest_agent`] its child, which prepares the disk and, with [`guest_network`], the cards; [`guest`] is what the host tells
//! them. A guest with a program has no agent but [`guest_program`].

pub mod accel;
pub mod bzimage;
pub mod disk;
pub mod enclosure;
pub mod files;
pub mod guest;
pub mod guest_agent;
pub mod guest_memory;
pub mod guest_modules;
pub mod guest_network;
pub mod guest_program;
pub mod inherit;
pub mod init;
pub mod initramfs;
pub mod kernel;
pub mod machine;
pub mod migration;
pub mod modules;
pub mod network;
pub mod payload;
pub mod pid1;
pub mod platform;
pub mod qemu;
pub mod qmp;
pub mod rehearsal;
pub mod saved;
pub mod system_view;
pub mod toolbox;
pub mod unpack;
pub mod wrong_clock;
