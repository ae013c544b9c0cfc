//! The shapes of destinations in the description, by kind and type. They are never read or written: the wire types of
//! [`super`] are, whose errors name the field that is wrong where a choice between shapes would not.

#![expect(dead_code, reason = "these types only describe")]

use conclave_model::destination::{
    AzureInput, AzureWord, GcpInput, GcpWord, HIDDEN, S3Input, S3Word, StorageText,
};
use conclave_model::rtmp::RtmpUrl;
use conclave_model::schema::HttpUrl;
use conclave_model::{BucketName, DestinationName, StorageLabel};
use serde_json::{Value, json};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A destination to create, by its kind.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("recording" = "#/components/schemas/CreateRecordingDestination"),
    ("rtmp" = "#/components/schemas/CreateRtmpDestination")
)))]
pub enum CreateDestination {
    /// Object storage of recordings.
    Recording(CreateRecordingDestination),
    /// Urls of broadcasts.
    Rtmp(CreateRtmpDestination),
}

impl PartialSchema for super::CreateDestination {
    fn schema() -> RefOr<Schema> {
        CreateDestination::schema()
    }
}

impl ToSchema for super::CreateDestination {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        CreateDestination::schemas(schemas);
    }
}

/// A destination of recordings to create.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRecordingDestination {
    /// Unique in the template.
    pub name: DestinationName,
    /// Always `recording`.
    pub kind: RecordingWord,
    /// Where files are written.
    pub config: NewRecordingDestinationConfig,
}

/// A destination of broadcasts to create.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRtmpDestination {
    /// Unique in the template.
    pub name: DestinationName,
    /// Always `rtmp`.
    pub kind: RtmpWord,
    /// Where broadcasts are sent.
    pub config: RtmpDestinationConfig,
}

/// The value of `kind` in a destination of recordings.
#[derive(ToSchema)]
pub enum RecordingWord {
    /// `recording`.
    #[schema(rename = "recording")]
    Recording,
}

/// The value of `kind` in a destination of broadcasts.
#[derive(ToSchema)]
pub enum RtmpWord {
    /// `rtmp`.
    #[schema(rename = "rtmp")]
    Rtmp,
}

/// By the destination's kind: object storage of recordings, or urls of broadcasts.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum DestinationConfig {
    /// Object storage of recordings.
    Recording(RecordingDestinationConfig),
    /// Urls of broadcasts.
    Rtmp(RtmpDestinationConfig),
}

/// A configuration without its secrets, by the destination's kind.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ShownDestinationConfig {
    /// Object storage of recordings.
    Recording(RecordingDestinationConfig),
    /// Urls of broadcasts.
    Rtmp(ShownRtmpDestinationConfig),
}

/// Object storage, by its type. Secrets read back as `***`.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "type", mapping(
    ("s3" = "#/components/schemas/S3Destination"),
    ("gcp" = "#/components/schemas/GcpDestination"),
    ("azure" = "#/components/schemas/AzureDestination")
)))]
pub enum RecordingDestinationConfig {
    /// Amazon S3, or what speaks its protocol.
    S3(S3Input),
    /// Google Cloud Storage.
    Gcp(GcpInput),
    /// Azure Blob Storage.
    Azure(AzureInput),
}

/// Object storage with its credentials, by its type.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "type", mapping(
    ("s3" = "#/components/schemas/NewS3Destination"),
    ("gcp" = "#/components/schemas/NewGcpDestination"),
    ("azure" = "#/components/schemas/NewAzureDestination")
)))]
pub enum NewRecordingDestinationConfig {
    /// Amazon S3, or what speaks its protocol.
    S3(NewS3Destination),
    /// Google Cloud Storage.
    Gcp(NewGcpDestination),
    /// Azure Blob Storage.
    Azure(NewAzureDestination),
}

/// Where broadcasts go. Each url reads back as `rtmp://host/app/REDACTED`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RtmpDestinationConfig {
    /// 1 to 8 `rtmp://` or `rtmps://` urls.
    #[schema(min_items = 1, max_items = 8)]
    pub urls: Vec<RtmpUrl>,
}

/// Where broadcasts go, without the stream keys.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownRtmpDestinationConfig {
    /// The urls, each stream key replaced by `REDACTED`.
    #[schema(min_items = 1, max_items = 8)]
    pub urls: Vec<String>,
}

/// S3, or what speaks its protocol.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewS3Destination {
    /// Always `s3`.
    pub r#type: S3Word,
    /// The bucket that files are written to.
    pub bucket: BucketName,
    /// The region of the bucket.
    #[schema(nullable = false)]
    pub region: Option<StorageLabel>,
    /// The service's http(s) url, when it is not Amazon's.
    #[schema(nullable = false)]
    pub endpoint: Option<HttpUrl>,
    /// A prefix of each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// The bucket is part of the path and not of the host name.
    #[schema(nullable = false)]
    pub force_path_style: Option<bool>,
    /// The access key's id.
    pub access_key: StorageText,
    /// The access key's secret.
    pub secret: NewCredential,
    /// What temporary credentials need beside. An empty text is none.
    #[schema(nullable = false)]
    pub session_token: Option<NewSessionToken>,
}

/// Google Cloud Storage.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGcpDestination {
    /// Always `gcp`.
    pub r#type: GcpWord,
    /// The bucket that files are written to.
    pub bucket: BucketName,
    /// A prefix of each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// A service account's key, as the JSON text that Google gives.
    pub credentials: NewCredential,
}

/// Azure Blob Storage.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAzureDestination {
    /// Always `azure`.
    pub r#type: AzureWord,
    /// The container that files are written to.
    pub container: BucketName,
    /// A prefix of each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// The account's name.
    pub account_name: StorageLabel,
    /// The account's key.
    pub account_key: NewCredential,
}

/// A credential that is not stored yet.
pub struct NewCredential;

impl PartialSchema for NewCredential {
    fn schema() -> RefOr<Schema> {
        new_secret("A credential; `***` is none.", 1)
    }
}

impl ToSchema for NewCredential {}

/// A session token that is not stored yet.
pub struct NewSessionToken;

impl PartialSchema for NewSessionToken {
    fn schema() -> RefOr<Schema> {
        new_secret(
            "A session token, or an empty text for none; `***` is none.",
            0,
        )
    }
}

impl ToSchema for NewSessionToken {}

fn new_secret(doc: &str, min_length: usize) -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(doc))
        .min_length(Some(min_length));
    let not_hidden = Extensions::from_iter([("not", json!({"const": HIDDEN}))]);
    text.pattern(Some(r"^[^\u0000]*$"))
        .extensions(Some(not_hidden))
        .into()
}

/// The keyword `oneOf` of a change: with a kind, the configuration is of that kind.
pub(super) fn configs_by_kind() -> Value {
    let of = |kind: &str, config: &str| {
        let config = json!({"$ref": format!("#/components/schemas/{config}")});
        json!({"required": ["kind"], "properties": {"kind": {"const": kind}, "config": config}})
    };
    json!([
        {"properties": {"kind": false}},
        of("recording", "RecordingDestinationConfig"),
        of("rtmp", "RtmpDestinationConfig"),
    ])
}
