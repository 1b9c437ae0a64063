//! What the reports say, without a browser: snapshots, escaping, sizes, and runs that hold nothing or nonsense.

use crate::browser;

use std::sync::LazyLock;

use browser::sample;
use bulkhead::model::isolation::CellState;
use bulkhead::model::results::RunResults;
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::Detail;
use bulkhead::report::brief::{MOST_LINES, screen};
use bulkhead::report::terminal::{Style, summary};
use bulkhead::report::{change, compare, page};
use bulkhead::units::metric::Answer;
use bulkhead::units::names::PlatformKind;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

const PLAIN: Style = Style { width: 80, colour: false };

/// The sample run, made once: every probe of it is made up anew otherwise.
fn rich() -> RunResults {
    static RICH: LazyLock<RunResults> = LazyLock::new(sample::rich);
    RICH.clone()
}

/// Everything this room makes of a run, in one string.
fn everything(run: &RunResults) -> String {
    let changes = change::changes(run, &rich());
    [
        summary(run, PLAIN),
        screen(run, PLAIN),
        page::html(run),
        compare::compare_text(run, run, &changes, PLAIN),
        compare::compare_html(run, run, &changes),
    ]
    .concat()
}

#[test]
fn the_summary_reads_like_this() {
    insta::assert_snapshot!(summary(&sample::of(&sample::FIRST), PLAIN));
}

#[test]
fn one_screen_reads_like_this() {
    insta::assert_snapshot!(screen(&sample::of(&sample::FIRST), PLAIN));
}

