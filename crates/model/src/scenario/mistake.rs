//! What a mistake is called that was found while a scenario was read, and where in its text it is.
//!
//! A table whose other keys depend on one of them (`program`, `kind`, a policy's `name`) is taken in whole before it is known what
//! may stand in it, so that what is wrong in it is told of all of it. Which key it was is found again here.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::sweep::ScenarioError;
use units::Reason;

/// Keys that say which other keys there are.
const TAGS: [&str; 3] = ["program", "kind", "name"];

/// The byte at which the mistake is, and what it is in words.
pub(super) fn mistake(text: &str, error: &toml::de::Error) -> (Option<usize>, String) {
    let told = error.message().trim().replace('\n', "; ");
    let span = error.span();
    let key = told.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let found = key.zip(span.clone()).and_then(|((key, _), span)| holder(text, &span, key));
    let Some((at, tag)) = found else { return (span.map(|span| span.start), told) };
    let none = ", there are no fields";
    let told = match (told.strip_suffix(none), tag) {
        (Some(unknown), Some((tag, word))) => {
            format!("{unknown}, there are no keys beside `{tag}` for \"{word}\"")
        }
        _ => told,
    };
    (Some(at), told)
}

/// The same as the error of a file.
pub(super) fn syntax(text: &str, error: &toml::de::Error) -> ScenarioError {
    let (at, problem) = mistake(text, error);
    ScenarioError { line: at.map(|at| text[..at.min(text.len())].matches('\n').count() + 1), problem }
}

/// Refuses a path such as `vm.A..weight`.
pub(super) fn has_no_empty_part(path: &str) -> Result<(), Reason> {
    if !path.split('.').any(str::is_empty) {
        return Ok(());
    }
    let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let wanted = if parts.is_empty() { "a path such as vm.A.weight".to_owned() } else { parts.join(".") };
    Err(format!("a part of the path is empty; wanted {wanted}").into())
}

