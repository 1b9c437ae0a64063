//! What the environment says about this rank: see [`Settings`].

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::fault::Fault;

/// Bytes of a section that we make ourselves, unless set otherwise.
const SECTION_BYTES: u64 = 16 << 20;

/// Most ranks: one ring to each other rank, and a section holds 64.
pub const MOST_RANKS: u32 = 65;

/// A rank's place in the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Folder with one section per rank, `rank-K`: `BULKHEAD_FABRIC_SECTIONS`.
    pub sections: PathBuf,
    /// Bytes of a section that we make ourselves: `BULKHEAD_FABRIC_SECTION_BYTES`, 16 MiB if unset.
    pub section_bytes: u64,
    /// Hash of the host's identity: `BULKHEAD_FABRIC_HOST`.
    pub host: u64,
    /// Where ranks of other hosts may connect: `BULKHEAD_FABRIC_ADDRESS`; nothing listens if unset.
    pub address: Option<Ipv4Addr>,
    /// Hash of the run's identity: `BULKHEAD_FABRIC_RUN`.
    pub run: u64,
    /// Our rank: `OMPI_COMM_WORLD_RANK`, `PMIX_RANK` or `PMI_RANK`.
    pub rank: u32,
    /// Number of ranks: `OMPI_COMM_WORLD_SIZE` or `PMI_SIZE`.
    pub size: u32,
    /// Ranks on this machine: `OMPI_COMM_WORLD_LOCAL_SIZE`, one if unset.
    pub local_size: u32,
    /// Whether another rank of the run has started this one (`MPI_Comm_spawn`): Open MPI's `OMPI_PARENT_PORT`.
    pub is_child: bool,
    /// Whether to say what is done: `BULKHEAD_FABRIC_DEBUG=1`.
    pub debug: bool,
}

impl Settings {
    /// Reads the environment through `get`.
    ///
    /// # Errors
    /// Says which variable is missing or not what it should be.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Fault> {
        let text = |name: &str| get(name).filter(|value| !value.is_empty());
        let first = |names: &[&str]| names.iter().find_map(|name| Some((text(name)?, (*name).to_owned())));
        let number = |names: &[&str]| -> Result<Option<u32>, Fault> {
            let Some((value, name)) = first(names) else { return Ok(None) };
            value.parse().map(Some).map_err(|_| format!("{name}: wanted a number, got \"{value}\"").into())
        };
        let sections = text("BULKHEAD_FABRIC_SECTIONS")
            .ok_or("BULKHEAD_FABRIC_SECTIONS is not set; name the folder that holds the ranks' sections")?;
        let rank = number(&["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"])?
            .ok_or("no rank in the environment; start the program with mpirun")?;
        let size = number(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"])?
            .ok_or("no number of ranks in the environment; start the program with mpirun")?;
        if !(1..=MOST_RANKS).contains(&size) || rank >= size {
            return Err(
                format!("wanted a rank below 1 to {MOST_RANKS} ranks, got rank {rank} of {size}").into()
            );
        }
        let section_bytes = match text("BULKHEAD_FABRIC_SECTION_BYTES") {
            None => SECTION_BYTES,
            Some(value) => value
                .parse()
                .map_err(|_| format!("BULKHEAD_FABRIC_SECTION_BYTES: wanted bytes, got \"{value}\""))?,
        };
        let address = text("BULKHEAD_FABRIC_ADDRESS");
        let address = address.map(|value| {
            let wrong = |_| format!("BULKHEAD_FABRIC_ADDRESS: wanted an IPv4 address, got \"{value}\"");
            value.parse::<Ipv4Addr>().map_err(wrong)
        });
        // Open MPI's job number serves where nobody gave the run a name; a name that is never set still tells nothing
        // wrong, because sessions tell runs apart, too.
        let run = first(&["BULKHEAD_FABRIC_RUN", "PMIX_NAMESPACE", "PMI_JOBID"]).map(|(value, _)| value);
        Ok(Self {
            sections: sections.into(),
            section_bytes,
            host: hash(&text("BULKHEAD_FABRIC_HOST").unwrap_or_default()),
            address: address.transpose()?,
            run: hash(&run.unwrap_or_default()),
            rank,
            size,
            local_size: number(&["OMPI_COMM_WORLD_LOCAL_SIZE"])?.unwrap_or(1),
            is_child: text("OMPI_PARENT_PORT").is_some(),
            debug: text("BULKHEAD_FABRIC_DEBUG").is_some_and(|value| value == "1"),
        })
    }
}

/// Fowler, Noll and Vo's hash (FNV-1a, 64 bits): tells names apart, hides nothing.
pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Fault> {
        Settings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const LEAST: [(&str, &str); 3] =
        [("BULKHEAD_FABRIC_SECTIONS", "/s"), ("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];

    #[test]
    fn a_rank_finds_its_place() {
        let settings = read(&LEAST).expect("enough");
        assert_eq!((settings.rank, settings.size, settings.address), (1, 4, None));
        let other = read(&[LEAST.as_slice(), &[("BULKHEAD_FABRIC_RUN", "2")]].concat()).expect("enough");
        assert_ne!(settings.run, other.run);
        let child = read(&[LEAST.as_slice(), &[("OMPI_PARENT_PORT", "1.0:2")]].concat()).expect("enough");
        assert!(child.is_child && !settings.is_child);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for left_out in 0..3 {
            let mut pairs = LEAST.to_vec();
            pairs.remove(left_out);
            assert!(read(&pairs).is_err());
        }
        for (name, value) in [
            ("BULKHEAD_FABRIC_ADDRESS", "host"),
            ("BULKHEAD_FABRIC_SECTION_BYTES", "much"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "-1"),
        ] {
            let error = read(&[LEAST.as_slice(), &[(name, value)]].concat()).expect_err("wrong");
            assert!(error.to_string().contains(name) && error.to_string().contains(value), "{error}");
        }
        let pairs = [("BULKHEAD_FABRIC_SECTIONS", "/s"), ("PMIX_RANK", "4"), ("PMI_SIZE", "4")];
        assert!(read(&pairs).expect_err("no such rank").to_string().contains("rank 4 of 4"));
    }
}
