//! YAML as `PyYAML` reads it, where a plan's stricter reader refuses: merge keys, keys given twice, a closing
//! bracket in its key's column. The lines are lost.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::origin::Origin;
use super::settings::Settings;
use crate::files;

/// How deep values may stand in each other.
const MAX_DEPTH: usize = 64;

/// A file's settings; of a key that is given twice the last value, and a note. None where it is no mapping.
pub fn read(name: &str, text: &str) -> Option<Settings> {
    if files::is_deep(text) {
        return None;
    }
    let twice = RefCell::default();
    let seed = Loose { depth: 0, twice: &twice };
    let Value::Object(root) = seed.deserialize(serde_yaml::Deserializer::from_str(text)).ok()? else { return None };
    let mut settings = Settings::default();
    spread(root, "", name, &mut settings);
    let mut twice = twice.into_inner();
    twice.dedup();
    if !twice.is_empty() {
        settings.remark(format!("{name}: given twice, the last value counts: {}", twice.join(", ")));
    }
    Some(settings)
}

fn spread(map: Map<String, Value>, above: &str, file: &str, settings: &mut Settings) {
    for (key, value) in map {
        let name = if above.is_empty() { key } else { format!("{above}.{key}") };
        match value {
            Value::Object(inner) => spread(inner, &name, file, settings),
            value => {
                let origin = Origin::File { name: file.to_owned(), line: None, key: name.clone() };
                settings.set(&name, value, origin);
            }
        }
    }
}

/// Any value.
#[derive(Clone, Copy)]
struct Loose<'a> {
    depth: usize,
    twice: &'a RefCell<Vec<String>>,
}

impl Loose<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth < MAX_DEPTH { Ok(Self { depth: self.depth + 1, ..self }) } else { Err(E::custom("too deep")) }
    }
}

impl<'de> DeserializeSeed<'de> for Loose<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Loose<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        let mut merged = Vec::new();
        while let Some(key) = entries.next_key_seed(inner)? {
            let value = entries.next_value_seed(inner)?;
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            if key == "<<" {
                merged.push(value);
            } else if map.insert(key.clone(), value).is_some() {
                self.twice.borrow_mut().push(key);
            }
        }
        // What stands in the mapping itself goes over what is merged into it; of several the first.
        let lists = merged.into_iter().flat_map(|value| match value {
            Value::Array(items) => items,
            other => vec![other],
        });
        for value in lists {
            let Value::Object(other) = value else { continue };
            for (key, value) in other {
                map.entry(key).or_insert(value);
            }
        }
        Ok(Value::Object(map))
    }

    /// A tag (`!!python/tuple`, `!include`): what stands behind it.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let (_, content) = tagged.variant_seed(inner)?;
        content.newtype_variant_seed(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pyyaml_reads_is_read() {
        let text = "a: [\n  1,\n  2\n]\nb: &x {c: 1, d: 2}\ne:\n  <<: *x\n  d: 3\na2: 1\na2: 2\nt: !tuple [1]\nf: {\n  g: on\n}\n";
        let settings = read("f.yaml", text).unwrap();
        let value = |name: &str| settings.get(name).map(|found| found.value.to_string()).unwrap_or_default();
        assert_eq!(value("a"), "[1,2]");
        assert_eq!((value("e.c"), value("e.d"), value("a2")), ("1".into(), "3".into(), "2".into()));
        assert_eq!((value("t"), value("f.g")), ("[1]".into(), "\"on\"".into()));
        assert_eq!(settings.remarks(), ["f.yaml: given twice, the last value counts: a2"]);
        assert!(read("f.yaml", "- 1\n").is_none() && read("f.yaml", "a: [\n").is_none());
    }
}
