//! `plan.html` in a real browser: it opens, asks nobody, says everything, scrolls in its own boxes alone, and stays small.

use crate::browser::cdp::{Browser, start_or_skip};

use std::fmt::Write as _;
use std::path::Path;

use bulkhead::model::partition::NumberList;
use bulkhead::model::plan::{
    Elsewhere, Goal, GoalValue, NeedUnit, OtherPlace, OtherValue, PLAN_SCHEMA_VERSION, PartFailure, Placed,
    Plan, PlannedHost, PlannedTalk, Predicted, RefusedPlace, Rule, Seat, Spare, Survivor,
};
use bulkhead::model::system::{KnownHost, Level, System};
use bulkhead::report::plan_page;
use bulkhead::units::{Bytes, Mebibytes, Micros, Millis};

/// CPUs of a made host: two sockets of two memory nodes.
const CPUS: u32 = 32;

/// A system of hosts and partitions, two CPUs each, everybody on the next free ones; every fourth pair shares its CPUs.
fn made(hosts: u32, partitions: u32) -> (System, Vec<KnownHost>, Plan) {
    let mut text = format!("[host.rack]\ncount = {hosts}\nreserve_cpus = 2\n");
    for node in 0..4 {
        let (first, socket) = (node * 4, node / 2);
        let cores: Vec<String> = (first..first + 4).map(|core| format!("\"{core},{}\"", core + 16)).collect();
        let half = |from: u32| format!("\"{from}-{},{}-{}\"", from + 1, from + 16, from + 17);
        let _ = writeln!(
            text,
            "[[host.rack.node]]\nnumber = {node}\nsocket = {socket}\ncpus = \"{first}-{},{}-{}\"\nmemory_mib = 32768\n\
             hugepages_mib = 8192\ncores = [{}]\ncaches = [{}, {}]",
            first + 3,
            first + 16,
            first + 19,
            cores.join(", "),
            half(first),
            half(first + 2),
        );
    }
    text.push_str("[[host.rack.disk]]\nname = \"vda\"\nnode = 0\nbytes_per_s = 500_000_000\n");
    text.push_str("[[host.rack.nic]]\nname = \"eth0\"\nbytes_per_s = 1_250_000_000\n");
    for number in 1..=partitions {
        let shared = if number % 4 == 0 { "cpu = \"shared\", share_percent = 50, " } else { "" };
        let _ = writeln!(
            text,
            "[partition.p{number}]\nprogram = [\"/bin/true\"]\ncpus = 2\nmemory_mib = 1024\n\
             needs = {{ {shared}disk = {{ bytes_per_s = 10_000_000 }} }}"
        );
    }
    let system = System::from_toml(&text, "made")
        .unwrap_or_else(|errors| panic!("{}", errors.in_file(Path::new("made"))));
    let entry = &system.hosts["rack"];
    let known = entry.known("rack", entry.shape());
    let plan = plan(&known, partitions);
    (system, known, plan)
}

fn plan(hosts: &[KnownHost], partitions: u32) -> Plan {
    let place = |at: u32| {
        let hosts_of = u32::try_from(hosts.len()).unwrap();
        let (host, slot) = (&hosts[(at % hosts_of) as usize], at / hosts_of);
        let core = 2 + slot % 14;
        (host.name.clone(), core / 4, core)
    };
    let placed = |at: u32| {
        let (host, node, core) = place(at);
        let (spare, spare_node, _) = place(at + 1);
        Placed {
            name: format!("p{}", at + 1),
            of: format!("p{}", at + 1),
            replica: 1,
            host,
            seats: vec![Seat {
                node,
                cpus: NumberList::of([core, core + 16]),
                memory_mib: Mebibytes::from_mib(1024),
            }],
            disk: Some("vda".to_owned()),
            nic: None,
            spare: at.is_multiple_of(5).then(|| Spare { host: spare, nodes: NumberList::of([spare_node]) }),
            elsewhere: elsewhere(at),
        }
    };
    let goal = |goal, value, least| GoalValue { goal, value, least };
    let talk = |at: u32| PlannedTalk {
        from: format!("p{at}"),
        to: format!("p{}", at + 1),
        bytes_per_s: Bytes::from_bytes(1_000_000),
        within: if at.is_multiple_of(2) { Level::Switch } else { Level::Node },
        latency_us: Micros::from_micros(500),
    };
    let predicted = |at: u32| Predicted {
        name: format!("p{at}"),
        need: "disk.longest_stall_ms".to_owned(),
        unit: NeedUnit::Ms,
        wanted: Some(1000),
        low: 300,
        high: 500 + u64::from(at % 400),
        is_assumed: at.is_multiple_of(3),
    };
    let planned_host = |host: &KnownHost| PlannedHost {
        name: host.name.clone(),
        reserved_cpus: NumberList::of([0, 16]),
        from: None,
        set_file: Some(format!("{}.set.toml", host.name)),
    };
    Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        system: "made <b>bold</b>".to_owned(),
        goals: vec![
            goal(Goal::Hosts, 2, 2),
            goal(Goal::BetweenHosts, 1_000_000, 1_000_000),
            goal(Goal::FullestNode, 50, 40),
        ],
        hosts: hosts.iter().map(planned_host).collect(),
        partitions: (0..partitions).map(placed).collect(),
        talks: (1..partitions).map(talk).collect(),
        predictions: (1..=partitions).map(predicted).collect(),
        failures: hosts.iter().map(failure).collect(),
        assumed: vec!["a message between hosts takes 500 µs: <script>alert(1)</script>".to_owned()],
        notes: vec!["a note".to_owned()],
    }
}

