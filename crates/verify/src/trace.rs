//! From requirements to tests: those that want the same seen share one.

use std::collections::BTreeMap;

use model::requirement::{AsIs, RequiredLoad, RequiredMetric, Requirement, Requirements, Subject};
use model::verification::{TestKind, TestSpec};

use images::Digest;

/// The tests of these requirements, those that only look first, in the order of the requirements' ids.
pub fn of(requirements: &Requirements) -> Vec<TestSpec> {
    let mut all: BTreeMap<String, TestSpec> = BTreeMap::new();
    for (id, requirement) in requirements {
        let Some(kind) = kind(requirement) else { continue };
        let test = name(&kind);
        let spec = TestSpec { id: test.clone(), kind, requirements: Vec::new() };
        all.entry(test).or_insert(spec).requirements.push(id.clone());
    }
    let mut tests: Vec<TestSpec> = all.into_values().collect();
    tests.sort_by(|one, other| {
        order(&one.kind).cmp(&order(&other.kind)).then_with(|| one.requirements.cmp(&other.requirements))
    });
    tests
}

/// What must be done for a requirement; none where nothing can.
fn kind(requirement: &Requirement) -> Option<TestKind> {
    let subject = requirement.subject();
    let load = requirement.load.clone().unwrap_or(RequiredLoad::AsIs(AsIs::AsIs));
    Some(match requirement.metric.as_ref()? {
        RequiredMetric::Probe(_) => {
            let (probe, folder) = (requirement.probe()?, requirement.folder.clone());
            let (over, paused) = (requirement.over.clone(), requirement.paused);
            let probe_partition = requirement.probe_partition;
            TestKind::Probe { subject, probe, load, folder, over, paused, probe_partition }
        }
        RequiredMetric::Command(_) => TestKind::Command {
            subject: if requirement.inside { subject } else { Subject::Set },
            command: requirement.command.clone(),
            inside: requirement.inside,
            load,
        },
        RequiredMetric::Response(_) => {
            TestKind::Responses { subject, client: requirement.client.clone()?, load }
        }
        RequiredMetric::Capacity(_) => {
            TestKind::Capacity { subject, client: requirement.client.clone()?, load }
        }
        RequiredMetric::Outage(_) => {
            let (failure, client) = (requirement.failure.clone()?, requirement.client.clone()?);
            TestKind::Outage { failure, client, load }
        }
        RequiredMetric::Placement(_)
        | RequiredMetric::Pair(_)
        | RequiredMetric::Network(_)
        | RequiredMetric::Host(_) => TestKind::Look { subject },
    })
}

/// What takes no time first, what breaks something last.
const fn order(kind: &TestKind) -> u8 {
    match kind {
        TestKind::Look { .. } => 0,
        TestKind::Probe { .. } => 1,
        TestKind::Command { .. } | TestKind::Responses { .. } => 2,
        TestKind::Capacity { .. } => 3,
        TestKind::Outage { .. } => 4,
    }
}

/// Follows from what is done alone.
fn name(kind: &TestKind) -> String {
    let text = serde_json::to_string(kind).unwrap_or_default();
    let word = match kind {
        TestKind::Look { .. } => "look",
        TestKind::Probe { probe, .. } => probe.kind().as_str(),
        TestKind::Command { .. } => "command",
        TestKind::Responses { .. } => "responses",
        TestKind::Capacity { .. } => "capacity",
        TestKind::Outage { .. } => "outage",
    };
    format!("{word}-{}", Digest::of(text.as_bytes()).short())
}
