//! The figures that the documentation states: every verdict in `docs/figures.md` and in the README is what the judge says
//! of the interval beside it, missed ones are there, every command names a bench that exists, and no table states a figure that
//! has no row there.

use crate::verdict;

use std::fs;
use std::path::Path;

use verdict::{FEW_FAILED, Mark, Verdict};

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

/// What a row wants to be.
enum Wanted {
    /// An interval here.
    Bound(Mark),
    /// No failure, in so many trials at least.
    None(u64),
    /// Nothing: such a row decides nothing.
    Nothing,
}

/// `≤ 1.15`, `≥ 0.97`, `0.95 … 1.05`, `none`, `none in 1000000`, each with or without words in parentheses behind it; `(no mark)`.
/// Nothing when it is none of these: then nobody could judge the row.
fn mark(text: &str) -> Option<Wanted> {
    let (text, words) = text.split_once('(').map_or((text, None), |(text, words)| (text, Some(words)));
    let text = text.trim();
    if let Some(most) = text.strip_prefix('≤') {
        return number(most).map(|most| Wanted::Bound(Mark::AtMost(most)));
    }
    if let Some(least) = text.strip_prefix('≥') {
        return number(least).map(|least| Wanted::Bound(Mark::AtLeast(least)));
    }
    if let Some(trials) = text.strip_prefix("none in ") {
        return trials.trim().parse().ok().map(Wanted::None);
    }
    if let Some((least, most)) = text.split_once('…') {
        return Some(Wanted::Bound(Mark::Within(number(least)?, number(most)?)));
    }
    match text {
        "none" => Some(Wanted::None(0)),
        "" if words?.starts_with("no mark") => Some(Wanted::Nothing),
        _ => None,
    }
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

/// Trials that brought nothing, in the words of the benches.
fn missing(text: &str) -> usize {
    let before = text.split_once(" more brought nothing").map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// What the judge says of a row; why it can't say anything when the row is not written so that it could.
fn judged(row: &Row) -> Result<Verdict, String> {
    let wanted =
        mark(&row.mark).ok_or_else(|| format!("\"{}\" is no mark that can be judged: {row:?}", row.mark))?;
    Ok(match wanted {
        Wanted::Bound(mark) => interval(&row.measured).map_or(Verdict::NotDecided, |span| mark.judge(span)),
        Wanted::None(least) => {
            let seen = failures(&row.measured)
                .filter(|(failed, trials)| *failed > 0 || *trials >= least)
                .filter(|(failed, _)| *failed > 0 || missing(&row.measured) <= FEW_FAILED)
                .and_then(|(failed, trials)| verdict::never(failed, trials));
            seen.map_or(Verdict::NotDecided, |seen| Mark::AtMost(0.0).judge(seen))
        }
        Wanted::Nothing => Verdict::NotDecided,
    })
}

fn is_missed(row: &Row) -> bool {
    row.verdict == Verdict::Missed.word()
}

#[test]
fn every_stated_verdict_is_what_the_judge_says_of_the_interval_beside_it() {
    let mut wrong = Vec::new();
    for name in ["docs/figures.md", "README.md"] {
        let rows = rows(&text(name));
        assert!(rows.len() >= 8, "{name} has {} rows of figures", rows.len());
        for row in rows {
            match judged(&row) {
                Ok(wanted) if row.verdict == wanted.word() => {}
                // What was called missed when it was taken stays so if no interval of it was kept; it is never better.
                Ok(Verdict::NotDecided) if is_missed(&row) && interval(&row.measured).is_none() => {}
                Ok(wanted) => wrong.push(format!("{name}: the judge says {}: {row:?}", wanted.word())),
                Err(why) => wrong.push(format!("{name}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_row_holds_one_series() {
    for row in rows(&text("docs/figures.md")) {
        // A second interval, or the word of another verdict, is another series: nobody judges that one.
        assert!(row.measured.matches('[').count() <= 1, "two intervals in one row: {row:?}");
        let others = Verdict::ALL.iter().filter(|verdict| verdict.word() != row.verdict);
        for other in others.filter(|other| **other != Verdict::NotDecided) {
            let says = row.measured.split([' ', ',', ';']).any(|word| word == other.word());
            assert!(!says, "{} as well: {row:?}", other.word());
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
    let docs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).expect("docs is there");
    let docs = docs.map(|entry| format!("docs/{}", entry.expect("readable").file_name().to_string_lossy()));
    let docs = docs.filter(|name| name.rsplit_once('.').is_some_and(|(_, end)| end == "md"));
    let docs = docs.filter(|name| name != "docs/figures.md");
    let pages = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(str::to_owned);
    let mut stated = 0;
    for name in pages.into_iter().chain(docs) {
        let missing = without_a_row(&text(&name), &all);
        assert!(missing.is_empty(), "{name} states what docs/figures.md has no row for: {missing:?}");
        stated += stated_in_tables(&text(&name)).len();
    }
    assert!(stated >= 25, "nothing is looked at");
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

/// How many lines `tests/fixtures/missed.txt` has at least: what was missed on the day it was begun.
const MISSED_AT_LEAST: usize = 22;

/// Rows that were missed once, `figure | measured`, as they were written down.
fn once_missed(list: &str) -> Vec<&str> {
    list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect()
}

/// What the list of missed rows and the table say otherwise.
fn missed_otherwise(list: &str, all: &str) -> Vec<String> {
    let (mut missed, mut named) = (Vec::new(), String::new());
    for row in rows(all) {
        if row.figure != "the same" {
            named.clone_from(&row.figure);
        }
        if is_missed(&row) {
            missed.push(format!("{named} | {}", row.measured));
        }
    }
    let once = once_missed(list);
    let gone = once.iter().filter(|line| missed.iter().all(|row| row != *line));
    let new = missed.iter().filter(|row| !once.contains(&row.as_str()));
    gone.map(|line| format!("was missed, and is so no more in docs/figures.md: {line}"))
        .chain(new.map(|row| format!("is missed, and has to be added to tests/fixtures/missed.txt: {row}")))
        .collect()
}

#[test]
fn missed_figures_stay() {
    let (all, list) = (text("docs/figures.md"), text("tests/fixtures/missed.txt"));
    let otherwise = missed_otherwise(&list, &all);
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
    let lines = once_missed(&list).len();
    assert!(
        lines >= MISSED_AT_LEAST,
        "{lines} lines are left of {MISSED_AT_LEAST}: they are only ever added"
    );
    let missed = rows(&text("README.md")).iter().filter(|row| is_missed(row)).count();
    assert!(missed >= 10, "README.md tells of {missed} missed figures");
    assert!(text("README.md").contains("docs/figures.md"));
}

#[test]
fn a_missed_row_that_vanishes_is_found() {
    let head = "| figure | mark | measured | verdict | command |\n| --- | --- | --- | --- | --- |\n";
    let row = |measured: &str, verdict: &str| format!("{head}| a | ≤ 2 | {measured} | {verdict} | x |\n");
    let list = "# Lines are only ever added.\na | 3 [2.5 … 3.5]\n";
    assert_eq!(missed_otherwise(list, &row("3 [2.5 … 3.5]", "missed")), Vec::<String>::new());
    let again = format!("{}| the same | ≤ 2 | 4 [3 … 5] | missed | x |\n", row("3 [2.5 … 3.5]", "missed"));
    assert_eq!(missed_otherwise(&format!("{list}a | 4 [3 … 5]\n"), &again), Vec::<String>::new());
    assert_eq!(missed_otherwise(list, head).len(), 1, "left out");
    assert_eq!(missed_otherwise(list, &row("3 (2.5 … 3.5)", "missed")).len(), 2, "written otherwise");
    assert_eq!(missed_otherwise(list, &row("3 [2.5 … 3.5]", "not decided")).len(), 1, "called otherwise");
    assert_eq!(missed_otherwise("# Lines", &row("3 [2.5 … 3.5]", "missed")).len(), 1, "not in the list");
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
    let of = |mark: &str, measured: &str| row(mark, measured).ok();
    assert_eq!(of("≤ 1.15", "1.1 [1.0 … 1.2]"), Some(Verdict::NotDecided));
    assert_eq!(of("≤ 1.15", "1.07 [1.0 … 1.1], fine"), Some(Verdict::Met));
    assert_eq!(of("≤ 1.15", "1.07 (1.0 … 1.1)"), Some(Verdict::NotDecided), "a range of rounds");
    assert_eq!(of("0.97 … 1.03", "0.93 [0.92 … 0.95]"), Some(Verdict::Missed));
    assert_eq!(of("none", "0 of 107, up to 2.8 %"), Some(Verdict::Met));
    assert_eq!(of("none", "0 of 20, up to 14 %"), Some(Verdict::NotDecided), "too few trials");
    assert_eq!(of("none", "0 of 107; 1 more brought nothing, up to 2.8 %"), Some(Verdict::Met));
    assert_eq!(of("none", "0 of 107; 2 more brought nothing, up to 2.8 %"), Some(Verdict::NotDecided));
    assert_eq!(of("none", "1 of 107; 2 more brought nothing"), Some(Verdict::Missed));
    assert_eq!(of("none", "84, 99 ms: 1 of 3"), Some(Verdict::Missed));
    assert_eq!(of("none in 1000000", "0 of 119014"), Some(Verdict::NotDecided), "fewer than wanted");
    assert_eq!(of("none in 1000000", "1 of 119014"), Some(Verdict::Missed));
    assert_eq!(of("none in 1000000", "0 of 1000000 each"), Some(Verdict::Met));
    assert_eq!(of("(no mark)", "1.0 [0.9 … 1.1]"), Some(Verdict::NotDecided));
    // Words behind a mark are no way around it.
    assert_eq!(of("≥ 0.8 (before: 1.44 of something else)", "0.7 [0.6 … 0.75]"), Some(Verdict::Missed));
    assert_eq!(of("0.85 … 1.15 (before: 1.3 … 6)", "1.2 [1.1 … 1.3]"), Some(Verdict::NotDecided));
    assert!(row("about 1", "1.0 [0.9 … 1.1]").is_err() && row("", "1").is_err(), "nobody could judge these");
}
