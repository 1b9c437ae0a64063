//! The figures that the documentation states: every verdict in `docs/figures.md` and in the README is what the judge says
//! of the interval beside it, missed ones are there, every command names a bench that exists, and no table states a figure that
//! has no row there.

#[path = "../benches/verdict/mod.rs"]
mod verdict;

use std::fs;
use std::path::Path;

use verdict::{Mark, Verdict};

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One row of a table of figures.
#[derive(Debug)]
struct Row {
    figure: String,
    mark: String,
    measured: String,
    verdict: String,
    rest: Vec<String>,
}

/// The rows of all tables whose fourth column is the verdict.
fn rows(text: &str) -> Vec<Row> {
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        inside = line.starts_with('|') && (inside || cells.get(3) == Some(&"verdict"));
        if let [figure, mark, measured, verdict, rest @ ..] = cells.as_slice()
            && inside
            && *verdict != "verdict"
            && !figure.starts_with("---")
        {
            found.push(Row {
                figure: (*figure).to_owned(),
                mark: (*mark).to_owned(),
                measured: (*measured).to_owned(),
                verdict: (*verdict).to_owned(),
                rest: rest.iter().map(|cell| (*cell).to_owned()).collect(),
            });
        }
    }
    found
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// `≤ 1.15`, `≥ 0.97`, `0.95 … 1.05`; none for `none` and the like.
fn mark(text: &str) -> Option<Mark> {
    if let Some(most) = text.strip_prefix('≤') {
        return number(most).map(Mark::AtMost);
    }
    if let Some(least) = text.strip_prefix('≥') {
        return number(least).map(Mark::AtLeast);
    }
    let (least, most) = text.split_once('…')?;
    Some(Mark::Within(number(least)?, number(most)?))
}

/// The first `[low … high]`.
fn interval(text: &str) -> Option<(f64, f64)> {
    let (_, rest) = text.split_once('[')?;
    let (low, high) = rest.split_once(']')?.0.split_once('…')?;
    Some((number(low)?, number(high)?))
}

/// `0 of 107`: so many failures of a promise in so many trials.
fn failures(text: &str) -> Option<(u64, u64)> {
    let (before, after) = text.split_once(" of ")?;
    let failed = before.rsplit(' ').next()?.parse().ok()?;
    let trials = after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((failed, trials))
}

/// What the judge says of a row; none when its prose has to be believed.
fn judged(row: &Row) -> Option<Verdict> {
    match (mark(&row.mark), interval(&row.measured)) {
        (Some(mark), Some(span)) => Some(mark.judge(span)),
        (Some(_), None) => Some(Verdict::NotDecided),
        (None, _) if row.mark == "none" => {
            let (failed, trials) = failures(&row.measured)?;
            let seen = verdict::never(failed, trials);
            Some(seen.map_or(Verdict::NotDecided, |seen| Mark::AtMost(0.0).judge(seen)))
        }
        _ => None,
    }
}

#[test]
fn every_stated_verdict_is_what_the_judge_says_of_the_interval_beside_it() {
    for name in ["docs/figures.md", "README.md"] {
        let rows = rows(&text(name));
        assert!(rows.len() >= 8, "{name} has {} rows of figures", rows.len());
        for row in rows {
            let known = Verdict::ALL.iter().any(|verdict| verdict.word() == row.verdict);
            assert!(known, "{name}, {}: \"{}\" is no verdict", row.figure, row.verdict);
            // Rows of figures that do not measure what they should say so, and decide nothing.
            let wanted = judged(&row)
                .filter(|wanted| *wanted == Verdict::NotDecided || row.verdict != Verdict::NotDecided.word());
            if let Some(wanted) = wanted {
                assert_eq!(row.verdict, wanted.word(), "{name}, {row:?}");
            }
        }
    }
}

/// What a cell of a table states as measured: intervals `[low … high]`, and `so many of so many`.
fn stated(cell: &str) -> Vec<String> {
    let spans = cell.match_indices('[').filter_map(|(at, _)| {
        let span = &cell[at..=at + cell[at..].find(']')?];
        interval(span).map(|_| span.to_owned())
    });
    let counted = cell.match_indices(" of ").filter_map(|(at, of)| {
        let hits = cell[..at].rsplit(' ').next()?;
        let rest = &cell[at + of.len()..];
        let trials = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        let is_count = hits.parse::<u64>().is_ok() && !trials.is_empty();
        is_count.then(|| format!("{hits} of {trials}"))
    });
    spans.chain(counted).collect()
}

/// What the tables of a page state, that of figures with its verdict.
fn stated_in_tables(page: &str) -> Vec<(String, Option<String>)> {
    let judged = rows(page);
    let of_row = |line: &str| {
        let row = judged.iter().find(|row| line.contains(&row.figure) && line.contains(&row.measured));
        let verdict = row.map(|row| row.verdict.clone());
        let cells = row.map_or_else(|| line.to_owned(), |row| row.measured.clone());
        stated(&cells).into_iter().map(move |figure| (figure, verdict.clone())).collect::<Vec<_>>()
    };
    page.lines().filter(|line| line.starts_with('|')).flat_map(of_row).collect()
}

