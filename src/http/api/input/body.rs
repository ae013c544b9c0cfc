//! JSON bodies: parsing into wire types, with errors that name the field.
//!
//! JSON that is stored as it was sent may not nest deeply ([`shallow`]): it is parsed again by other programs, many with a limit near
//! 100 levels. Bytes are sent as standard base64 ([`Base64Bytes`]).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_model::non_null::{Object, non_null};
use conclave_model::{ErrorCode, Problem};
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::error;
use crate::http::api::spec::BodyDoc;

/// Type that is parsed from a request body.
pub trait FromBody: Sized {
    /// Parses and checks the body.
    ///
    /// # Errors
    /// 400, `field` a dotted path to the error.
    fn from_body(bytes: &[u8]) -> Result<Self, Problem>;

    /// Describes the body; `None` for an operation without one.
    fn describe() -> Option<BodyDoc>;
}

impl<T: DeserializeOwned + ToSchema> FromBody for T {
    fn from_body(bytes: &[u8]) -> Result<Self, Problem> {
        read(bytes)
    }

    fn describe() -> Option<BodyDoc> {
        Some(BodyDoc::new::<T>())
    }
}

/// No body: a request with a body is refused.
#[derive(Debug, Clone, Copy)]
pub struct NoBody;

impl FromBody for NoBody {
    fn from_body(bytes: &[u8]) -> Result<Self, Problem> {
        #[derive(Deserialize)]
        // Fields for an operation that takes none are a mistake of the client, so they are refused, too.
        #[serde(deny_unknown_fields)]
        struct Empty {}
        // `{}` has no fields either, so it is accepted like an empty body.
        if is_blank(bytes) {
            Ok(Self)
        } else {
            read::<Empty>(bytes).map(|_| Self)
        }
    }

    fn describe() -> Option<BodyDoc> {
        None
    }
}

/// Ignored body, for an operation that lists no 400.
#[derive(Debug, Clone, Copy)]
pub struct AnyBody;

impl FromBody for AnyBody {
    fn from_body(_: &[u8]) -> Result<Self, Problem> {
        Ok(Self)
    }

    fn describe() -> Option<BodyDoc> {
        None
    }
}

/// Optional body, which defaults to `T::default()`.
#[derive(Debug, Clone)]
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + ToSchema + Default> FromBody for OptionalBody<T> {
    fn from_body(bytes: &[u8]) -> Result<Self, Problem> {
        // A body that is sent must parse: a typing mistake must not result in the defaults.
        if is_blank(bytes) {
            Ok(Self(T::default()))
        } else {
            read(bytes).map(Self)
        }
    }

    fn describe() -> Option<BodyDoc> {
        Some(BodyDoc::new::<T>().optional())
    }
}

/// Wire type with rules between its fields.
pub trait Validate {
    /// Validated type.
    type Valid;

    /// Checks the rules.
    ///
    /// # Errors
    /// 400, `field` the field that violates one.
    fn validate(self) -> Result<Self::Valid, Problem>;
}

/// Body that is parsed as `T`, then validated.
#[derive(Debug, Clone)]
pub struct Checked<T: Validate>(pub T::Valid);

impl<T: DeserializeOwned + ToSchema + Validate> FromBody for Checked<T> {
    fn from_body(bytes: &[u8]) -> Result<Self, Problem> {
        // Types first: the rules between fields need all of them.
        read::<T>(bytes)?.validate().map(Self)
    }

    fn describe() -> Option<BodyDoc> {
        Some(BodyDoc::new::<T>())
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// Parses a JSON object.
///
/// # Errors
/// 400, `field` a dotted path to the error.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if is_blank(bytes) {
        return Err(Problem::new(
            ErrorCode::InvalidRequest,
            "a JSON object is required as the body",
        ));
    }
    // Tracking the path costs several allocations per field, so only a refused body is parsed again with it.
    match serde_json::from_slice(bytes) {
        // `Object`, because serde would also accept an array for a struct, field by field.
        Ok(Object(body)) => Ok(body),
        Err(_) => read_with_path(bytes),
    }
}

/// Parses a JSON object with the path to the current value.
fn read_with_path<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let Object(body) =
        serde_path_to_error::deserialize(&mut json).map_err(|error| refusal(bytes, &error))?;
    // The first pass may have failed on bytes behind the object, which this pass sees only at the end.
    json.end().map_err(|error| malformed(&error))?;
    Ok(body)
}

/// Parses the part of a body in `field` whose type depends on another field.
///
/// # Errors
/// 400, `field` a dotted path from the root of the body.
pub fn read_at<T: DeserializeOwned>(field: &'static str, part: &RawValue) -> Result<T, Problem> {
    read(part.get().as_bytes()).map_err(|problem| match &problem.field {
        Some(inner) => {
            let field = format!("{field}.{inner}");
            problem.at(field)
        }
        None => problem.at(field),
    })
}

