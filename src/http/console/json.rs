//! Reading the bodies of responses: what is absent or of another type reads as empty.

use serde_json::Value;

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
