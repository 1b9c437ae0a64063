//! Where a guest's memory lies on its host, looked at before and after a probe that is about memory.
//!
//! ```text
//!  before ─► begin … finish ─► after ─► into what the host saw (HostAccount)
//! ```
//! Not during it: reading walks the page tables of all of QEMU.

use platforms::Instance;
use probes::ProbeKind;
use units::accounts::{HostAccount, HostMemory};
use units::{Bytes, Reason};

/// What was seen before a probe; none where there is nothing to see.
#[derive(Debug)]
pub(super) struct Before(Option<Result<Vec<(u32, Bytes)>, Reason>>);

impl Before {
    /// Looks, if the probe is about memory and the instance does not see the host's nodes itself.
    pub(super) fn look(instance: &mut dyn Instance, probe: Option<ProbeKind>) -> Self {
        let wanted = probe.is_some_and(|probe| probe.about().is_about_memory);
        Self(if wanted { instance.memory_by_node() } else { None })
    }

    /// Looks again and puts both into what the host saw of the instance.
    pub(super) fn look_again(self, instance: &mut dyn Instance, host: &mut Option<HostAccount>) {
        let (Some(before), Some(host)) = (self.0, host) else { return };
        let gone = || Err("the instance ended meanwhile".into());
        let after = instance.memory_by_node().unwrap_or_else(gone);
        host.memory = Some(match before.and_then(|before| Ok((before, after?))) {
            Ok((before_bytes, after_bytes)) => HostMemory { before_bytes, after_bytes, unknown: None },
            Err(reason) => HostMemory { unknown: Some(reason.into()), ..HostMemory::default() },
        });
    }
}
