//! The documentation of `simulate` held to what there is, in both directions: its tables are those of the types, every example runs,
//! every key, variant and figure stands in one, and nothing is named that does not exist.
//!
//! ```text
//!  types ─► docs/formats/scenario.schema.json (a test of bulkhead-schemas) ─┬─► tables of docs/simulate-reference.md
//!  sim::scenario::all_figures ──────────────────────────────────────────────┤
//!  ```toml blocks ─► completed from the whole ones ─► bulkhead simulate ────┴─► used keys, variants, figures: all of them?
//! ```

mod examples;
mod schema;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::simulate_fixture::{bulkhead, folder, good, stderr, stdout};
use bulkhead::sim::scenario::all_figures;
use examples::Example;
use schema::Schema;

/// Where everything is said.
const REFERENCE: &str = "docs/simulate-reference.md";
/// The documents whose examples run.
const DOCUMENTS: [&str; 2] = ["docs/simulate.md", REFERENCE];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn document(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

#[test]
fn the_tables_of_the_reference_are_those_of_the_types() {
    let (schema, text) = (Schema::stored(), document(REFERENCE));
    let made = tables::renewed(&text, &schema);
    if std::env::var_os("BULKHEAD_WRITE_FORMATS").is_some() {
        fs::write(path(REFERENCE), &made).unwrap();
        return;
    }
    let advice = "write them anew: BULKHEAD_WRITE_FORMATS=1 cargo test -p bulkhead-schemas the_stored_schemas, then \
                  BULKHEAD_WRITE_FORMATS=1 cargo test --test results the_tables_of_the_reference";
    let differs = text.lines().zip(made.lines()).find(|(stored, today)| stored != today);
    assert!(text == made, "{REFERENCE} is not of today, {differs:?}; {advice}");
    let missing: Vec<String> =
        tables::wanted(&schema).into_iter().filter(|name| !text.contains(&tables::head(name))).collect();
    assert!(
        missing.is_empty(),
        "{REFERENCE} has no table of {missing:?}: where each belongs, add the two lines \"{}\" and \"{}\"; then {advice}",
        tables::head(&missing.join(" or ")),
        tables::END
    );
}

/// The examples run, and between them they have everything.
#[test]
fn every_example_runs_and_every_key_variant_and_figure_stands_in_one() {
    let (schema, examples) = (Schema::stored(), examples::all(&DOCUMENTS));
    let run = examples::folder_with_a_run();
    let (mut used, mut yielded) = (BTreeSet::new(), BTreeSet::new());
    for example in &examples {
        let Example { place, written, whole, .. } = example;
        fs::write(run.path().join("s.toml"), toml::to_string(whole).unwrap()).unwrap();
        let output = bulkhead(&run, &["simulate", "s.toml", "--json"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "the example at {place} does not run:\n{}\n{}\n{}",
            toml::to_string(written).unwrap(),
            stderr(&output),
            stdout(&output).get(..2000).unwrap_or_default()
        );
        schema.used(written, &mut used);
        let simulated: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let cases = simulated["cases"].as_array().unwrap();
        if simulated["once"].as_array().is_some_and(|once| once.len() == cases.len()) {
            let other = good(&run, &["simulate", "s.toml", "--json", "--seed", "99"]);
            let other: Value = serde_json::from_str(&other).unwrap();
            assert_eq!(
                simulated["cases"], other["cases"],
                "another seed changes the example at {place}: crates/sim/src/scenario/chance.rs takes it for not random"
            );
        }
        let figures = cases.iter().flat_map(|case| case["figures"].as_array().unwrap());
        yielded.extend(figures.map(|figure| examples::known_as(figure["id"].as_str().unwrap())));
    }
    let unused: Vec<String> = schema.all().into_iter().filter(|name| !used.contains(name)).collect();
    assert!(
        unused.is_empty(),
        "no example uses {unused:#?}; add ```toml blocks that do to {DOCUMENTS:?}, three lines or so: what they leave out comes from \
         the whole scenarios of {REFERENCE}"
    );
    let known: BTreeSet<String> = all_figures().into_iter().map(|figure| figure.id).collect();
    let unlisted: Vec<&String> = yielded.difference(&known).collect();
    assert!(
        unlisted.is_empty(),
        "{unlisted:?} are yielded, and crates/sim/src/scenario/catalogue.rs does not list them"
    );
    let unseen: Vec<&String> = known.difference(&yielded).collect();
    assert!(
        unseen.is_empty(),
        "no example yields {unseen:?}: add one to {REFERENCE}, or take them out of crates/sim/src/scenario/catalogue.rs"
    );
}

/// Names in the text: keys, variants, figures, options, paths, names of the examples.
#[test]
fn the_documents_name_nothing_that_does_not_exist() {
    let schema = Schema::stored();
    let empty = folder(&[]);
    let help: String = ["simulate", "compare", "report"].map(|verb| good(&empty, &[verb, "--help"])).concat();
    let mut names = schema.words();
    let verbs = good(&empty, &["--help"]);
    names.extend(
        verbs.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).map(str::to_owned),
    );
    names.extend(
        all_figures()
            .into_iter()
            .flat_map(|figure| figure.id.split('.').map(str::to_owned).collect::<Vec<_>>()),
    );
    names.extend(examples::all(&DOCUMENTS).iter().flat_map(Example::names));
    let mut strange = Vec::new();
    for name in DOCUMENTS {
        for span in examples::code_spans(&tables::without(&document(name))) {
            let is_known = match span.strip_prefix("bulkhead ") {
                Some(rest) => {
                    help.contains(&format!("bulkhead {}", rest.split(' ').next().unwrap_or_default()))
                }
                None => examples::words(&span).iter().all(|word| {
                    if word.starts_with("--") {
                        help.contains(word.as_str())
                    } else {
                        names.contains(word) || examples::is_file(word)
                    }
                }),
            };
            if !is_known {
                strange.push(format!("{name}: `{span}`"));
            }
        }
    }
    assert!(strange.is_empty(), "these are no keys, variants, figures, options or files: {strange:#?}");
}

#[test]
fn every_time_says_its_unit_at_the_end_of_its_key() {
    let (schema, text) = (Schema::stored(), document(REFERENCE));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `_")?.split('`').next());
    let documented: BTreeSet<String> = rows.map(str::to_owned).collect();
    let mut used = schema.units();
    let figures = all_figures();
    let of_figures = figures.iter().filter_map(|figure| figure.id.rsplit_once('_'));
    used.extend(of_figures.map(|(_, end)| end.to_owned()).filter(|end| documented.contains(end)));
    let more = ["cycles", "cpus", "share", "ps", "s"].map(str::to_owned).into_iter();
    used.extend(more.filter(|end| schema.words().iter().any(|key| key.ends_with(&format!("_{end}")))));
    assert_eq!(documented, used, "the table of units in {REFERENCE} and the keys");
}

#[test]
fn every_policy_can_be_put_in_by_its_name_alone_or_says_what_it_wants() {
    let base = examples::all(&DOCUMENTS)
        .into_iter()
        .find(|example| example.is_whole() && example.whole.contains_key("host"));
    let folder = folder(&[("s.toml", &toml::to_string(&base.unwrap().whole).unwrap())]);
    let mut alone = 0;
    for (policy, wanted) in Schema::stored().variants("PolicySpec") {
        let output =
            bulkhead(&folder, &["simulate", "s.toml", "--json", "--set", &format!("host.policy={policy}")]);
        let said = stderr(&output);
        match output.status.code() {
            Some(0) => alone += 1,
            Some(2) => assert!(
                wanted.iter().any(|key| said.contains(key.as_str()))
                    || (policy == "table" && said.contains("wanted cells or reserved_cpus"))
                    || said.contains(&format!("the policy \"{policy}\" wants")),
                "{policy}: it wants {wanted:?} and says {said}"
            ),
            other => panic!("{policy}: {other:?} {said}"),
        }
        assert!(
            output.status.code() == Some(0)
                || !wanted.is_empty()
                || ["rtds", "table"].contains(&policy.as_str()),
            "{policy}: {said}"
        );
    }
    good(
        &folder,
        &["simulate", "s.toml", "--set", "host.policy=eevdf", "--set", "host.policy.queues=per-cpu"],
    );
    assert!(alone >= 7, "{alone} policies run by their name alone");
}
