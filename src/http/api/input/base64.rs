//! Bytes that a body carries as standard base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

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