fn is_json(bytes: &[u8]) -> bool {
    // JSON is UTF-8 (RFC 8259, section 8.1).
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn malformed(error: &serde_json::Error) -> Problem {
    let message = format!("the body is not valid JSON: {error}");
    Problem::new(ErrorCode::InvalidRequest, message)
}

fn refusal(bytes: &[u8], error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    // serde_json classifies some errors in valid JSON, such as too deep nesting, as syntax errors. Their text is kept.
    let text = match without_position(&inner.to_string()) {
        text if inner.is_data() => without_value(text),
        _ if !is_json(bytes) => return malformed(inner),
        text => text,
    };
    let path = error.path().to_string();
    // `serde_path_to_error` displays the root as ".".
    let path = if path == "." { String::new() } else { path };
    match error_field(&path, &text) {
        Some(field) => error::refusal(text).at(field),
        None => Problem::new(ErrorCode::InvalidRequest, text),
    }
}

/// Returns the path to the error. For a missing or unknown field, serde points at the object around it or at the field itself.
fn error_field(path: &str, text: &str) -> Option<String> {
    // Only serde's message contains the field's name.
    let named = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| text.strip_prefix(start))
        .and_then(|rest| rest.split_once('`'))
        .map(|(name, _)| name);
    match named {
        // For an unknown field, the path includes the field itself.
        Some(name) if path == name || path.ends_with(&format!(".{name}")) => Some(path.to_owned()),
        Some(name) if path.is_empty() => Some(name.to_owned()),
        Some(name) => Some(format!("{path}.{name}")),
        None if path.is_empty() => None,
        None => Some(path.to_owned()),
    }
}

/// Replaces serde's message, which repeats the unexpected value: it may be a secret in the wrong field.
fn without_value(text: String) -> String {
    // The rightmost match: the unexpected value in front may contain the same words.
    match text.rsplit_once(", expected ") {
        Some((head, expected))
            if head.starts_with("invalid ") || head.starts_with("unknown variant") =>
        {
            format!("must be {}", number_range(expected))
        }
        _ => text,
    }
}

/// Replaces serde's name for a number, which is the Rust type and means nothing to the caller.
fn number_range(expected: &str) -> String {
    let range = match expected {
        "u8" => 0..=i128::from(u8::MAX),
        "u16" => 0..=i128::from(u16::MAX),
        "u32" => 0..=i128::from(u32::MAX),
        "u64" => 0..=i128::from(u64::MAX),
        "i32" => i128::from(i32::MIN)..=i128::from(i32::MAX),
        "i64" => i128::from(i64::MIN)..=i128::from(i64::MAX),
        other => return other.to_owned(),
    };
    format!("a whole number from {} to {}", range.start(), range.end())
}

/// Removes the position that serde_json appends, which adds nothing to the path.
fn without_position(text: &str) -> String {
    // The rightmost match, as the message may quote the body.
    text.rsplit_once(" at line ")
        .map_or(text, |(message, _)| message)
        .to_owned()
}

/// Maximum levels of arrays and objects.
pub const MAX_LEVELS: usize = 64;

/// For `deserialize_with`: accepts any JSON of at most [`MAX_LEVELS`] levels.
///
/// # Errors
/// If the JSON is null or nests deeper.
pub fn shallow<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    let json: Option<Box<RawValue>> = non_null(deserializer)?;
    match json {
        Some(json) if levels(json.get()) > MAX_LEVELS => Err(D::Error::custom(format_args!(
            "must nest at most {MAX_LEVELS} levels of arrays and objects"
        ))),
        json => Ok(json),
    }
}