/// Other places: one that costs, none, one that is as good, and of every fourth nothing is known.
fn elsewhere(at: u32) -> Option<Elsewhere> {
    let refused = |node: u32, rules: &[Rule]| RefusedPlace {
        host: "rack-<i>1".to_owned(),
        nodes: NumberList::of([node]),
        rules: rules.to_vec(),
    };
    let cost = |goal, value| OtherValue { goal, value };
    let goals = match at % 4 {
        0 => vec![cost(Goal::BetweenHosts, 1_500_000), cost(Goal::FullestNode, 75)],
        3 => return None,
        _ => Vec::new(),
    };
    let best = OtherPlace { host: "rack-2".to_owned(), nodes: NumberList::of([1]), goals };
    Some(Elsewhere {
        places: 7,
        looked_at: 7,
        possible: u64::from(at % 4 != 1),
        not_known: u64::from(at % 4 == 2),
        best: (at % 4 != 1).then_some(best),
        refused: vec![refused(0, &[Rule::Cpus]), refused(2, &[Rule::Cpus]), refused(3, &[])],
    })
}

/// What goes when a host dies: nothing, but of the first and its like.
fn failure(host: &KnownHost) -> PartFailure {
    let survivor = Survivor {
        of: "p2".to_owned(),
        by: "p2".to_owned(),
        on: "rack-1".to_owned(),
        away_ms: Millis::from_millis(900),
    };
    PartFailure {
        part: format!("host {}", host.name),
        lost: if host.name.ends_with('1') { vec!["p1".to_owned()] } else { Vec::new() },
        survive: vec![survivor],
    }
}

/// Opens it in a window of this width; the page must be quiet and no wider than the window.
fn opened(browser: &mut Browser, html: &str, width: u32, theme: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.html");
    std::fs::write(&file, html).unwrap();
    browser.show_as(width, 900, theme, "screen");
    browser.open(&file);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let own = format!("file://{}", file.display());
    let foreign: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with("data:") && *url != own).collect();
    assert_eq!(foreign, Vec::<String>::new(), "requests leave the file");
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)");
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    assert_eq!(wide, serde_json::json!(width), "the page scrolls sideways");
    folder
}

#[test]
fn a_plan_is_drawn_and_told() {
    let Some(mut browser) = start_or_skip() else { return };
    let (system, hosts, plan) = made(2, 20);
    let html = plan_page::html(&system, &hosts, &plan);
    for (width, theme) in [(1280, "light"), (390, "dark")] {
        let _folder = opened(&mut browser, &html, width, theme);
        let text = browser.evaluate("document.body.innerText");
        let text = text.as_str().unwrap();
        for wanted in [
            "Plan of made <b>bold</b>",
            "All needs hold.",
            "fullest memory node",
            "not proven",
            "One single point of failure: host rack-1.",
            "Why there",
            "rack-2\u{a0}node\u{a0}1",
            "488 KiB/s more between hosts, fullest memory node 75 %, not 50 %",
            "as good",
            "nowhere",
            "rack-<i>1 nodes 0,2 (cpus), rack-<i>1 node 3 (several rules); not known of 1",
            "Who speaks with whom",
            "What goes between places",
            "p20",
            "900 ms away",
            "<script>alert(1)</script>",
            "a note",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
    // Every CPU has its square, whose title says who sits there.
    let titles = "[...document.querySelectorAll('svg.plan g > title')].map(t => t.textContent).filter(t => t.startsWith('CPU '))";
    let squares = browser.evaluate(&format!("{titles}.length"));
    assert_eq!(squares, serde_json::json!(2 * CPUS));
    let told = browser.evaluate(&format!("{titles}.join('\\n')"));
    let told = told.as_str().unwrap();
    assert!(told.contains("CPU 0: the host's own"), "{told}");
    assert!(told.contains("CPU 2: p1\n"), "{told}");
    assert!(told.contains("shared, so far by p4 alone"), "{told}");
    // A square's number is not wider than the square.
    let over = browser.evaluate(
        "[...document.querySelectorAll('svg.plan text.tag')].filter(t => t.getBBox().width > \
         t.previousElementSibling.getBBox().width).length",
    );
    assert_eq!(over, serde_json::json!(0), "numbers that leave their squares");
}

#[test]
fn a_plan_of_64_hosts_and_1000_partitions_stays_legible_and_small() {
    let Some(mut browser) = start_or_skip() else { return };
    let (system, hosts, plan) = made(64, 1000);
    let html = plan_page::html(&system, &hosts, &plan);
    println!("{} bytes", html.len());
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    let _folder = opened(&mut browser, &html, 1280, "light");
    assert_eq!(browser.evaluate("document.querySelectorAll('.tiles li').length"), serde_json::json!(64));
    assert_eq!(browser.evaluate("document.querySelectorAll('details.host').length"), serde_json::json!(64));
    let text = browser.evaluate("document.body.innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("p1000") && text.contains("rack-64"));
}
