//! The stored schema of scenarios: all that can stand in one, and what of it an example uses.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The schema of a scenario.
pub struct Schema(Value);

/// Keys that say which variant a table is.
pub const TAGS: [&str; 3] = ["name", "program", "kind"];

impl Schema {
    /// The stored one, which `bulkhead-schemas` holds to the types.
    pub fn stored() -> Self {
        Self(serde_json::from_str(include_str!("../../docs/formats/scenario.schema.json")).unwrap())
    }

    /// The definition of this name; that of a whole file is `Scenario`.
    pub fn definition(&self, name: &str) -> &Value {
        if name == "Scenario" { &self.0 } else { &self.0["$defs"][name] }
    }

    /// Names of all definitions that are no numbers.
    pub fn definitions(&self) -> Vec<String> {
        let all = self.0["$defs"].as_object().unwrap();
        let named =
            all.iter().filter(|(_, one)| one.get("properties").is_some() || one.get("oneOf").is_some());
        std::iter::once("Scenario".to_owned()).chain(named.map(|(name, _)| name.clone())).collect()
    }

    /// Every key, every variant, every key of a variant: `VmSpec.weight`, `PolicySpec.credit`, `PolicySpec.credit.slice_us`.
    pub fn all(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for name in self.definitions() {
            let one = self.definition(&name);
            for key in properties(one).into_iter().flat_map(Map::keys) {
                all.insert(format!("{name}.{key}"));
            }
            for variant in branches(one) {
                let (word, keys) = word_of(variant);
                all.insert(format!("{name}.{word}"));
                all.extend(keys.into_iter().map(|key| format!("{name}.{word}.{key}")));
            }
        }
        all
    }

    /// Every key and word by itself, also those that only a description names, and the ends of keys, which are units.
    pub fn words(&self) -> BTreeSet<String> {
        let own = self.0["properties"].as_object().unwrap().values();
        let told = own
            .filter_map(|key| key["description"].as_str())
            .flat_map(|text| text.split('`').skip(1).step_by(2));
        let told: Vec<String> = told.map(str::to_owned).collect();
        let parts = self
            .all()
            .into_iter()
            .flat_map(|name| name.split('.').skip(1).map(str::to_owned).collect::<Vec<_>>());
        let mut words: BTreeSet<String> = parts.chain(TAGS.map(str::to_owned)).chain(told).collect();
        let ends: Vec<String> =
            words.iter().filter_map(|key| key.rsplit_once('_')).map(|(_, end)| end.to_owned()).collect();
        words.extend(ends);
        words
    }

    /// Variants of a definition, each with the keys that it wants.
    pub fn variants(&self, name: &str) -> Vec<(String, Vec<String>)> {
        let wanted = |variant: &Value| {
            let keys = variant["required"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|key| key.as_str().unwrap().to_owned());
            keys.filter(|key| !TAGS.contains(&key.as_str())).collect()
        };
        branches(self.definition(name)).map(|variant| (word_of(variant).0, wanted(variant))).collect()
    }

    /// Ends of the keys whose type is a time.
    pub fn units(&self) -> BTreeSet<String> {
        let mut ends = BTreeSet::new();
        for name in self.definitions() {
            let one = self.definition(&name);
            for (key, value) in std::iter::once(one).chain(branches(one)).filter_map(properties).flatten() {
                let types = [value.get("$ref"), value["anyOf"].get(0).and_then(|first| first.get("$ref"))];
                let is_time = types.into_iter().flatten().any(|name| {
                    ["Micros", "Millis", "Nanos"]
                        .iter()
                        .any(|time| name.as_str().unwrap().ends_with(&format!("/{time}")))
                });
                if is_time {
                    ends.insert(key.rsplit('_').next().unwrap().to_owned());
                }
            }
        }
        ends
    }

    /// What a scenario, or a part of one, uses of [`Self::all`].
    pub fn used(&self, table: &toml::Table, used: &mut BTreeSet<String>) {
        self.walk("Scenario", &self.0, &serde_json::to_value(table).unwrap(), used);
    }

    fn walk(&self, owner: &str, node: &Value, value: &Value, used: &mut BTreeSet<String>) {
        if let Some(name) = node["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.walk(name, self.definition(name), value, used);
        }
        for other in node["anyOf"].as_array().into_iter().flatten() {
            self.walk(owner, other, value, used);
        }
        for one in value.as_array().into_iter().flatten() {
            self.walk(owner, &node["items"], one, used);
        }
        let own = properties(node).map(|all| (String::new(), all));
        let said = value.as_str().or_else(|| TAGS.iter().find_map(|tag| value.get(*tag)?.as_str()));
        let variant = branches(node).find(|branch| Some(word_of(branch).0.as_str()) == said);
        if let Some(variant) = variant {
            used.insert(format!("{owner}.{}", word_of(variant).0));
        }
        let of_variant =
            variant.and_then(|branch| Some((format!(".{}", word_of(branch).0), properties(branch)?)));
        for (prefix, all) in own.into_iter().chain(of_variant) {
            for (key, value) in value.as_object().into_iter().flatten() {
                let Some(below) = all.get(key) else { continue };
                used.insert(format!("{owner}{prefix}.{key}"));
                self.walk(owner, below, value, used);
            }
        }
    }
}

/// Keys of a table.
pub fn properties(node: &Value) -> Option<&Map<String, Value>> {
    node.get("properties")?.as_object()
}

/// Variants of a choice.
pub fn branches(node: &Value) -> impl Iterator<Item = &Value> {
    node["oneOf"].as_array().into_iter().flatten()
}

/// The word that stands for a variant, and its other keys.
pub fn word_of(variant: &Value) -> (String, Vec<String>) {
    let tag = |tag: &&&str| variant["properties"][**tag].get("const").is_some();
    match (variant.get("const"), TAGS.iter().find(tag)) {
        (Some(word), _) => (word.as_str().unwrap().to_owned(), Vec::new()),
        (None, Some(tag)) => {
            let keys = properties(variant).into_iter().flat_map(Map::keys).filter(|key| *key != tag);
            (variant["properties"][*tag]["const"].as_str().unwrap().to_owned(), keys.cloned().collect())
        }
        _ => panic!("a variant without a word: {variant}"),
    }
}
