//! Extended attributes: those of users, as the host has them. Those that give rights are not there.

use std::sync::Arc;

use rustix::fs::{XattrFlags, fstat, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::attributes::with_access;
use crate::clock::TIME;
use crate::message::{Body, Fields, Result};
use crate::nodes::{ROOT, link_to};
use crate::notion::{ATTRIBUTE, is_possible};
use crate::server::{Files, Outcome};
use crate::stamp::Stamp;
use crate::written::WRITTEN;

/// Longest value (`XATTR_SIZE_MAX`) and longest list of names.
const LONGEST: usize = 65_536;
/// What guests may have.
const PREFIX: &[u8] = b"user.";

impl Files {
    pub(crate) fn get_xattr(&mut self, id: u64, mut fields: Fields<'_>, thread: u32) -> Result<Outcome> {
        let size = fields.number()?;
        fields.skip(4)?;
        let name = fields.text()?;
        // Of no file: PID 1 asks through the folder of all trees, which no program sees.
        if id == ROOT
            && let Some(answer) = self.answer_to_pid_1(name, size, thread)
        {
            return answer;
        }
        if name == ATTRIBUTE {
            return Err(Errno::NODATA);
        }
        if !name.starts_with(PREFIX) {
            self.is_asked_by_kernel();
            return Err(Errno::OPNOTSUPP);
        }
        self.check_meant(id)?;
        let path = self.any_path(id)?;
        let host = fstat(&path)?;
        if !is_possible(&host) {
            return Err(Errno::NODATA);
        }
        let link = link_to(&path);
        // What is only read stays as it is, its mode too.
        let rights = if self.is_writable(id)? { 0o400 } else { 0 };
        let value = with_access(&link, &host, rights, || {
            let mut value = vec![0; LONGEST];
            let length = getxattr(link.as_str(), name, &mut value)?;
            value.truncate(length);
            Ok(value)
        })?;
        sized(value, size).map(Outcome::from)
    }

    /// What is an attribute only in order to be asked for; none where it is another one.
    fn answer_to_pid_1(&mut self, name: &[u8], size: u32, thread: u32) -> Option<Result<Outcome>> {
        if name == TIME.as_bytes() {
            return Some(sized(crate::clock::value(), size).map(Outcome::from));
        }
        if name == WRITTEN.as_bytes() {
            return Some(self.next_written(size, thread));
        }
        self.locks.waits.answer(name, size, thread)
    }

    pub(crate) fn list_xattrs(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Body> {
        let size = fields.number()?;
        self.check_meant(id)?;
        let path = self.any_path(id)?;
        if !is_possible(&fstat(&path)?) {
            return sized(Vec::new(), size);
        }
        let mut names = vec![0; LONGEST];
        let length = listxattr(link_to(&path).as_str(), &mut names)?;
        names.truncate(length);
        let shown: Vec<&[u8]> = names
            .split_inclusive(|byte| *byte == 0)
            .filter(|name| name.starts_with(PREFIX) && name.strip_suffix(&[0]) != Some(ATTRIBUTE))
            .collect();
        sized(shown.concat(), size)
    }

    pub(crate) fn set_xattr(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Body> {
        let (size, flags) = (fields.number()?, fields.number()?);
        let name = fields.text()?;
        let value = fields.bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
        if value.len() > LONGEST {
            return Err(Errno::TOOBIG);
        }
        self.change_xattr(id, name, |link| setxattr(link, name, value, XattrFlags::from_bits_retain(flags)))
    }

    pub(crate) fn remove_xattr(&mut self, id: u64, mut fields: Fields<'_>) -> Result<Body> {
        let name = fields.text()?;
        if name == ATTRIBUTE {
            return Err(Errno::NODATA);
        }
        self.change_xattr(id, name, |link| removexattr(link, name))
    }

    fn change_xattr(&mut self, id: u64, name: &[u8], act: impl Fn(&str) -> Result<()>) -> Result<Body> {
        self.writable(id)?;
        if name == ATTRIBUTE {
            return Err(Errno::PERM);
        }
        if !name.starts_with(PREFIX) {
            return Err(Errno::OPNOTSUPP);
        }
        self.check_meant(id)?;
        let path = Arc::clone(&self.any_path(id)?);
        let host = fstat(&path)?;
        if !is_possible(&host) {
            return Err(Errno::PERM);
        }
        let link = link_to(&path);
        with_access(&link, &host, 0o200, || act(&link))?;
        self.moved_on(id, Stamp::of(&host), Stamp::of(&fstat(&path)?));
        Ok(Body::default())
    }
}

/// A value, or how long it is when that is what was asked.
pub fn sized(value: Vec<u8>, size: u32) -> Result<Body> {
    let length = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    match size {
        0 => Ok(Body::default().number(length).number(0).done()),
        size if size < length => Err(Errno::RANGE),
        _ => Ok(Body(value)),
    }
}
