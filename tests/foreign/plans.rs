//! What users write for `plan`, and what a plan and a certificate from somebody else may say.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use audit::certificate;
use bulkhead::model::plan::Plan;
use bulkhead::model::system::{HostShape, KnownHost, System};
use plan::{Answer, Question};

use super::assert_harmless;

/// A search of a mutated system ends after that.
const PATIENCE: Duration = Duration::from_millis(20);
/// Larger ones are read, not planned: a million of them would take days.
const MOST_PLACES: usize = 400;

fn known(system: &System) -> Vec<KnownHost> {
    let hosts = system.hosts.iter();
    hosts.flat_map(|(name, host)| host.known(name, host.shape())).collect()
}

/// A host as a user or another machine describes it.
pub fn host_file(bytes: &[u8]) -> bool {
    let read = HostShape::from_toml(&String::from_utf8_lossy(bytes));
    let Ok(shape) = read.map_err(|error| assert_harmless(&error.to_string())) else { return false };
    let written = shape.to_toml().expect("what was read can be written");
    assert_eq!(HostShape::from_toml(&written).expect("what was written can be read"), shape);
    true
}

/// A system with its hosts: what is planned for it passes the check of every rule, whatever it says.
pub fn system_file(bytes: &[u8]) -> bool {
    let system = match System::from_toml(&String::from_utf8_lossy(bytes), "plant") {
        Ok(system) => system,
        Err(errors) => {
            assert_harmless(&errors.to_string());
            return false;
        }
    };
    let hosts = known(&system);
    let nodes: usize = hosts.iter().map(|host| host.shape.nodes.len()).sum();
    let replicas: u32 = system.needs.values().map(|needs| needs.replicas).sum();
    if nodes * replicas as usize > MOST_PLACES {
        return true;
    }
    let began = Instant::now();
    let is_over = || began.elapsed() > PATIENCE;
    let question = Question { system: &system, hosts: &hosts, from: None, proof: false, is_over: &is_over };
    if let Answer::Planned(planned) = plan::plan(&question) {
        let broken = audit::broken_rules(&system, &hosts, &planned.plan);
        assert!(broken.is_empty(), "{broken:?}");
        let wrong = audit::wrong_claims(&system, &hosts, &planned.plan, None);
        assert!(wrong.is_empty(), "{wrong:?}");
        let (sets, _) = plan::sets(&system, &planned.plan);
        let placed: usize = sets.values().map(|set| set.partitions.len()).sum();
        assert!(placed >= planned.plan.partitions.len());
    }
    true
}

/// A plan from somebody else: it is checked, and another plan begins with it.
pub fn plan_file(bytes: &[u8]) -> bool {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return false };
    let system = SYSTEM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plan/plant.toml");
        let text = std::fs::read_to_string(folder).expect("it is there");
        System::from_toml(&text, "plant").expect("it is right")
    });
    let hosts = known(system);
    for broken in audit::broken_rules(system, &hosts, &plan) {
        assert!(!broken.to_string().is_empty());
    }
    let _ = audit::wrong_claims(system, &hosts, &plan, Some(&plan));
    let _ = audit::wrong_elsewhere(system, &hosts, &plan, Some(&plan));
    let began = Instant::now();
    let is_over = || began.elapsed() > PATIENCE;
    let question = Question { system, hosts: &hosts, from: Some(&plan), proof: false, is_over: &is_over };
    if let Answer::Planned(planned) = plan::plan(&question) {
        assert!(audit::broken_rules(system, &hosts, &planned.plan).is_empty());
        plan::steps(system, &hosts, &plan, &planned.plan);
    }
    true
}

/// A certificate from somebody else.
pub fn certificate(bytes: &[u8]) -> bool {
    match certificate::check(bytes) {
        Ok(_) => true,
        Err(refused) => {
            assert_harmless(&refused.to_string());
            false
        }
    }
}
