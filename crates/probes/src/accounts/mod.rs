//! What the kernel of this instance counted while a probe ran: read just before and just after it, never meanwhile.
//!
//! ```text
//!  Watch::begin ─► Snapshot ─► probe ─► Snapshot ─► Watch::end ─► ProbeReport.accounts
//!       └ (asked for) tracer on ───────── tracer off ┘
//! ```
//!
//! Files of `/proc` are parsed by pure functions over their text ([`table`], `steal`, `devices`, `trace_text`); what a
//! container or a guest hides is written down as unknown, with the reason.

mod devices;
mod files;
mod scheduler_statistics;
mod snapshot;
mod steal;
pub mod table;
mod trace_text;
mod trace_windows;
mod tracefs;
mod tracer;
mod watch;
mod witness;

pub use files::read as read_bounded;
pub use scheduler_statistics::{SchedulerStatistics, bank};
pub use snapshot::Snapshot;
pub use tracefs::Tracefs;
pub use tracer::Tracer;
pub use watch::Watch;
pub use witness::Witness;
