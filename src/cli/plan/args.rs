//! The command line of `plan`, as typed.

use std::path::PathBuf;

use clap::Args;

const PLAN_AFTER: &str = "\
In FILE: partitions as in the file of a set, what each needs, and the hosts:
  [host.a]
  from = \"here\"          # or \"ssh:NAME\", a file of doctor --host-file, or [[host.a.node]]
  [partition.db]
  program = [\"/usr/bin/db\"]
  cpus = 2
  memory_mib = 4096
  needs = { replicas = 2, isolation = \"cache\" }
  [partition.web]
  program = [\"/usr/bin/web\"]
  needs = { cpu = \"shared\", share_percent = 50, talks_to.db = { bytes_per_s = 1000000 } }
All keys: bulkhead schema system. The rules and the goals: docs/plan.md

In DIR afterwards:
  plan.json       who sits where, and what is proven
  plan.html       the same to look at
  HOST.set.toml   what bulkhead up takes, a file per host

Examples:
  bulkhead plan plant.toml
  bulkhead plan plant.toml --proof plant.proof
  bulkhead plan plant.toml --check plant-plan/plan.json --check-proof plant.proof
From a plan that there is, with as few moves as can be:
  bulkhead plan plant.toml --from plant-plan/plan.json
  bulkhead plan plant.toml --from plant-plan/plan.json --add more.toml --out new
  bulkhead plan plant.toml --from plant-plan/plan.json --drain a --out new
  bulkhead plan plant.toml --from plant-plan/plan.json --what-if host.a=lost --out if

Exit codes:
  0   planned, or the check found nothing wrong
  1   the needs cannot hold together, or a checked plan or proof is wrong
  2   bad input
  3   a host cannot be asked
  4   the time was over before a plan was found
  130 interrupted; the best so far is written";

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_AFTER)]
pub struct PlanArgs {
    /// The system, a TOML file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folder for the plan and its sets [default: NAME-plan]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
    /// Show all of it, not one screen
    #[arg(long)]
    pub full: bool,
    /// Begin with this plan: as few partitions as possible are moved
    #[arg(long, value_name = "PLAN")]
    pub from: Option<PathBuf>,
    /// One more file with partitions, networks and channels
    #[arg(long, value_name = "FILE")]
    pub add: Vec<PathBuf>,
    /// Nobody is left on this host
    #[arg(long, value_name = "HOST", requires = "from")]
    pub drain: Vec<String>,
    /// What if a part were gone: host.a=lost, host.a.disk.sda=lost, host.a.nic.eth0=lost
    #[arg(long, value_name = "PART=lost")]
    pub what_if: Vec<String>,
    /// Seconds after which the best plan so far is taken
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub budget_s: u32,
    /// Write why no plan is better, or why there is none, step by step
    #[arg(long, value_name = "FILE")]
    pub proof: Option<PathBuf>,
    /// Plan nothing: check that this plan keeps every rule and is worth what it says
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["add", "drain", "what_if", "out", "proof"])]
    pub check: Option<PathBuf>,
    /// Plan nothing: check this proof; with --check also that it is that plan's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["add", "drain", "what_if", "out", "proof"])]
    pub check_proof: Option<PathBuf>,
}
