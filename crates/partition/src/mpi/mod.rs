//! Runs an unmodified MPI program over several partitions of this host with the host's own Open MPI.
//!
//! ```text
//!  partition 1                              partition 2 …
//!   orterun (Open MPI's mpirun)              agent mpi-wait, at the partitions' own network
//!    ├─ agent mpi-launch ── token, command ──► │
//!    │        ◄───────── exit code ─────────── └─ sh -c "orted …"      Open MPI's daemon
//!    ├─ ranks 0, 1                                 └─ ranks 2, 3
//!    └═══ sections rank-0 … rank-3, each written by its own partition, read by all ═══┘
//! ```
//! [`layout`] spreads ranks, [`words`] is what Open MPI is told, [`agent`] starts its daemons in place of ssh, [`found`]
//! looks for what is needed on the host, [`library`] whether it can be loaded, [`sections`] makes their memory and reads
//! which ranks really came, [`heartbeat`] notices one that stands still.

pub mod agent;
pub mod found;
pub mod heartbeat;
pub mod layout;
pub mod library;
pub mod sections;
pub mod words;

/// Variable with the token that both halves of the launch agent know.
pub const TOKEN: &str = "BULKHEAD_MPI_TOKEN";
/// Variable with the address at which a partition waits for its daemon's command.
pub const WAIT_AT: &str = "BULKHEAD_MPI_WAIT_AT";
/// Where this program is in each partition: a path that needs no quotes anywhere.
pub const AGENT_PATH: &str = "/run/bulkhead-mpi/bulkhead";
/// Where the first partition has the list of where further ranks are started.
pub const PLACES_PATH: &str = "/run/bulkhead-mpi/places";
