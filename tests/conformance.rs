//! Conformance: one body, run against every platform that can be had here.
//!
//! A platform that is not available is skipped with its reason; with `BULKHEAD_REQUIRE=container,vm` its absence is a
//! failure.

#[path = "conformance/body.rs"]
mod body;
#[path = "conformance/leftovers.rs"]
mod leftovers;

use bulkhead::model::experiment::{FakeScript, PlatformSpec};
use bulkhead::model::names::PlatformKind;

#[test]
fn fake_conforms() {
    let mut spec = PlatformSpec::of_kind(PlatformKind::Fake);
    spec.script = Some(FakeScript { delay_ms: 300, ..FakeScript::default() });
    body::conforms(&spec);
}

#[test]
fn native_conforms() {
    body::conforms(&PlatformSpec::of_kind(PlatformKind::Native));
}

#[test]
fn native_held_to_one_cpu_conforms() {
    let spec = PlatformSpec { cpus: Some(1), ..PlatformSpec::of_kind(PlatformKind::Native) };
    body::conforms(&spec);
}

#[test]
fn container_conforms() {
    body::conforms(&PlatformSpec::of_kind(PlatformKind::Container));
}

#[test]
fn container_held_to_one_cpu_conforms() {
    let spec = PlatformSpec { cpus: Some(1), ..PlatformSpec::of_kind(PlatformKind::Container) };
    body::conforms(&spec);
}

#[test]
fn container_of_another_runtime_conforms() {
    let runtime = Some("runc".to_owned());
    body::conforms(&PlatformSpec { runtime, ..PlatformSpec::of_kind(PlatformKind::Container) });
}

#[test]
fn vm_conforms() {
    body::conforms(&PlatformSpec::of_kind(PlatformKind::Vm));
}
