//! Reading the bodies of responses: what is absent or of another type reads as empty.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The most levels of a body that [`Value`]s are read of, below those that serde_json refuses.
const LEVELS: usize = 64;

/// Reads JSON. What no [`Value`] holds reads as its text: metadata may be nested without end, have numbers of any size, and halves
/// of characters.
///
/// # Errors
/// The bytes are not JSON.
pub fn read(body: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(body).or_else(|_| Ok(read_parts(serde_json::from_slice(body)?, LEVELS)))
}

fn read_parts(json: &RawValue, levels: usize) -> Value {
    let text = json.get();
    let inner = |part: &RawValue| read_parts(part, levels - 1);
    let read = match text.as_bytes().first() {
        Some(b'{' | b'[') if levels == 0 => None,
        Some(b'{') => serde_json::from_str::<BTreeMap<String, &RawValue>>(text)
            .ok()
            .map(|fields| fields.into_iter().map(|(name, part)| (name, inner(part))).collect()),
        Some(b'[') => {
            serde_json::from_str::<Vec<&RawValue>>(text).ok().map(|parts| parts.into_iter().map(inner).collect())
        }
        _ => serde_json::from_str(text).ok(),
    };
    read.unwrap_or_else(|| text.into())
}

/// The fields of a JSON object.
pub trait Fields {
    /// A text; empty if there is none.
    fn text(&self, name: &str) -> &str;
    /// A text, if there is one.
    fn some_text(&self, name: &str) -> Option<&str>;
    /// A whole number; 0 if there is none.
    fn whole(&self, name: &str) -> i64;
    /// A number; 0 if there is none.
    fn real(&self, name: &str) -> f64;
    /// A flag; false if there is none.
    fn flag(&self, name: &str) -> bool;
    /// A list; empty if there is none.
    fn list(&self, name: &str) -> &[Value];
}

impl Fields for Value {
    fn text(&self, name: &str) -> &str {
        self.some_text(name).unwrap_or_default()
    }

    fn some_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Self::as_str)
    }

    fn whole(&self, name: &str) -> i64 {
        self.get(name).and_then(Self::as_i64).unwrap_or_default()
    }

    fn real(&self, name: &str) -> f64 {
        self.get(name).and_then(Self::as_f64).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Self::as_bool).unwrap_or_default()
    }

    fn list(&self, name: &str) -> &[Self] {
        self.get(name).and_then(Self::as_array).map_or(&[], Vec::as_slice)
    }
}
