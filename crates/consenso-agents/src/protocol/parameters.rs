//! An algorithm from its keys, and which of them is at fault where it cannot be had.

use crate::ConfigError;
use crate::facts::Parameters;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess};
use serde::de::{Error as _, Visitor};
use serde_json::{Error, Value};
use std::cell::{Cell, RefCell};

/// Reads an algorithm from its keys.
///
/// # Errors
/// Names the key that is unknown, or whose value is not what it should be.
pub fn parse<P: DeserializeOwned>(parameters: Parameters) -> Result<P, ConfigError> {
    let noted = Noted::default();
    P::deserialize(Table { parameters, noted: &noted }).map_err(|error| {
        let Some(key) = noted.key.take() else { return ConfigError::of(error) };
        let unknown = !noted.keys.get().contains(&key.as_str());
        let fault = ConfigError::at(key, error.to_string());
        if unknown { fault.among(noted.keys.get()) } else { fault }
    })
}

/// Refuses the value of a key that is not a positive number.
///
/// # Errors
/// Names the key.
pub(super) fn positive(key: &'static str, value: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(ConfigError::at(key, format!("{key} must be a positive number, not {value}")))
}

/// Refuses the value of a key that does not lie above 0 and up to 1.
///
/// # Errors
/// Names the key.
pub(super) fn share(key: &'static str, value: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(ConfigError::at(key, format!("{key} must be above 0 and up to 1, not {value}")))
}

/// What was being read when reading ended.
#[derive(Default)]
struct Noted {
    key: RefCell<Option<String>>,
    /// The keys that the type has.
    keys: Cell<&'static [&'static str]>,
}

struct Table<'a> {
    parameters: Parameters,
    noted: &'a Noted,
}

impl<'de> Deserializer<'de> for Table<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let entries = self.parameters.into_iter();
        visitor.visit_map(Entries { entries, value: None, noted: self.noted })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.noted.keys.set(keys);
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Entries<'a> {
    entries: serde_json::map::IntoIter,
    value: Option<Value>,
    noted: &'a Noted,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let (key, value) = self.entries.next().unzip();
        self.value = value;
        self.noted.key.replace(key.clone());
        key.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value without its key"))?;
        seed.deserialize(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Dgd;
    use serde_json::json;

    fn fault(table: Value) -> ConfigError {
        let Value::Object(table) = table else { unreachable!() };
        parse::<Dgd>(table).unwrap_err()
    }

    /// Whatever the words of the parser.
    #[test]
    fn the_key_at_fault_is_known() {
        let unknown = fault(json!({ "step": 0.1, "stpe": 2 }));
        assert_eq!(unknown.key(), Some("stpe"));
        assert!(unknown.known().contains(&"step"));
        let wrong = fault(json!({ "step": "all" }));
        assert_eq!((wrong.key(), wrong.known().len()), (Some("step"), 0));
        let good = json!({ "step": 0.1 });
        let Value::Object(good) = good else { unreachable!() };
        assert!(parse::<Dgd>(good).is_ok());
    }
}
