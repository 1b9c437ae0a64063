//! A job shaped like a build, as developers and build farms have it: sources are compiled by processes of their own, some at
//! once, then linked. "Compiler" (`compile`) and sources are in this binary, so the job runs where nothing else is: in an
//! empty container, in a guest without a file system. Source: kernbench in the LRZ workshop's and most other comparisons of
//! hypervisors.
//!
//! It stands for short processes, fresh memory, files read and written, branchy work on text, and a serial end. It does not
//! stand for how many instructions a real compiler's code has.
//!
//! ```text
//!  sources written │ compile compile … (jobs at once) ─► link │ folder removed
//!                  └────────────── wall time ──────────────┘
//! ```

pub(crate) mod check;
pub mod child;
pub mod compile;
pub mod detail;
pub mod folder;
pub mod link;
pub(crate) mod metrics;
pub mod object;
pub mod params;
pub(crate) mod pretend;
pub mod run;
pub mod source;
pub mod tokens;
pub mod verbs;

use units::Bytes;
use units::facts::MachineFacts;

use self::detail::BuildDetail;
use self::params::BuildParams;
use crate::probe::{About, Cost, Probe, Slowdown};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Build;

impl Probe for Build {
    type Params = BuildParams;
    type Detail = BuildDetail;

    const ABOUT: About = About {
        is_about_shares: true,
        slowdown: Slowdown { virtualized: 1.6, translated: 25.0 },
        ..About::new(
            "A compile job",
            "Source files are made and compiled, one compiler process each. It mixes computing, starting processes, \
             memory and files as real builds do.",
        )
    };

    fn cost(params: &BuildParams, _facts: &MachineFacts) -> Cost {
        let functions = f64::from(params.files) * f64::from(params.functions);
        Cost::work(functions, 250_000.0)
    }

    fn memory(params: &BuildParams, facts: &MachineFacts) -> Bytes {
        Bytes::from_bytes(u64::from(params.jobs.unwrap_or(facts.cpus)) * (16 << 20))
    }

    fn disk(params: &BuildParams) -> Bytes {
        run::room(params)
    }
}
