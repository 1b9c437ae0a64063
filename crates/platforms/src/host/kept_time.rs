//! How well this host's clock is kept, as its kernel knows it from whoever keeps it.

#![expect(unsafe_code, reason = "adjtimex has no safe wrapper")]

use std::io;

use units::Nanos;

/// What the kernel knows of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptTime {
    /// Whether somebody keeps it.
    pub is_synchronized: bool,
    /// How far it may be from true time at most.
    pub largest_error: Nanos,
}

/// Asks the kernel; changes nothing.
///
/// # Errors
/// It does not say.
pub fn kept_time() -> io::Result<KeptTime> {
    // SAFETY: timex is plain data, of which all zeroes are a value: nothing is to be changed.
    let mut said: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes the one structure it is given.
    let state = unsafe { libc::adjtimex(&raw mut said) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_synchronized = state != libc::TIME_ERROR && said.status & libc::STA_UNSYNC == 0;
    let micros = u64::try_from(said.maxerror).unwrap_or(0);
    Ok(KeptTime { is_synchronized, largest_error: Nanos::from_nanos(micros.saturating_mul(1000)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_says_how_its_clock_is_kept() {
        let said = kept_time().expect("adjtimex without a change is for everybody");
        assert!(!said.is_synchronized || said.largest_error < Nanos::from_nanos(60_000_000_000), "{said:?}");
    }
}