/// What is stated in the tables of a page and has no row in the table of all figures, or one that is judged otherwise.
fn without_a_row(page: &str, all: &str) -> Vec<String> {
    let all = rows(all);
    let has_row = |(figure, verdict): &(String, Option<String>)| {
        all.iter().any(|row| {
            stated(&row.measured).contains(figure) && verdict.as_ref().is_none_or(|said| *said == row.verdict)
        })
    };
    let missing = stated_in_tables(page).into_iter().filter(|stated| !has_row(stated));
    missing.map(|(figure, verdict)| format!("{figure} ({})", verdict.unwrap_or_default())).collect()
}

#[test]
fn every_figure_in_a_table_has_a_row_with_the_same_verdict() {
    let all = text("docs/figures.md");
    for name in ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/security.md"] {
        let missing = without_a_row(&text(name), &all);
        assert!(missing.is_empty(), "{name} states what docs/figures.md has no row for: {missing:?}");
    }
    assert!(stated_in_tables(&text("README.md")).len() >= 25, "nothing is looked at");
}

#[test]
fn a_figure_without_a_row_is_found() {
    let head = "| figure | mark | measured | verdict | command |\n| --- | --- | --- | --- | --- |\n";
    let all = format!("{head}| a | ≤ 2 | 1 [0.9 … 1.1] | met | x |\n| b | none | 8 of 12 | missed | x |\n");
    let page = |text: &str| without_a_row(text, &all);
    assert_eq!(page(&format!("{head}| a, in short | ≤ 2 | 1 [0.9 … 1.1] | met | x |")), Vec::<String>::new());
    assert_eq!(page(&format!("{head}| a | ≤ 2 | 1 [0.9 … 1.1] | missed | x |")), ["[0.9 … 1.1] (missed)"]);
    assert_eq!(page("| way | time |\n| --- | --- |\n| x | 1 µs [0.9 … 1.1] |"), Vec::<String>::new());
    assert_eq!(page("| x | 1 µs [0.9 … 1.2]; 7 of 12 |"), ["[0.9 … 1.2] ()", "7 of 12 ()"]);
    assert_eq!(page("no table: [0.9 … 1.2]"), Vec::<String>::new());
}

#[test]
fn missed_figures_stay() {
    let all = text("docs/figures.md");
    assert!(all.contains("6 of 12") && all.contains("0.935 [0.908 … 0.963]"), "figures that were missed");
    for name in ["docs/figures.md", "README.md"] {
        let missed = rows(&text(name)).iter().filter(|row| row.verdict == "missed").count();
        assert!(missed >= 2, "{name} tells of {missed} missed figures");
    }
    assert!(text("README.md").contains("docs/figures.md"));
}

#[test]
fn every_command_beside_a_figure_is_there() {
    let cargo = text("Cargo.toml");
    for row in rows(&text("docs/figures.md")) {
        let command = row.rest.last().unwrap_or_else(|| panic!("{row:?}"));
        if let Some((_, rest)) = command.split_once("cargo bench --bench ") {
            let bench = rest.split([' ', '`']).next().unwrap_or_default();
            assert!(cargo.contains(&format!("[[bench]]\nname = \"{bench}\"")), "no bench {bench}: {row:?}");
        }
    }
}

#[test]
fn the_judge_of_rows_sees_what_it_should() {
    let row = |mark: &str, measured: &str| {
        let table = format!(
            "| figure | mark | measured | verdict |\n| --- | --- | --- | --- |\n| x | {mark} | {measured} | met |"
        );
        judged(&rows(&table)[0])
    };
    assert_eq!(row("≤ 1.15", "1.1 [1.0 … 1.2]"), Some(Verdict::NotDecided));
    assert_eq!(row("≤ 1.15", "1.07 [1.0 … 1.1], fine"), Some(Verdict::Met));
    assert_eq!(row("≤ 1.15", "1.07 (1.0 … 1.1)"), Some(Verdict::NotDecided), "a range of rounds");
    assert_eq!(row("0.97 … 1.03", "0.93 [0.92 … 0.95]"), Some(Verdict::Missed));
    assert_eq!(row("none", "0 of 107, up to 2.8 %"), Some(Verdict::Met));
    assert_eq!(row("none", "0 of 20, up to 14 %"), Some(Verdict::NotDecided), "too few trials");
    assert_eq!(row("none", "84, 99 ms: 1 of 3"), Some(Verdict::Missed));
    assert_eq!(row("(no mark)", "1.0 [0.9 … 1.1]"), None);
}
