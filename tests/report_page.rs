//! Opens the page in a real headless browser: no complaint, no request, pictures that hold drawings, tables that say
//! what `results.json` says, no sideways scrolling on a phone, readable without scripts and in print.

use crate::browser;

use std::path::{Path, PathBuf};

use browser::cdp::{Browser, start_or_skip};
use browser::sample;
use bulkhead::campaign::shipped;
use bulkhead::model::classes;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::results::{CellResult, RunResults, Verdict};
use bulkhead::model::scenario::cases;
use bulkhead::model::simulation::WaitTimes;
use bulkhead::probes::ProbeKind;
use bulkhead::probes::params::ProbeSpec;
use bulkhead::report::{change, compare, page};
use bulkhead::sim::scenario::{self, Options, Study};
use bulkhead::units::Nanos;
use bulkhead::units::names::{LoadKind, PlatformKind};
use serde_json::Value;

fn written(name: &str, html: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, html).unwrap();
    (folder, file)
}

/// Opens every fold.
const OPEN_ALL: &str = "document.querySelectorAll('details').forEach(d => d.open = true)";

/// The sizes in which the first screen tells all: a laptop's and a phone's.
const SCREENS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

/// The sample run on four measured platforms, with the probes of the shipped default experiment.
fn default_like() -> RunResults {
    let mut run =
        sample::of(&shipped_default().probes.specs().iter().map(ProbeSpec::kind).collect::<Vec<_>>());
    // Three probes beside four neighbours, as there.
    run.cells.retain(|cell| {
        cell.cell.neighbour.is_none_or(|neighbour| {
            let is_loaded = matches!(cell.cell.probe, ProbeKind::Gap | ProbeKind::Fwq | ProbeKind::Disk);
            is_loaded && !matches!(neighbour.kind, LoadKind::Fork | LoadKind::Network)
        })
    });
    let second = |cell: &CellResult| {
        let mut cell = cell.clone();
        "gvisor".clone_into(&mut cell.cell.platform);
        cell
    };
    let copies: Vec<CellResult> =
        run.cells.iter().filter(|cell| cell.cell.platform == "vm").map(second).collect();
    run.cells.extend(copies);
    run.platforms[3].unavailable = None;
    run.verdicts.push(Verdict { platform: "gvisor".to_owned(), ..run.verdicts[1].clone() });
    run.isolation = bulkhead::analysis::isolation::matrices(&run);
    run.classes = bulkhead::analysis::suitability::judge(&run, &classes::shipped().unwrap());
    // The longest that a verdict can be.
    for verdict in run.classes.iter_mut().filter(|verdict| verdict.class == "real-time") {
        verdict.level = classes::Suitability::Unknown;
        verdict.needs_ns = Some(bulkhead::units::Nanos::from_nanos(3_300_000_000_000));
    }
    run
}

fn shipped_default() -> Experiment {
    Experiment::from_toml(shipped::text("default").unwrap()).unwrap()
}

fn assert_quiet(browser: &Browser, file: &Path) {
    let (what, own) = (file.display(), format!("file://{}", file.display()));
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}: the page complains");
    let foreign: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with("data:") && *url != own).collect();
    assert_eq!(foreign, Vec::<String>::new(), "{what}: requests leave the file");
}

/// `cell|platform|metric` to value, from the tables of figures.
fn figures_shown(browser: &mut Browser) -> std::collections::BTreeMap<String, f64> {
    let shown = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('tr[data-cell] td[data-value]')].map(td => { const row = td.parentElement.dataset;\
         return [row.cell + '|' + td.dataset.label + '|' + row.metric, td.dataset.value, td.textContent.trim()]; }))",
    );
    let shown: Vec<(String, String, String)> = serde_json::from_str(shown.as_str().unwrap()).unwrap();
    assert!(shown.iter().all(|(_, _, text)| !text.is_empty()), "a figure's cell is empty");
    shown.into_iter().map(|(key, value, _)| (key, value.parse().unwrap())).collect()
}

