//! Hands descriptors to a child under the numbers they have here.

#![expect(unsafe_code, reason = "descriptors are handed to the child between fork and exec")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// Lets the child of `command` have `descriptors`. They must stay open until it was started, and are never marked as
/// inheritable here: another child started meanwhile does not get them.
pub fn inherit(command: &mut Command, descriptors: &[OwnedFd]) {
    let numbers: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let in_child = move || numbers.iter().try_for_each(|number| keep_open(*number));
    // SAFETY: only system calls are made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
}

fn keep_open(number: i32) -> io::Result<()> {
    // SAFETY: the caller of `inherit` keeps the descriptor open until the child was started.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(descriptor.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_under_their_numbers() {
        let (read, write) = io::pipe().unwrap();
        let write = OwnedFd::from(write);
        let mut shell = Command::new("sh");
        // Not `>&12`: some shells take one digit only.
        shell.arg("-c").arg(format!("echo here > /proc/self/fd/{}", write.as_raw_fd()));
        let descriptors = vec![write];
        inherit(&mut shell, &descriptors);
        let mut child = shell.spawn().unwrap();
        drop(descriptors);
        assert_eq!(io::read_to_string(read).unwrap(), "here\n");
        assert!(child.wait().unwrap().success());
    }
}
