//! Conformance: one body, run against every platform that can be had here.
//!
//! A platform that is not available is skipped.

#[path = "conformance/body.rs"]
mod body;

use bulkhead::model::experiment::{FakeScript, PlatformSpec};
use bulkhead::model::platform::Accelerator;
use bulkhead::units::names::PlatformKind;
use skips::{Need, skip};

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
    // Labelled apart, so that requiring containers does not require this runtime, too.
    let (label, runtime) = ("container-runc".to_owned(), Some("runc".to_owned()));
    body::conforms(&PlatformSpec { label, runtime, ..PlatformSpec::of_kind(PlatformKind::Container) });
}

/// Everything again as an ordinary user, where this test is run by root: containers get a user namespace.
#[test]
fn container_conforms_without_root() {
    if !nix::unistd::geteuid().is_root() {
        return skip(
            Need::Root,
            "only root can become an ordinary user; container_conforms is this test then",
        );
    }
    let dir = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a directory");
    let readable_by_all = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    std::fs::set_permissions(dir.path(), readable_by_all).expect("ours");
    // Both programs may lie where that user cannot reach them.
    let copy = |from: &std::path::Path, name: &str| {
        let to = dir.path().join(name);
        std::fs::copy(from, &to).expect("copied");
        to
    };
    let test = copy(&std::env::current_exe().expect("this test"), "test");
    let program = copy(&body::binary(), "bulkhead");
    // What that user leaves out is left out here.
    let record = dir.path().join("skips");
    std::fs::write(&record, "").expect("ours");
    std::os::unix::fs::chown(&record, Some(65534), Some(65534)).expect("root may");
    let output = std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
        .arg(&test)
        .args(["--exact", "conformance::container_conforms", "--nocapture"])
        .env("TMPDIR", dir.path())
        .env(skips::RECORD, &record)
        .env(body::BINARY, program)
        .output()
        .expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"));
    let left_out = std::fs::read_to_string(&record).expect("ours");
    if !left_out.is_empty() {
        skip(Need::Container, left_out);
    }
}

/// The same where guests are not translated; without it their instructions run hundreds of times slower.
#[test]
fn vm_under_kvm_conforms() {
    let label = "vm-kvm".to_owned();
    let accelerator = Accelerator::Kvm;
    body::conforms(&PlatformSpec { label, accelerator, ..PlatformSpec::of_kind(PlatformKind::Vm) });
}

#[test]
fn vm_conforms() {
    body::conforms(&PlatformSpec::of_kind(PlatformKind::Vm));
}