/// The same from the results.
fn figures_measured(run: &RunResults) -> std::collections::BTreeMap<String, f64> {
    let mut all = std::collections::BTreeMap::new();
    for cell in &run.cells {
        let neighbour = cell.cell.neighbour.map_or("none".to_owned(), |n| format!("{}@{}", n.kind, n.place));
        for metric in &cell.metrics {
            if let Some(estimate) = metric.estimate.estimate() {
                let probe = cell.cell.probe_words();
                let key = format!("{probe}|{neighbour}|{}|{}", cell.cell.platform, metric.id);
                all.insert(key, estimate.value);
            }
        }
    }
    all
}

#[test]
fn the_alarm_works() {
    let Some(mut browser) = start_or_skip() else { return };
    let bad = "<!doctype html><meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">\
               <img src='https://example.invalid/x.png'><script>console.log(1)</script>";
    let (_folder, file) = written("bad.html", bad);
    browser.open(&file);
    assert!(browser.complaints().len() >= 2, "{:?}", browser.complaints());
}

#[test]
fn the_page_is_quiet_complete_and_says_what_was_measured() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = sample::rich();
    let (_folder, file) = written("report.html", &page::html(&run));
    browser.show_as(1200, 800, "light", "screen");
    browser.open(&file);
    let ready = browser.evaluate(
        "(t => Math.round(t.domContentLoadedEventEnd - t.startTime))(performance.getEntriesByType('navigation')[0])",
    );
    println!("ready after {ready} ms");
    assert_quiet(&browser, &file);
    assert_eq!(figures_shown(&mut browser), figures_measured(&run));
    let drawings = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('.drawing svg')].map(svg => \
         [svg.getAttribute('aria-label'), svg.querySelectorAll('polyline,circle,polygon,rect').length]))",
    );
    let drawings: Vec<(String, u64)> = serde_json::from_str(drawings.as_str().unwrap()).unwrap();
    // The comparison, two time lines, gap 3, fwq 2, cpu, syscall, fork, latency, throughput 3, disk 6; then those of the
    // probes that the fake platform makes up. All are there, though folded away.
    assert!(drawings.len() >= 21, "{drawings:?}");
    assert!(drawings.iter().all(|(name, shapes)| !name.is_empty() && *shapes > 5), "{drawings:?}");
    let without = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('main>section')].filter(s => !s.querySelector('h2,p,table'))\
         .map(s => s.id))",
    );
    assert_eq!(without, "[]", "sections that say nothing");
    // The script ran: it is the one the policy names.
    assert_eq!(browser.evaluate("document.getElementById('theme').hidden"), Value::Bool(false));
}

/// A simulated scenario with everything its page can show; the waits are made up.
fn simulated() -> RunResults {
    let text = "name = \"two\"\nabout = \"Two VMs <share> a CPU.\"\n[host]\ncpus = 2\nstaggered = true\npolicy = { name = \"equal-per-vm\", quantum_us \
                = 1000 }\n[[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{ run = { program = \"fixed\", work_us = 20000 } }]\n[[vm]]\nname = \
                \"B\"\nvcpus = 2\nthread = [{ run = { program = \"fixed\", work_us = 20000 } }]\n[sweep]\n\"vm.B.vcpus\" = [1, 2, 4]\n\
                [[figure]]\ntitle = \"half\"\nmetric = \"vm.A.host_share\"\npublished = 0.5\ntolerance = 0.1\nsource = \"nobody\"\n\
                [[assumption]]\nkey = \"vm.A.weight\"\nwhy = \"It is free.\"\ntry_factors = [2.0]\n";
    let study = Study::new(cases(text, &[]).unwrap(), Options::default()).unwrap();
    let replications: Vec<_> = (0..study.jobs().len()).map(|number| study.run(number)).collect();
    let mut simulation = study.conclude(&replications);
    simulation.cases[1].waits.push(WaitTimes {
        vm: "B".to_owned(),
        counts: (0..30).map(|bin| if bin % 20 < 9 { 1 << (9 - bin % 20) } else { 0 }).collect(),
        time_ns: (0..30).map(|bin| Nanos::from_nanos(1 << bin)).collect(),
    });
    scenario::results(&simulation, "0")
}