/// Where `key` is written in the innermost table that has it and of which an error is told at `span`, and what says which keys
/// there are.
fn holder(text: &str, span: &Range<usize>, key: &str) -> Option<(usize, Option<(&'static str, String)>)> {
    fn within(
        value: &DeValue<'_>,
        own: &Range<usize>,
        span: &Range<usize>,
        key: &str,
    ) -> Option<(usize, Option<(&'static str, String)>)> {
        match value {
            DeValue::Table(table) => {
                let deeper = table.iter().find_map(|(name, value)| {
                    let own = if name.span() == *span { name.span() } else { value.span() };
                    within(value.get_ref(), &own, span, key)
                });
                deeper.or_else(|| {
                    let (name, _) =
                        table.get_key_value(key).filter(|(name, _)| own == span || name.span() == *span)?;
                    let tag = TAGS
                        .iter()
                        .find_map(|tag| Some((*tag, table.get(*tag)?.get_ref().as_str()?.to_owned())));
                    Some((name.span().start, tag))
                })
            }
            DeValue::Array(list) => {
                list.iter().find_map(|value| within(value.get_ref(), &value.span(), span, key))
            }
            _ => None,
        }
    }
    let root = DeTable::parse(text).ok()?;
    let own = root.span();
    within(&DeValue::Table(root.into_inner()), &own, span, key)
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::super::cases;

    const HOST: &str = "name = \"x\"\n[host]\ncpus = 1\npolicy = { name = \"eevdf\" }\n[[vm]]\nname = \"A\"\nvcpus = 1\nbudget_us = 1\n\
                        period_us = 2\nthread = [\n    { run = { program = \"endless\" } },\n]\n";
    const NODES: &str = "name = \"x\"\n[nodes]\ncount = 2\nwork_us = 1\nsteps = 1\nbarrier = { kind = \"maximum\" }\n\
                         noise = { kind = \"none\" }\n";

    fn error(text: &str) -> (usize, String) {
        let error = cases(text, &[]).unwrap_err();
        (error.line.unwrap_or(0), error.problem)
    }

    #[test]
    fn a_key_that_a_variant_without_keys_does_not_have_is_refused_at_its_line() {
        for (text, line, tag, word) in [
            (HOST.replace("\"endless\"", "\"endless\", nonsense = 3"), 11, "program", "endless"),
            (HOST.replace("\"eevdf\"", "\"rtds\", nonsense = 3"), 4, "name", "rtds"),
            (
                HOST.replace("policy = { name = \"eevdf\" }", "[host.policy]\nname = \"rtds\"\nnonsense = 3"),
                6,
                "name",
                "rtds",
            ),
            (
                HOST.replace("policy = { name = \"eevdf\" }", "policy.name = \"rtds\"\npolicy.nonsense = 3"),
                5,
                "name",
                "rtds",
            ),
            (NODES.replace("\"maximum\"", "\"maximum\", nonsense = 3"), 6, "kind", "maximum"),
            (NODES.replace("\"none\"", "\"none\", nonsense = 3"), 7, "kind", "none"),
        ] {
            let wanted = format!("unknown field `nonsense`, there are no keys beside `{tag}` for \"{word}\"");
            assert_eq!(error(&text), (line, wanted), "{text}");
        }
        // Put in by a case or a command line.
        let put = [("vm.A.thread.0.run.nonsense".to_owned(), Value::Integer(3))];
        let told = cases(HOST, &put).unwrap_err().to_string();
        assert_eq!(
            told,
            "--set vm.A.thread.0.run.nonsense: vm.0.thread.0.run.nonsense: unknown field `nonsense`, there are no keys beside \
             `program` for \"endless\""
        );
    }

    #[test]
    fn the_keys_that_there_are_are_named() {
        let text =
            HOST.replace("{ program = \"endless\" }", "{ program = \"fixed\", work_us = 1, nonsense = 3 }");
        assert_eq!(error(&text), (11, "unknown field `nonsense`, expected `work_us`".to_owned()));
    }

    #[test]
    fn a_path_with_an_empty_part_is_refused() {
        let problem = "a part of the path is empty; wanted vm.A.weight";
        for path in ["vm.A..weight", ".vm.A.weight", "vm.A.weight.", "..vm.A.weight", "vm..A.weight"] {
            let told = cases(HOST, &[(path.to_owned(), Value::Float(2.0))]).unwrap_err().to_string();
            assert_eq!(told, format!("--set {path}: {problem}"));
            let (line, told) = error(&format!("{HOST}[sweep]\n\"{path}\" = [2.0]\n"));
            assert!(line == 14 && told.contains(problem), "{line} {told}");
        }
        let told = cases(HOST, &[(String::new(), Value::Float(2.0))]).unwrap_err().to_string();
        assert!(told.contains("wanted a path such as vm.A.weight"), "{told}");
    }

    /// Whatever table of a scenario it stands in.
    #[test]
    fn an_unknown_key_is_refused_in_every_table() {
        let with_all = format!(
            "{HOST}locks = {{ count = 1 }}\ninterrupts = {{ send_ns = 1 }}\n[limits]\nevents = 5\n[[figure]]\ntitle = \"x\"\nmetric = \"host.used_share\"\n\
             published = 1\nsource = \"x\"\ntolerance = 0.1\n[[assumption]]\nkey = \"host.cpus\"\nwhy = \"x\"\n[[case]]\nlabel = \"x\"\n"
        );
        let mut texts = vec![with_all, NODES.to_owned()];
        for policy in [
            "credit",
            "credit2",
            "deadline",
            "gang",
            "equal-per-vm",
            "per-thread",
            "proportional",
            "table",
            "rtds",
        ] {
            texts.push(HOST.replace("eevdf", policy));
        }
        let mut tried = 0;
        for text in texts {
            let root: Value = Value::Table(text.parse().unwrap());
            for path in tables(&root, "") {
                let mut worse = root.clone();
                let place = path.split('.').filter(|part| !part.is_empty()).fold(
                    &mut worse,
                    |place, part| match place {
                        Value::Array(list) => &mut list[part.parse::<usize>().unwrap()],
                        other => other.get_mut(part).unwrap(),
                    },
                );
                place.as_table_mut().unwrap().insert("nonsense".to_owned(), Value::Integer(3));
                let told = cases(&toml::to_string(&worse).unwrap(), &[]).unwrap_err().to_string();
                assert!(told.contains("unknown field `nonsense`"), "{path}: {told}\n{worse}");
                tried += 1;
            }
        }
        assert!(tried > 50, "{tried}");
    }

    fn tables(value: &Value, path: &str) -> Vec<String> {
        let inner =
            |name: String, value: &Value| tables(value, format!("{path}.{name}").trim_start_matches('.'));
        match value {
            Value::Table(table) => {
                let deeper = table.iter().flat_map(|(name, value)| inner(name.clone(), value));
                std::iter::once(path.to_owned()).chain(deeper).collect()
            }
            Value::Array(list) => {
                list.iter().enumerate().flat_map(|(number, value)| inner(number.to_string(), value)).collect()
            }
            _ => Vec::new(),
        }
    }
}