/// Whatever was measured, of the platforms that a run usually has.
#[test]
fn one_screen_is_one_screen() {
    for run in [rich(), sample::of(&sample::FIRST), sample::of(&[ProbeKind::Gap])] {
        let text = screen(&run, PLAIN);
        assert!(text.lines().count() <= MOST_LINES, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for class in run.classes.iter().map(|verdict| &verdict.class) {
            assert!(text.contains(class.as_str()), "{class}");
        }
    }
}

/// What was not found out is not called fine.
#[test]
fn where_nothing_could_be_compared_no_harm_is_not_said() {
    let mut run = sample::of(&sample::FIRST);
    let cells = run.isolation.iter_mut().flat_map(|matrix| &mut matrix.rows).flat_map(|row| &mut row.cells);
    for cell in cells {
        (cell.judged, cell.main, cell.state) = (None, None, CellState::Unsupported);
    }
    let text = screen(&run, PLAIN);
    assert!(text.contains("?  no harm was found in 0 figures beside neighbours;"), "{text}");
}

/// Figures of the scripted platform look like measured ones: whoever reads them is told first.
#[test]
fn made_up_figures_are_called_made_up_wherever_they_are_shown() {
    let real = sample::of(&[ProbeKind::Gap]);
    let mut run = real.clone();
    for platform in run.platforms.iter_mut().filter(|platform| platform.label != "native") {
        platform.kind = PlatformKind::Fake;
    }
    let head: Vec<String> = summary(&run, PLAIN).lines().take(5).map(str::to_owned).collect();
    insta::assert_snapshot!(head.join("\n"), @r"
    Bulkhead 0.1.0 · experiment default · 2026-11-21 03:04:05 UTC
    ! MADE UP: the figures of container, vm, gvisor are made up from the seed:
               nothing was measured

    Verdict, compared with native
    ");
    let changes = change::changes(&real, &run);
    let compared = compare::compare_text(&real, &run, &changes, PLAIN);
    assert!(
        compared.contains("! the second run: the figures of container, vm, gvisor are made up"),
        "{compared}"
    );
    assert!(compare::compare_html(&real, &run, &changes).contains("are made up from the seed"));
    assert!(page::html(&run).contains("Made up."));
    assert!(changes.iter().all(|change| change.made_up == (change.cell.platform != "native")), "{changes:?}");
    // Nothing of the kind is said where all was measured.
    let changes = change::changes(&real, &real);
    let told =
        [summary(&real, PLAIN), page::html(&real), compare::compare_text(&real, &real, &changes, PLAIN)];
    assert!(!told.concat().to_lowercase().contains("made up from"));
}

#[test]
fn a_comparison_reads_like_this() {
    let before = sample::of(&sample::FIRST);
    let mut after = before.clone();
    after.cells.retain(|cell| cell.cell.probe == ProbeKind::Gap && cell.cell.neighbour.is_none());
    for sample in
        after.cells.iter_mut().flat_map(|cell| &mut cell.metrics).flat_map(|metric| &mut metric.samples)
    {
        sample.1 *= 1.07;
    }
    after.dirty.clear();
    let changes = change::changes(&before, &after);
    let gaps: Vec<_> = changes.into_iter().filter(|change| change.cell.neighbour.is_none()).collect();
    insta::assert_snapshot!(compare::compare_text(&before, &after, &gaps, PLAIN));
}

#[test]
fn it_fits_the_terminal_and_colour_adds_only_colour() {
    let run = rich();
    for line in summary(&run, PLAIN).lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let coloured = summary(&run, Style { width: 80, colour: true });
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    assert_ne!(coloured, bare);
    assert_eq!(bare, summary(&run, PLAIN));
}

#[test]
fn hostile_text_stays_text() {
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u{1b}[2J\u{202E}";
    let mut run = rich();
    run.experiment.name = hostile.to_owned();
    run.host.cpu_model = Some(hostile.to_owned());
    run.dirty.push(hostile.to_owned());
    run.platforms[1].label = hostile.to_owned();
    run.platforms[2].properties.push((hostile.to_owned(), hostile.to_owned()));
    run.platforms[3].unavailable = Some(hostile.to_owned());
    run.preflight.checks[0].found = hostile.to_owned();
    run.verdicts[0].sentence = hostile.to_owned();
    run.verdicts[0].because.push(hostile.to_owned());
    run.failures[0].failure.reason = hostile.to_owned();
    run.failures[0].failure.console.push(hostile.to_owned());
    for cell in &mut run.cells {
        cell.notes.push(hostile.to_owned());
        cell.doses.iter_mut().for_each(|dose| hostile.clone_into(&mut dose.dose.unit));
        cell.clock.iter_mut().for_each(|clock| hostile.clone_into(&mut clock.name));
        if cell.cell.platform == "container" {
            hostile.clone_into(&mut cell.cell.platform);
        }
        for metric in &mut cell.metrics {
            metric.title.push_str(hostile);
            metric.id.push_str(hostile);
        }
        if let Some(Detail::Disk(disk)) = &mut cell.detail {
            disk.target = hostile.to_owned();
        }
    }
    for verdict in &mut run.classes {
        for text in [
            &mut verdict.class,
            &mut verdict.title,
            &mut verdict.platform,
            &mut verdict.reason,
            &mut verdict.sentence,
            &mut verdict.would_change,
        ] {
            text.push_str(hostile);
        }
        for condition in &mut verdict.conditions {
            for text in
                [&mut condition.title, &mut condition.why, &mut condition.measured, &mut condition.bound]
            {
                text.push_str(hostile);
            }
        }
    }
    for matrix in &mut run.isolation {
        matrix.platform.push_str(hostile);
        for row in &mut matrix.rows {
            row.judged.id.push_str(hostile);
            row.judged.title.push_str(hostile);
            row.cells.iter_mut().for_each(|cell| cell.why.push_str(hostile));
        }
    }
    let html = page::html(&run);
    assert_eq!(html.matches("<script").count(), 1, "only the page's own script");
    assert!(!html.contains("<img"));
    assert!(html.contains("&lt;script&gt;alert(1)"));
    let text = summary(&run, PLAIN);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202E}'));
    assert!(!compare::compare_text(&run, &run, &change::changes(&run, &run), PLAIN).contains('\u{1b}'));
}

#[test]
fn a_million_events_stay_below_five_megabytes() {
    let run = sample::with_many_quanta(1_000_000);
    let html = page::html(&run);
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    // The longest of them is still drawn and listed.
    assert!(html.contains("77.8 ms"), "the longest quantum is missing from the table");
}

#[test]
fn the_map_and_the_verdicts_say_what_was_measured() {
    let run = sample::of(&sample::FIRST);
    let html = page::html(&run);
    let cells = html.matches("class=\"h").count();
    assert!(cells >= 3 * 5 * 6, "{cells} cells of three maps");
    for words in [
        "gap beside a cpu load in a second instance: 99.9 % of the time is in gaps up to",
        "41 × [",
        "38.5 % is left, a fair share is 50 %",
        "every measurement broke: wanted a reply to job 41",
        "dose: 2 threads",
        "title=\"disk beside a memory load on the host: not part of the experiment\"",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let text = summary(&run, PLAIN);
    for line in ["cpu                · ▼ 2.6!     ·", "disk               ·  ▼ 6.3         fail     ·"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let verdict = run.classes.iter().find(|v| v.class == "htc" && v.platform == "vm").unwrap();
    assert!(html.contains(&verdict.would_change) && html.contains("id=\"class-htc\""));
}

#[test]
fn an_empty_run_says_so() {
    let mut run = rich();
    run.cells.clear();
    run.platforms.clear();
    run.verdicts.clear();
    run.failures.clear();
    run.classes.clear();
    run.isolation.clear();
    run.complete = false;
    let text = summary(&run, PLAIN);
    assert!(text.contains("no measurement was done") && text.contains("there is no verdict"), "{text}");
    assert!(page::html(&run).contains("there is no verdict"));
}

#[test]
fn what_failed_or_is_unsupported_shows_its_reason_and_no_figure() {
    let mut run = rich();
    let lost =
        run.cells.iter_mut().find(|c| c.cell.probe == ProbeKind::Disk && c.cell.platform == "vm").unwrap();
    lost.done = 0;
    lost.failed = 9;
    lost.metrics.clear();
    lost.detail = None;
    let gap = &mut run.cells[0].metrics[0];
    gap.estimate = Answer::Unsupported("only 2 rounds yielded a figure".to_owned());
    for shown in [summary(&run, PLAIN), page::html(&run)] {
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("failed") && flat.contains("died: wanted a reply to job 41"), "{flat}");
        assert!(flat.contains("only 2 rounds yielded a figure"), "{flat}");
    }
}

/// Puts nonsense into many places of a run.
fn mangle(run: &mut RunResults, random: &mut Xoshiro256PlusPlus) {
    const NONSENSE: [f64; 9] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e308, -1e308, f64::MIN_POSITIVE, 1e-300];
    for cell in &mut run.cells {
        if random.random::<f64>() < 0.4 {
            cell.detail = cell.detail.as_ref().map(|detail| hollow(detail, random.random()));
        }
        if random.random::<f64>() < 0.1 {
            cell.metrics.clear();
        }
    }
    let mut strange = |value: &mut f64| {
        if random.random::<f64>() < 0.3 {
            *value = NONSENSE[random.random_range(0..NONSENSE.len())];
        }
    };
    for cell in &mut run.cells {
        for metric in &mut cell.metrics {
            metric.samples.iter_mut().for_each(|sample| strange(&mut sample.1));
            let ratios = [&mut metric.against_baseline, &mut metric.against_undisturbed];
            let ratios = ratios.into_iter().flatten().map(|comparison| &mut comparison.ratio);
            for answer in ratios.chain([&mut metric.estimate]) {
                if let Answer::Estimate(estimate) = answer {
                    [&mut estimate.value, &mut estimate.low, &mut estimate.high]
                        .into_iter()
                        .for_each(&mut strange);
                }
            }
        }
        match &mut cell.detail {
            Some(Detail::MemLatency(detail)) => {
                detail.points.iter_mut().for_each(|p| strange(&mut p.load_ns));
            }
            Some(Detail::MemBandwidth(detail)) => {
                detail.points.iter_mut().for_each(|p| strange(&mut p.bytes_per_s));
            }
            _ => {}
        }
    }
}

/// The same outcome with every list emptied and every number at an end of its range.
fn hollow(detail: &Detail, largest: bool) -> Detail {
    fn change(value: &mut serde_json::Value, largest: bool) {
        match value {
            serde_json::Value::Array(list) if !largest => list.clear(),
            serde_json::Value::Array(list) => list.iter_mut().for_each(|value| change(value, largest)),
            serde_json::Value::Object(map) => map.values_mut().for_each(|value| change(value, largest)),
            serde_json::Value::Number(number) if number.is_u64() => {
                let narrow = number.as_u64().is_some_and(|value| u32::try_from(value).is_ok());
                let end = if narrow { u64::from(u16::MAX) } else { u64::MAX };
                *value = serde_json::json!(if largest { end } else { 0 });
            }
            _ => {}
        }
    }
    let mut value = serde_json::to_value(detail).unwrap();
    change(&mut value, largest);
    serde_json::from_value(value).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_neither_panics_nor_is_shown_as_a_figure(seed: u64) {
        let mut run = rich();
        mangle(&mut run, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        run.isolation = bulkhead::analysis::isolation::matrices(&run);
        run.classes = bulkhead::analysis::suitability::judge(&run, &bulkhead::model::classes::shipped().unwrap());
        let all = everything(&run);
        for word in ["data-value=\"NaN", "data-value=\"inf", "data-value=\"-inf", "NaN", "inf ×", " inf "] {
            let around = all.find(word).map(|at| all[..at + word.len()].chars().rev().take(120).collect::<Vec<_>>());
            let around: String = around.into_iter().flatten().rev().collect();
            prop_assert!(around.is_empty(), "{} is shown: {}", word, around);
        }
        prop_assert!(all.len() < 5_000_000);
    }
}
