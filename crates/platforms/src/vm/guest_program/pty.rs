//! The guest's end of a terminal: a pseudo terminal whose master carries the bytes.

#![expect(unsafe_code, reason = "a terminal's size is set with an ioctl that has no safe wrapper")]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{PtyMaster, Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};

use super::super::pid1::in_context;
use model::partition::{TerminalSize, UserIds};
use units::Reason;

nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, Winsize);

/// A pseudo terminal.
pub struct Terminal {
    /// Carries the bytes; non-blocking.
    pub master: OwnedFd,
    /// The program's end.
    pub path: PathBuf,
}

impl Terminal {
    /// Makes one that belongs to `user`.
    pub fn open(size: TerminalSize, user: &UserIds) -> Result<Self, Reason> {
        let failed = || in_context::<nix::Error>("the terminal");
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).map_err(failed())?;
        grantpt(&master).map_err(failed())?;
        unlockpt(&master).map_err(failed())?;
        let path = PathBuf::from(ptsname_r(&master).map_err(failed())?);
        let owner = Some(nix::unistd::Uid::from_raw(user.uid));
        nix::unistd::chown(&path, owner, None).map_err(failed())?;
        let terminal = Self { master: owned(&master)?, path };
        terminal.resize(size)?;
        Ok(terminal)
    }

    /// Gives it another size; the program is told by SIGWINCH.
    pub fn resize(&self, size: TerminalSize) -> Result<(), Reason> {
        resize(&self.master, size)
    }
}

fn owned(master: &PtyMaster) -> Result<OwnedFd, Reason> {
    let copy = master.as_fd().try_clone_to_owned().map_err(in_context("the terminal"))?;
    fcntl(&copy, FcntlArg::F_SETFL(OFlag::O_RDWR | OFlag::O_NONBLOCK)).map_err(in_context("the terminal"))?;
    Ok(copy)
}

/// See [`Terminal::resize`].
pub fn resize(master: &OwnedFd, size: TerminalSize) -> Result<(), Reason> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open and the structure lives until the call returns.
    unsafe { set_size(master.as_raw_fd(), &raw const size) }
        .map(drop)
        .map_err(in_context("the terminal's size"))
}