#[test]
fn a_simulated_scenario_has_a_page_of_its_own() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = simulated();
    let (_folder, file) = written("report.html", &page::html(&run));
    browser.show_as(1200, 800, "light", "screen");
    browser.open(&file);
    assert_quiet(&browser, &file);
    let sections =
        browser.evaluate("JSON.stringify([...document.querySelectorAll('main>section')].map(s => s.id))");
    assert_eq!(sections, "[\"summary\",\"cases\",\"curves\",\"waits\",\"lines\",\"assumptions\"]");
    assert!(browser.evaluate("document.body.innerText").as_str().unwrap().contains("Two VMs <share> a CPU."));
    let drawn = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('.drawing svg')].map(svg => \
         [svg.closest('section').id, svg.querySelectorAll('polyline,circle,polygon,rect').length]))",
    );
    let drawn: Vec<(String, u64)> = serde_json::from_str(drawn.as_str().unwrap()).unwrap();
    let count = |id: &str| drawn.iter().filter(|(section, shapes)| section == id && *shapes > 5).count();
    assert!(count("curves") >= 2 && count("waits") == 2 && count("lines") == 6, "{drawn:?}");
    // One replication has no interval, and the figure is no prediction.
    let undecided = browser.evaluate(
        "[...document.querySelectorAll('#summary td')].filter(td => td.innerText.includes('not decided')).length",
    );
    assert_eq!(undecided.as_u64(), Some(3));
    // Nothing widens the page on a phone.
    browser.show_as(390, 800, "dark", "screen");
    browser.open(&file);
    let fits =
        browser.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth");
    assert_eq!(fits, Value::Bool(true));
}

#[test]
fn who_hurts_whom_and_fit_for_what_are_there_and_legible() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = sample::rich();
    let html = page::html(&run);
    println!("{} bytes with {} cells", html.len(), run.cells.len());
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    let (_folder, file) = written("report.html", &html);
    browser.show_as(1200, 800, "light", "screen");
    browser.open(&file);
    let ready = browser.evaluate("Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)");
    println!("loaded after {ready} ms");
    assert!(ready.as_f64().is_some_and(|ms| ms < 20_000.0), "loaded after {ready} ms");
    let count = |browser: &mut Browser, what: &str| {
        browser.evaluate(&format!("document.querySelectorAll({what:?}).length")).as_u64().unwrap()
    };
    let cells: usize = run.isolation.iter().flat_map(|matrix| &matrix.rows).map(|row| row.cells.len()).sum();
    assert_eq!(count(&mut browser, "#isolation table.map td[title]"), cells as u64);
    assert_eq!(count(&mut browser, "#summary table.fit td .badge"), run.classes.len() as u64);
    assert_eq!(count(&mut browser, "#fit .verdicts li .badge"), run.classes.len() as u64);
    assert_eq!(count(&mut browser, "#isolation td.hf"), 1, "the cell that broke");
    assert!(count(&mut browser, "#who .stack .bar span") >= 9);
    assert_eq!(count(&mut browser, "#who .drawing svg"), 2);
    // Worse is darker also without colour, in both themes' own sense: contrast with the paper grows with the step.
    for theme in ["light", "dark"] {
        browser.show_as(1200, 800, theme, "screen");
        browser.open(&file);
        let contrasts = browser.evaluate(
            "JSON.stringify((() => { const grey = e => { const [r, g, b] = getComputedStyle(e).backgroundColor\
             .match(/[\\d.]+/g).map(Number); return 0.299 * r + 0.587 * g + 0.114 * b; };\
             const paper = grey(document.body);\
             return ['h0', 'h1', 'h2', 'h3', 'h4'].map(c => Math.abs(grey(document.querySelector('.swatch.' + c)) - paper)); })())",
        );
        let contrasts: Vec<f64> = serde_json::from_str(contrasts.as_str().unwrap()).unwrap();
        assert!(contrasts.is_sorted_by(|a, b| a + 10.0 < *b), "{theme}: {contrasts:?}");
    }
    // On paper without colours the maps keep their signs and numbers.
    browser.show_as(718, 1000, "light", "print");
    browser.open(&file);
    let text = browser.evaluate("document.querySelector('#isolation table.map').innerText");
    assert!(text.as_str().is_some_and(|text| text.contains("▼ 41")), "{text}");
}