/// Returns valid JSON's nesting depth.
fn levels(json: &str) -> usize {
    let (mut level, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    // Scanning bytes is safe in UTF-8: no byte of a multi-byte character is below 0x80. A recursive parser would need a stack per
    // level.
    for byte in json.bytes() {
        match (is_text, byte) {
            // The character behind a backslash belongs to the text, even if it is a quote.
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_text = !is_text,
            (false, b'[' | b'{') => {
                level += 1;
                most = most.max(level);
            }
            // `raw_value` was validated, so brackets balance; saturating keeps an error here from panicking.
            (false, b']' | b'}') => level = level.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Bytes in standard base64, with padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64Bytes(Vec<u8>);

impl From<Base64Bytes> for Vec<u8> {
    fn from(bytes: Base64Bytes) -> Self {
        bytes.0
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // With padding and zero spare bits, as the pattern below describes: each value has one spelling (RFC 4648, section 3.5).
        STANDARD
            .decode(text)
            .map(Self)
            .map_err(|_| D::Error::custom("must be standard base64"))
    }
}

impl PartialSchema for Base64Bytes {
    fn schema() -> RefOr<Schema> {
        let pattern =
            "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .content_encoding("base64")
            .pattern(Some(pattern));
        schema.examples([json!("aGVsbG8=")]).build().into()
    }
}

impl ToSchema for Base64Bytes {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use conclave_model::non_null::non_null_object;
    use conclave_model::role::RoleInput;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)] // Read by serde only.
    struct Body {
        name: String,
        #[serde(default)]
        roles: BTreeMap<String, Object<RoleInput>>,
        #[serde(default, deserialize_with = "non_null_object")]
        one: Option<RoleInput>,
        metadata: Option<Box<RawValue>>,
        cap: Option<u32>,
    }

    fn field(body: &str) -> Option<String> {
        read::<Body>(body.as_bytes())
            .unwrap_err()
            .field
            .map(Into::into)
    }

    #[test]
    fn the_field_is_a_dotted_path() {
        assert_eq!(field(r#"{}"#).as_deref(), Some("name"));
        assert_eq!(field(r#"{"name":1}"#).as_deref(), Some("name"));
        assert_eq!(
            field(r#"{"name":"a","colour":1}"#).as_deref(),
            Some("colour")
        );
        assert_eq!(
            field(r#"{"name":"a","roles":{"host":{"publish":{"video":{"width":1}}}}}"#).as_deref(),
            Some("roles.host.publish.video.width")
        );
        assert_eq!(
            field(r#"{"name":"a","roles":{"host":{"publish":{"colour":1}}}}"#).as_deref(),
            Some("roles.host.publish.colour")
        );
        assert_eq!(
            field(r#"{"name":"a","one":{"publish":{"allowed":["audio","smell"]}}}"#).as_deref(),
            Some("one.publish.allowed[1]")
        );
        assert_eq!(
            field(r#"{"name":"a","roles":{"host":[]}}"#).as_deref(),
            Some("roles.host")
        );
        assert_eq!(field(r#"{"name":"a","name":"b"}"#).as_deref(), Some("name"));
    }

    #[test]
    fn a_word_of_another_type_and_a_number_out_of_range_are_refused_where_they_stand() {
        for value in ["null", "7", "[]", "true"] {
            let body =
                format!(r#"{{"name":"a","one":{{"publish":{{"video":{{"codec":{value}}}}}}}}}"#);
            assert_eq!(
                field(&body).as_deref(),
                Some("one.publish.video.codec"),
                "{value}"
            );
        }
        let body = r#"{"name":"a","one":{"priority":1e999}}"#;
        assert_eq!(field(body).as_deref(), Some("one.priority"));
        assert_eq!(field(&body[..body.len() - 1]), None);
    }

    #[test]
    fn a_refusal_never_repeats_the_value() {
        for body in [
            r#"{"name":["hush, expected hush"]}"#,
            r#"{"name":"a","one":"hush, expected hush"}"#,
            r#"{"name":"a","one":{"publish":{"allowed":["hush"]}}}"#,
            r#""hush""#,
        ] {
            let refusal = read::<Body>(body.as_bytes()).unwrap_err();
            assert!(
                refusal.message.starts_with("must be ") && !refusal.message.contains("hush"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_number_is_asked_for_in_words() {
        for cap in ["-1", "1.5", "\"1\"", "4294967296"] {
            let refusal =
                read::<Body>(format!(r#"{{"name":"a","cap":{cap}}}"#).as_bytes()).unwrap_err();
            assert_eq!(
                refusal.message, "must be a whole number from 0 to 4294967295",
                "{cap}"
            );
            assert_eq!(refusal.field.as_deref(), Some("cap"), "{cap}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused_without_a_field() {
        for body in [
            "",
            "  ",
            "[]",
            "null",
            "1",
            "{",
            "{\"name\":\"a\"} x",
            "{\"name\":\"\u{1}\"}",
        ] {
            assert_eq!(field(body), None, "{body}");
        }
        assert!(read::<Body>(b"{\"name\":\"\xff\"}").is_err());
    }

    #[test]
    fn metadata_is_kept_as_the_text_it_was() {
        let body: Body = read(br#"{"name":"a","metadata":{"b" : 1.0, "a":1e2}}"#).unwrap();
        assert_eq!(body.metadata.unwrap().get(), r#"{"b" : 1.0, "a":1e2}"#);
    }

    #[test]
    fn deep_json_is_refused_or_kept_and_never_overflows() {
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        assert!(read::<Body>(deep.as_bytes()).is_err());
        let _ = read::<Body>(format!(r#"{{"name":"a","metadata":{deep}}}"#).as_bytes());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read::<Body>(&bytes);
        }
    }

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
