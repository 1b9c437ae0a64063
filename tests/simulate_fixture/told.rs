//! What is told at once, and how: names that nothing yields, cases in which something is wrong, what was simulated once, what was left out
//! or has no room; and that a folder's bytes depend on nothing but the scenario and its seed.

use std::fs;

use super::{TWO, bulkhead, folder, good, refused, stdout};

#[test]
fn a_name_that_no_case_yields_is_refused_before_the_run_with_its_line_and_the_nearest() {
    let typo = TWO.replace("metric = \"vm.A.cpus\"", "metric = \"vm.A.cpu\"");
    let line = typo.lines().position(|line| line.starts_with("metric")).unwrap() + 1;
    for more in [&[][..], &["--set", "vm.B.weight=2.0"]] {
        refused(
            &typo,
            more,
            &format!(
                "s.toml: line {line}: figure.0.metric: none of its cases yields the figure \"vm.A.cpu\""
            ),
        );
        refused(&typo, more, "did you mean 'vm.A.cpus'?");
    }
    let endless = TWO.replace("metric = \"vm.A.cpus\"", "metric = \"vm.B.wall_ns\"");
    refused(&endless, &[], "only a VM whose programs all end yields it");
    refused(TWO, &["--figure", "vm.*.cpu"], "--figure vm.*.cpu: no case yields such a figure; did you mean");
}

#[test]
fn what_is_wrong_in_a_case_names_it_with_key_and_value() {
    let sweep = format!("{TWO}\n[sweep]\n\"host.cpus\" = [1, 0]\n");
    refused(
        &sweep,
        &[],
        "case \"short turns, cpus 0\": host.cpus: 0 is out of bounds; allowed is 1 to 1024 (host.cpus = 0)",
    );
    // What the sweep makes impossible elsewhere.
    let pinned = TWO
        .replace("name = \"B\"\n", "name = \"B\"\ncpus = [1]\n")
        .replace("cpus = 1\npolicy", "cpus = 2\npolicy");
    let swept = format!("{pinned}\n[sweep]\n\"host.cpus\" = [2, 1]\n");
    refused(
        &swept,
        &[],
        "line 18: case \"short turns, cpus 1\": vm.1.cpus: there is no CPU 1: the host has 0 to 0 (host.cpus = 1)",
    );
    let free = swept.replace("cpus = [1]\n", "");
    refused(&free, &["--set", "vm.B.cpus=[1]"], "--set vm.B.cpus: case \"short turns, cpus 1\": vm.1.cpus");
    // An assumption that is tried in one of them only.
    let tried = TWO.replace("try_factors = [2.0]", "try_values = [0.0]");
    refused(&tried, &[], "(case \"long turns\")");
}