/// What it costs, fit for what, who is hurt worst: without scrolling, on four platforms as well, and nothing is cut off at the side.
#[test]
fn the_first_screen_tells_cost_fitness_and_the_worst_neighbour() {
    let Some(mut browser) = start_or_skip() else { return };
    for run in [sample::rich(), default_like()] {
        let (_folder, file) = written("report.html", &page::html(&run));
        for ((width, height), theme) in SCREENS.into_iter().flat_map(|size| [(size, "light"), (size, "dark")])
        {
            browser.show_as(width, height, theme, "screen");
            browser.open(&file);
            assert_quiet(&browser, &file);
            for part in [
                ".costs .cost:last-child li:nth-child(3) b",
                ".fitness tbody tr:last-child td:last-child .badge",
                ".harm li:first-of-type b",
                "header .badge",
            ] {
                let place = browser.evaluate(&format!(
                    "JSON.stringify((box => [box.width, box.height, box.left, innerWidth - box.right, box.top, innerHeight - box.bottom])\
                     (document.querySelector({part:?}).getBoundingClientRect()))"
                ));
                let place: Vec<f64> = serde_json::from_str(place.as_str().unwrap()).unwrap();
                assert!(place.iter().all(|room| *room >= 0.0), "{part} at {width} x {height}: {place:?}");
                assert!(place[0] > 0.0 && place[1] > 0.0, "{part} at {width} x {height} is not to be seen");
            }
            for folds in ["0", OPEN_ALL] {
                browser.evaluate(folds);
                // A phone's browser widens its window to what it has to show.
                let wide = browser.evaluate("Math.max(document.documentElement.scrollWidth, innerWidth)");
                assert_eq!(wide.as_u64(), Some(u64::from(width)), "{width} x {height}");
                // No column of figures is cut off or reached by scrolling.
                let cut = browser.evaluate(
                    "JSON.stringify([...document.querySelectorAll('table.figures td, table.fit td')].filter(td => \
                     td.getBoundingClientRect().right > document.documentElement.clientWidth).map(td => td.textContent).slice(0, 3))",
                );
                assert_eq!(cut, "[]", "{width} x {height}");
            }
        }
    }
}

#[test]
fn the_page_of_a_default_run_is_small() {
    let html = page::html(&default_like());
    println!("{} bytes", html.len());
    assert!(html.len() <= 1_048_576, "{} bytes", html.len());
}

