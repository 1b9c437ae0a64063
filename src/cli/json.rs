//! JSON for people, made of the compact JSON that goes to disk and to agents.

use serde::Serialize;

/// A value as JSON for people, two spaces a level. Written compactly first, as to disk and to agents: a second serializer
/// for the same types would be a twentieth of the binary.
///
/// # Errors
/// When the value has what JSON does not know.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(indented(&serde_json::to_string(value)?))
}

/// Compact JSON with a line for each value.
fn indented(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len() * 2);
    let (mut depth, mut in_text, mut escaped, mut opened) = (0usize, false, false, false);
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    for letter in compact.chars() {
        if in_text {
            in_text = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            out.push(letter);
            continue;
        }
        let closes = matches!(letter, ']' | '}');
        depth -= usize::from(closes && depth > 0);
        // Nothing stands between the brackets of what is empty.
        if opened != closes {
            line(&mut out, depth);
        }
        opened = matches!(letter, '[' | '{');
        depth += usize::from(opened);
        in_text = letter == '"';
        out.push(letter);
        match letter {
            ',' => line(&mut out, depth),
            ':' => out.push(' '),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<f64>().prop_map(|number| json!(number)),
            "[\"\\\\,:\\[\\]{} a\n]{0,8}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec(("[\"\\\\a:]{0,4}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_the_library_would_write(value in value()) {
            prop_assert_eq!(pretty(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
