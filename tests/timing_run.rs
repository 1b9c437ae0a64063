//! The probes ftq, wakeup and frames through the whole program: measured (made up), judged, drawn.

use std::fs;

use assert_cmd::Command;
use bulkhead::campaign::read_results;
use bulkhead::probes::ProbeKind;

const EXPERIMENT: &str = r#"
name = "timing"
[repeat]
min = 6
max = 6
[[platform]]
label = "fast"
kind = "fake"
script = { noise_percent = 5 }
[[platform]]
label = "slow"
kind = "fake"
script = { slowdown_percent = 200, noise_percent = 5 }
[probe.ftq]
[probe.wakeup]
[probe.frames]
"#;

#[test]
fn they_are_measured_compared_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let (experiment, out) = (folder.path().join("timing.toml"), folder.path().join("run"));
    fs::write(&experiment, EXPERIMENT).expect("written");
    let measured = Command::cargo_bin("bulkhead")
        .expect("built")
        .args(["measure", "--experiment"])
        .arg(&experiment)
        .arg("--out")
        .arg(&out)
        .assert()
        .success();
    let said = String::from_utf8_lossy(&measured.get_output().stdout).into_owned();
    assert!(said.contains("MADE UP: the figures of fast, slow"), "{said}");
    let results = read_results(&out.join("results.json")).expect("readable");
    assert!(results.failures.is_empty(), "{:?}", results.failures);
    assert_eq!(results.made_up, ["fast", "slow"], "nothing was run");
    for probe in [ProbeKind::Ftq, ProbeKind::Wakeup, ProbeKind::Frames] {
        for platform in ["fast", "slow"] {
            let is_it = |cell: &&bulkhead::model::results::CellResult| {
                cell.cell.probe == probe && cell.cell.platform == platform
            };
            let cell = results.cells.iter().find(is_it).expect("measured");
            assert!(cell.detail.is_some() && cell.done == 6, "{probe} on {platform}");
            assert!(cell.metrics[0].estimate.estimate().is_some(), "{probe}: the main figure has no value");
        }
    }
    let page = fs::read_to_string(out.join("report.html")).expect("there");
    for wanted in [
        "Spectrum of the time taken away",
        "the timer tick (CONFIG_HZ=250)",
        "next frame is due",
        "Latest",
        "1 in 1000",
    ] {
        assert!(page.contains(wanted), "no \"{wanted}\" in the report");
    }
}