#[test]
fn every_link_leads_somewhere_and_opens_the_folds_around_it() {
    let Some(mut browser) = start_or_skip() else { return };
    let (_folder, file) = written("report.html", &page::html(&sample::rich()));
    browser.show_as(1280, 900, "light", "screen");
    browser.open(&file);
    let astray = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll(\"a[href^='#']\")].map(a => a.getAttribute('href').slice(1))\
         .filter(id => !document.getElementById(id)))",
    );
    assert_eq!(astray, "[]");
    let twice = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('[id]')].map(e => e.id).filter((id, at, all) => all.indexOf(id) !== at))",
    );
    assert_eq!(twice, "[]", "two places of one name");
    let seen = |browser: &mut Browser, id: &str| {
        browser.evaluate(&format!(
            "(e => e.checkVisibility({{contentVisibilityAuto: true}}) && e.getBoundingClientRect().top < innerHeight)\
             (document.getElementById({id:?}))"
        ))
    };
    for id in ["f-gap-bound-99-9-ns-cpu-second", "d-gap-max-gap-ns", "rounds-gap", "longer-disk", "class-hpc"]
    {
        browser.open(&file);
        assert_eq!(seen(&mut browser, id), Value::Bool(false), "{id} is folded away");
        // As a user does who follows a link; the browser needs a turn to say that the address has changed.
        browser.evaluate(&format!("document.querySelector('a[href=\"#{id}\"]').click()"));
        browser.call(
            "Runtime.evaluate",
            &serde_json::json!({"expression": "new Promise(done => setTimeout(done))", "awaitPromise": true}),
        );
        assert_eq!(seen(&mut browser, id), Value::Bool(true), "{id} is shown");
    }
    // A figure's own rounds, as the results have them.
    let values = browser.evaluate(
        "(row => { row.querySelector('a.rounds').click(); return document.querySelector('#gap .values').innerText; })\
         (document.getElementById('f-gap-max-gap-ns'))",
    );
    let values = values.as_str().unwrap();
    assert!(values.starts_with("longest gap, ns\n") && values.contains("\nvm cpu@second: "), "{values}");
    assert_quiet(&browser, &file);
}

#[test]
fn the_search_box_finds_figures_by_keyboard() {
    let Some(mut browser) = start_or_skip() else { return };
    let (_folder, file) = written("report.html", &page::html(&sample::rich()));
    browser.show_as(1280, 900, "light", "screen");
    browser.open(&file);
    let shown = |browser: &mut Browser| {
        let shown = browser.evaluate(
            "JSON.stringify([...document.querySelectorAll('.figtable tr[id]')].filter(row => row.checkVisibility({contentVisibilityAuto: \
             true})).map(row => row.id))",
        );
        serde_json::from_str::<Vec<String>>(shown.as_str().unwrap()).unwrap()
    };
    assert_eq!(shown(&mut browser), Vec::<String>::new(), "all is folded away");
    browser.evaluate("document.getElementById('find').focus()");
    browser.call("Input.insertText", &serde_json::json!({"text": "Longest gap cpu@"}));
    assert_eq!(shown(&mut browser), ["f-gap-max-gap-ns", "f-gap-max-gap-ns-cpu-second"]);
    assert_eq!(browser.evaluate("document.getElementById('found').textContent"), "1 found");
    let key = |kind: &str| serde_json::json!({"type": kind, "key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27});
    browser.call("Input.dispatchKeyEvent", &key("keyDown"));
    browser.call("Input.dispatchKeyEvent", &key("keyUp"));
    assert_eq!(shown(&mut browser), Vec::<String>::new(), "as it was");
    browser.call("Input.insertText", &serde_json::json!({"text": "no such figure"}));
    assert_eq!(browser.evaluate("document.querySelectorAll('.probe:not([hidden])').length"), 0);
    assert_quiet(&browser, &file);
}

/// What the page says would measure longer does: each command is given to the program.
#[test]
fn the_commands_of_the_page_are_commands() {
    let mut run = default_like();
    let mut experiment = shipped_default();
    experiment.platforms = ["a", "b"]
        .map(|label| PlatformSpec { label: label.to_owned(), ..PlatformSpec::of_kind(PlatformKind::Fake) })
        .to_vec();
    experiment.baseline = Some("a".to_owned());
    run.experiment = experiment;
    let html = page::html(&run);
    let commands: Vec<&str> = html
        .match_indices("bulkhead measure --experiment experiment.toml")
        .map(|(at, _)| html[at..].split_once('<').unwrap().0)
        .collect();
    assert_eq!(commands.len(), run.experiment.probes.specs().len());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("experiment.toml"), run.experiment.to_toml().unwrap()).unwrap();
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let mut bulkhead = std::process::Command::new(env!("CARGO_BIN_EXE_bulkhead"));
        bulkhead.args(words).arg("--plan").current_dir(&folder).env("BULKHEAD_CACHE", folder.path());
        let output = bulkhead.output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_phone_shows_it_without_sideways_scrolling() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = sample::rich();
    let changes = change::changes(&run, &run);
    for html in [page::html(&run), compare::compare_html(&run, &run, &changes)] {
        let (_folder, file) = written("report.html", &html);
        browser.show_as(375, 700, "light", "screen");
        browser.open(&file);
        browser.evaluate(OPEN_ALL);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 375);
        assert_quiet(&browser, &file);
    }
}