#[test]
fn all_files_of_a_folder_are_the_same_bytes_on_any_number_of_threads_and_at_any_time() {
    let dir = folder(&[("s.toml", TWO)]);
    good(&dir, &["simulate", "s.toml", "--out", "a", "--threads", "1"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    good(&dir, &["simulate", "s.toml", "--out", "b", "--threads", "2"]);
    let names = |of: &str| {
        let mut names: Vec<_> =
            fs::read_dir(dir.path().join(of)).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert!(names("a") == names("b") && names("a").len() >= 4, "{:?} {:?}", names("a"), names("b"));
    for name in names("a") {
        let read = |of: &str| fs::read(dir.path().join(of).join(&name)).unwrap();
        assert!(read("a") == read("b"), "{}", name.display());
    }
    // Shown again it is the same, too.
    let before = fs::read(dir.path().join("a/report.html")).unwrap();
    good(&dir, &["report", "a"]);
    assert!(before == fs::read(dir.path().join("a/report.html")).unwrap());
    good(&dir, &["compare", "a", "b", "--html", "c.html"]);
    assert!(fs::read_to_string(dir.path().join("c.html")).unwrap().contains("two (simulated, seed 7)"));
}

#[test]
fn what_cannot_differ_is_simulated_once_and_said_so() {
    let same = TWO.replace("jitter_us = 5000", "jitter_us = 0");
    let dir = folder(&[("s.toml", &same), ("r.toml", TWO)]);
    let text = good(&dir, &["simulate", "s.toml"]);
    assert!(text.contains("2 cases, once each: nothing in them is random"), "{text}");
    assert!(text.contains("1 of 1 predictions hold"), "{text}");
    assert!(good(&dir, &["simulate", "r.toml"]).contains("2 cases, 4 replications each, seed 7"));
    let one = good(&dir, &["simulate", "s.toml", "--replications", "1"]);
    assert!(one.contains("1 of 1 predictions hold") && !one.contains("not decided"), "{one}");
}

#[test]
fn runs_with_changed_parameters_can_be_left_out() {
    let dir = folder(&[("s.toml", TWO)]);
    let (with, without) =
        (good(&dir, &["simulate", "s.toml"]), good(&dir, &["simulate", "s.toml", "--no-sensitivity"]));
    assert!(with.contains("times 2: half of it") && !without.contains("times 2"), "{without}");
    assert!(
        without.contains("not tried: --no-sensitivity")
            && without.contains("vm.B.weight = 1.0: Nobody says."),
        "{without}"
    );
    assert_eq!(
        with.lines().take_while(|line| !line.starts_with("Parameters")).collect::<Vec<_>>(),
        without.lines().take_while(|line| !line.starts_with("Parameters")).collect::<Vec<_>>()
    );
}

#[test]
fn all_vms_are_shown_or_the_rest_is_counted() {
    let many = TWO
        .replace("name = \"B\"\n", "name = \"B\"\ncount = 30\n")
        .replace("key = \"vm.B.weight\"", "key = \"vm.A.weight\"");
    let cases = many.find("[[case]]").unwrap();
    let one = many.get(..cases).unwrap();
    let dir = folder(&[("one.toml", one), ("cases.toml", &many)]);
    let rows =
        |text: &str| text.lines().filter(|line| line.starts_with("  A ") || line.starts_with("  B-")).count();
    let text = good(&dir, &["simulate", "one.toml"]);
    assert!(rows(&text) == 20 && text.contains("  A ") && text.contains("and 11 more VMs: --full"), "{text}");
    let all = good(&dir, &["simulate", "one.toml", "--full"]);
    assert!(rows(&all) % 31 == 0 && all.contains("\n  B-30 ") && !all.contains("more VMs"), "{all}");
    let output = bulkhead(&dir, &["simulate", "cases.toml", "--no-sensitivity", "--out", "o"]);
    let text = stdout(&output);
    let shown = (1..=30).filter(|number| text.contains(&format!("B-{number}."))).count()
        + usize::from(text.contains(" A."));
    assert!(text.contains(&format!("and {} more VMs: --full", 31 - shown)), "{text}");
    assert!(good(&dir, &["report", "o", "--full"]).contains("B-30.host_share"));
    assert!(text.lines().chain(all.lines()).all(|line| line.chars().count() <= 80), "{text}{all}");
}

#[test]
fn the_help_fits_a_terminal() {
    let help = good(&folder(&[]), &["simulate", "--help"]);
    assert!(help.contains("--no-sensitivity") && help.contains("--full"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
}

#[test]
fn deadlines_fit_a_terminal_with_intervals_where_there_is_room() {
    let task = "{ program = \"periodic\", period_us = 10000, work_us = 1000, jobs = 90, jitter_us = 9000 }";
    let fwq = "{ program = \"fwq\", work_us = 700, samples = 50, jitter_us = 5000 }";
    let dir =
        folder(&[("s.toml", &TWO.replace(fwq, task).replace("[host]\n", "[host]\nstaggered = true\n"))]);
    let text = stdout(&bulkhead(&dir, &["simulate", "s.toml", "--no-sensitivity"]));
    assert!(text.contains("A.thread.0"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
