//! A virtual machine: this binary as PID 1 of a guest under QEMU, with the agent's link on a virtio port.
pub mod bzimage;
pub mod disk;
pub mod guest;
pub mod initramfs;
pub mod kernel;
pub mod modules;
pub mod qemu;
pub mod qmp;
pub mod unpack;