#[test]
fn themes_reach_into_the_pictures() {
    let Some(mut browser) = start_or_skip() else { return };
    let (_folder, file) = written("report.html", &page::html(&sample::rich()));
    let colours = "JSON.stringify([getComputedStyle(document.body).backgroundColor, \
         getComputedStyle(document.querySelector('.drawing svg text')).fill, \
         getComputedStyle(document.querySelector('#gap .drawing polyline')).stroke])";
    let mut seen = Vec::new();
    for (theme, medium) in [("light", "screen"), ("dark", "screen"), ("dark", "print")] {
        browser.show_as(1200, 800, theme, medium);
        browser.open(&file);
        seen.push(browser.evaluate(colours).as_str().unwrap().to_owned());
    }
    assert!(seen[0].contains("rgb(255, 255, 255)") && seen[0] != seen[1], "{seen:?}");
    assert_eq!(seen[0], seen[2], "paper is never dark");
}

#[test]
fn on_paper_nothing_is_clipped_and_every_table_is_open() {
    let Some(mut browser) = start_or_skip() else { return };
    let (_folder, file) = written("report.html", &page::html(&sample::rich()));
    // The width that A4 leaves between its margins.
    browser.show_as(718, 1000, "light", "print");
    browser.open(&file);
    let clipped = "JSON.stringify([...document.querySelectorAll('table,.drawing svg,pre')]\
         .map(e => [e.getBoundingClientRect(), e.textContent.slice(0, 60)])\
         .filter(([box]) => box.right > innerWidth + 1 || box.height < 1).map(([, text]) => text))";
    assert_eq!(browser.evaluate(clipped), "[]");
    let pdf = browser.call("Page.printToPDF", &serde_json::json!({"printBackground": true}));
    assert!(pdf["data"].as_str().is_some_and(|data| data.starts_with("JVBERi0")), "no PDF came out");
}

#[test]
fn without_scripts_tables_and_pictures_are_there() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = sample::rich();
    let (_folder, file) = written("report.html", &page::html(&run));
    browser.scripts(false);
    browser.open(&file);
    assert_quiet(&browser, &file);
    // Evaluation works all the same: the switch concerns the page's own scripts.
    assert_eq!(browser.evaluate("document.getElementById('theme').hidden"), Value::Bool(true));
    assert_eq!(figures_shown(&mut browser).len(), figures_measured(&run).len());
    browser.evaluate(OPEN_ALL);
    let narrow = "[...document.querySelectorAll('.drawing svg')].filter(s => s.getBoundingClientRect().width < 300).length";
    assert_eq!(browser.evaluate(narrow), 0);
}

#[test]
fn a_million_events_open_in_a_browser() {
    let Some(mut browser) = start_or_skip() else { return };
    let html = page::html(&sample::with_many_quanta(1_000_000));
    println!("{} bytes", html.len());
    let (_folder, file) = written("report.html", &html);
    browser.open(&file);
    let ready = browser.evaluate("Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)");
    println!("a run with a million events is loaded after {ready} ms");
    assert_quiet(&browser, &file);
}
