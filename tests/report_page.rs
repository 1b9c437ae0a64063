//! Opens the page in a real headless browser: no complaint, no request, pictures that hold drawings, tables that say
//! what `results.json` says, no sideways scrolling on a phone, readable without scripts and in print.

use crate::browser;

use std::path::{Path, PathBuf};

use browser::cdp::{Browser, start_or_skip};
use browser::sample;
use bulkhead::model::results::RunResults;
use bulkhead::model::scenario::cases;
use bulkhead::model::simulation::WaitTimes;
use bulkhead::report::{change, compare, page};
use bulkhead::sim::scenario::{self, Options, Study};
use bulkhead::units::Nanos;
use serde_json::Value;

fn written(name: &str, html: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, html).unwrap();
    (folder, file)
}

fn assert_quiet(browser: &Browser, file: &Path) {
    let (what, own) = (file.display(), format!("file://{}", file.display()));
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}: the page complains");
    let foreign: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with("data:") && *url != own).collect();
    assert_eq!(foreign, Vec::<String>::new(), "{what}: requests leave the file");
}

/// `cell|metric` to value, from every table of the page.
fn figures_shown(browser: &mut Browser) -> std::collections::BTreeMap<String, f64> {
    let shown = browser.evaluate(
        "JSON.stringify([...document.querySelectorAll('td[data-cell][data-value]')]\
         .map(td => [td.dataset.cell + '|' + td.dataset.metric, td.dataset.value, td.textContent.trim()]))",
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
    // probes that the fake platform makes up.
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
    let text = "name = \"two\"\nabout = \"Two VMs <share> a CPU.\"\n[host]\ncpus = 2\npolicy = { name = \"equal-per-vm\", quantum_us \
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
    scenario::results(&simulation, "0", Nanos::ZERO)
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
    assert_eq!(count(&mut browser, "#fit table.fit td .badge"), run.classes.len() as u64);
    assert_eq!(count(&mut browser, "#fit table.deciding tbody tr td .badge"), run.classes.len() as u64);
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

#[test]
fn a_phone_shows_it_without_sideways_scrolling() {
    let Some(mut browser) = start_or_skip() else { return };
    let run = sample::rich();
    let changes = change::changes(&run, &run);
    for html in [page::html(&run), compare::compare_html(&run, &run, &changes)] {
        let (_folder, file) = written("report.html", &html);
        browser.show_as(375, 700, "light", "screen");
        browser.open(&file);
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)");
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
