//! Brings everybody together: the host's process, and two partitions with their sections and their network.
//!
//! ```text
//!  ledger ─► folder of the sections ─► folder of the link, switch ─► partitions a and b, booting at the same time
//! ```
//! Everything goes in the opposite order, when it is dropped.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub use super::handle::NoAnswer;
use super::workers::{
    CHANNEL_A, CHANNEL_B, HostWorker, PartitionPlan, PartitionWorker, address, section_size,
};
use partition::network::hardware_prefix;
use partition::network::own_switch::OwnSwitch;
use partition::run::Surroundings;
use partition::section_folder::SectionFolder;
use platforms::Cancel;
use platforms::host::threads_of_core;
use platforms::spawn::own_cpus;

/// Everybody who takes part.
pub struct Workers {
    /// The process on the host.
    pub(super) host: HostWorker,
    /// The partitions that lead and follow, where there are some.
    pub(super) partitions: Option<(PartitionWorker, PartitionWorker)>,
    /// Go after the partitions.
    _switch: Option<OwnSwitch>,
    _sections: Option<SectionFolder>,
}

impl Workers {
    /// Only the host's process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn on_host(exe: &Path, cancel: &Cancel) -> Result<Self, NoAnswer> {
        let host = HostWorker::start(exe, cancel).map_err(|error| {
            NoAnswer::Failed(format!("a process on the host cannot be started: {error}").into())
        })?;
        Ok(Self { host, partitions: None, _switch: None, _sections: None })
    }

    /// With two partitions, whose virtual CPUs are bound to these of the host one to one.
    ///
    /// # Errors
    /// What could not be started, and why.
    pub fn with_partitions(around: &Surroundings, cpus: &[u32], cancel: &Cancel) -> Result<Self, NoAnswer> {
        let failed = |what: &str, error: std::io::Error| NoAnswer::Failed(format!("{what}: {error}").into());
        let all = Self::on_host(&around.exe, cancel)?;
        let sections =
            SectionFolder::make(&around.ledger, [CHANNEL_A, CHANNEL_B].map(str::to_owned), section_size())
                .map_err(|error| failed("the memory of the sections cannot be made", error))?;
        // In the ledger's folder, which goes with all that is in it.
        let link = around.ledger.dir().join("link");
        DirBuilder::new()
            .mode(0o700)
            .create(&link)
            .map_err(|error| failed("a folder for the network", error))?;
        let prefix = hardware_prefix(&address(1))?;
        let mut switch = OwnSwitch::start(&link, prefix, around)
            .map_err(|error| failed("the switch of the network cannot be started", error))?;
        let start = |name: &str, number: u8| {
            let plan = PartitionPlan { name, number, link: &link, cpus, sections: &sections };
            PartitionWorker::start(&plan, around, cancel)
                .map_err(|error| failed(&format!("partition {name} cannot be started"), error))
        };
        let (mut a, mut b) = (start(CHANNEL_A, 1)?, start(CHANNEL_B, 2)?);
        a.wait_until_started(cancel)?;
        b.wait_until_started(cancel)?;
        if let Some(how) = switch.how_it_ended() {
            return Err(NoAnswer::Failed(format!("the switch of the network {how}").into()));
        }
        Ok(Self { partitions: Some((a, b)), _switch: Some(switch), _sections: Some(sections), ..all })
    }
}

/// Two host CPUs for who leads and who follows: the first ones that are not the same core; none where there are no two.
pub fn two_cpus() -> Vec<u32> {
    let own: Vec<u32> = own_cpus().into_iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect();
    choose(&own, &|cpu| threads_of_core(Path::new("/"), cpu))
}

/// The first CPU, and the first one that does not share its core; any second one where all do.
fn choose(own: &[u32], core_of: &dyn Fn(u32) -> Option<model::partition::NumberList>) -> Vec<u32> {
    let Some((&first, rest)) = own.split_first() else { return Vec::new() };
    let siblings = core_of(first).unwrap_or_default();
    let apart = rest.iter().find(|cpu| !siblings.numbers().contains(cpu));
    match apart.or_else(|| rest.first()) {
        Some(&second) => vec![first, second],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_are_two_cores_where_that_can_be() {
        let pairs = |cpu: u32| format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1).parse().ok();
        assert_eq!(choose(&[0, 1, 2, 3], &pairs), [0, 2]);
        assert_eq!(choose(&[3, 4], &pairs), [3, 4]);
        assert_eq!(choose(&[0, 1], &pairs), [0, 1]);
        assert_eq!(choose(&[5, 6], &|_| None), [5, 6]);
        assert!(choose(&[7], &pairs).is_empty() && choose(&[], &pairs).is_empty());
    }
}
