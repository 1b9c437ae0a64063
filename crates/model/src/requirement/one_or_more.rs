//! What is written alone or as a list: `"qemu.db"`, `["partition.a", "partition.b"]`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One or more, in their order; a list with nothing in it is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OneOrMore<T>(Vec<T>);

impl<T> OneOrMore<T> {
    /// One.
    pub fn one(value: T) -> Self {
        Self(vec![value])
    }

    /// All of them.
    pub fn all(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Display> fmt::Display for OneOrMore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.pad(&words.join(" and "))
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            more => more.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written(PhantomData))
    }
}

/// Not an untagged enum: that would say "no variant fits" in place of what is wrong.
struct Written<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Written<T> {
    type Value = OneOrMore<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(OneOrMore::one)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, all: A) -> Result<Self::Value, A::Error> {
        let all = Vec::deserialize(SeqAccessDeserializer::new(all))?;
        if all.is_empty() { Err(de::Error::custom("the list has nothing in it")) } else { Ok(OneOrMore(all)) }
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for OneOrMore<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}
