//! The scenarios that come with the program: readable files in `scenarios/`, embedded.

use units::names::UnknownName;

/// One line per file, by name.
const SHIPPED: &[(&str, &str)] = &[
    ("cold-warm-numa", include_str!("../../../../scenarios/cold-warm-numa.toml")),
    ("cpu-share", include_str!("../../../../scenarios/cpu-share.toml")),
    ("lock-holder-preemption", include_str!("../../../../scenarios/lock-holder-preemption.toml")),
    ("locks", include_str!("../../../../scenarios/locks.toml")),
    ("noise-at-scale", include_str!("../../../../scenarios/noise-at-scale.toml")),
    ("rhype-fwq", include_str!("../../../../scenarios/rhype-fwq.toml")),
    ("share-curve", include_str!("../../../../scenarios/share-curve.toml")),
    ("tableau", include_str!("../../../../scenarios/tableau.toml")),
    ("three-on-two", include_str!("../../../../scenarios/three-on-two.toml")),
    ("ticket-locks", include_str!("../../../../scenarios/ticket-locks.toml")),
];

/// Names of the shipped scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Text of a shipped scenario, comments included.
///
/// # Errors
/// When there is none of this name; the nearest is named.
pub fn text(name: &str) -> Result<&'static str, UnknownName> {
    let known: Vec<&str> = names().collect();
    let found = SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| UnknownName::new("scenario", name, &known))
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Study};
    use super::*;
    use model::scenario::cases;

    #[test]
    fn every_shipped_scenario_parses_and_its_figures_and_assumptions_name_what_is_there() {
        for name in names() {
            let cases = cases(text(name).unwrap(), &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(cases[0].scenario.name, name);
            assert!(!cases[0].scenario.about.is_empty() && !cases[0].scenario.figures.is_empty(), "{name}");
            let study =
                Study::new(cases, Options::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!study.jobs().is_empty(), "{name}");
        }
        assert!(text("cpu-shar").unwrap_err().to_string().contains("did you mean \"cpu-share\"?"));
    }
}
