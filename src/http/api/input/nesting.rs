//! How deep the JSON of clients nests. What is stored is read again by programs whose parsers have limits: those of many are near a hundred.

use conclave_model::non_null::non_null;
use serde::Deserializer;
use serde::de::Error;
use serde_json::value::RawValue;

/// The most levels of arrays and objects.
pub const MOST_LEVELS: usize = 64;

/// For `deserialize_with`: any JSON of at most [`MOST_LEVELS`] levels.
///
/// # Errors
/// It is null, or nests deeper.
pub fn shallow<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    let json: Option<Box<RawValue>> = non_null(deserializer)?;
    match json {
        Some(json) if levels(json.get()) > MOST_LEVELS => Err(D::Error::custom(format_args!(
            "must nest at most {MOST_LEVELS} levels of arrays and objects"
        ))),
        json => Ok(json),
    }
}

/// Counts the levels of valid JSON.
fn levels(json: &str) -> usize {
    let (mut level, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match (is_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b'[' | b'{') => {
                level += 1;
                most = most.max(level);
            }
            (false, b']' | b'}') => level = level.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn depth(json: &Value) -> usize {
        match json {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            "[\\[\\]{}\"\\\\a]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(8, 60, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[\\[{\"\\\\a]{0,4}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn levels_are_counted_whatever_texts_hold(value in json()) {
            prop_assert_eq!(levels(&value.to_string()), depth(&value));
            prop_assert_eq!(levels(&format!("{value:#}")), depth(&value));
        }
    }
}
