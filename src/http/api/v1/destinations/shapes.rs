//! OpenAPI schemas for destinations, by kind and type. They are never parsed or serialised: the wire types of [`super`] are, whose
//! errors name the invalid field, which an untagged enum's do not.

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
// Untagged, because each variant has `kind` as a field of its own.
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("recording" = "#/components/schemas/CreateRecordingDestination"),
    ("rtmp" = "#/components/schemas/CreateRtmpDestination")
)))]
pub enum CreateDestination {
    /// Object storage for recordings.
    Recording(CreateRecordingDestination),
    /// URLs for broadcasts.
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

/// A recording destination to create.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRecordingDestination {
    /// Unique in the template.
    pub name: DestinationName,
    /// Always `recording`.
    pub kind: RecordingWord,
    /// Storage that files are written to.
    pub config: NewRecordingDestinationConfig,
}

/// A broadcast destination to create.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRtmpDestination {
    /// Unique in the template.
    pub name: DestinationName,
    /// Always `rtmp`.
    pub kind: RtmpWord,
    /// URLs that broadcasts are sent to.
    pub config: RtmpDestinationConfig,
}

/// The value of `kind` in a recording destination.
#[derive(ToSchema)]
// An enum with one variant is a constant in OpenAPI, as the discriminator requires.
pub enum RecordingWord {
    /// `recording`.
    #[schema(rename = "recording")]
    Recording,
}

/// The value of `kind` in a broadcast destination.
#[derive(ToSchema)]
pub enum RtmpWord {
    /// `rtmp`.
    #[schema(rename = "rtmp")]
    Rtmp,
}

/// By the destination's kind: object storage for recordings, or URLs for broadcasts.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum DestinationConfig {
    /// Object storage for recordings.
    Recording(RecordingDestinationConfig),
    /// URLs for broadcasts.
    Rtmp(RtmpDestinationConfig),
}

/// A configuration without its secrets, by the destination's kind.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum ShownDestinationConfig {
    /// Object storage for recordings.
    Recording(RecordingDestinationConfig),
    /// URLs for broadcasts.
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
    /// Amazon S3 or a compatible service.
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
    /// Amazon S3 or a compatible service.
    // Credentials are required here; an update keeps omitted ones (contract).
    S3(NewS3Destination),
    /// Google Cloud Storage.
    Gcp(NewGcpDestination),
    /// Azure Blob Storage.
    Azure(NewAzureDestination),
}

/// Target URLs for broadcasts. Each URL is returned as `rtmp://host/app/REDACTED`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RtmpDestinationConfig {
    /// 1 to 8 `rtmp://` or `rtmps://` URLs.
    #[schema(min_items = 1, max_items = 8)]
    pub urls: Vec<RtmpUrl>,
}

/// Target URLs for broadcasts, without stream keys.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownRtmpDestinationConfig {
    /// The URLs, each stream key replaced by `REDACTED`.
    #[schema(min_items = 1, max_items = 8)]
    pub urls: Vec<String>,
}

/// Amazon S3 or a compatible service.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewS3Destination {
    /// Always `s3`.
    pub r#type: S3Word,
    /// The bucket that files are written to.
    pub bucket: BucketName,
    /// The bucket's region.
    #[schema(nullable = false)]
    pub region: Option<StorageLabel>,
    /// The service's HTTP(S) URL, if it is not Amazon's.
    #[schema(nullable = false)]
    pub endpoint: Option<HttpUrl>,
    /// Prefix for each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    // S3-compatible services such as MinIO often have no DNS name per bucket.
    /// Whether the bucket is in the URL's path, not in its host name.
    #[schema(nullable = false)]
    pub force_path_style: Option<bool>,
    /// The access key's id.
    pub access_key: StorageText,
    /// The access key's secret.
    pub secret: NewCredential,
    // Temporary AWS credentials have this third part.
    /// Session token for temporary credentials. Empty means none.
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
    /// Prefix for each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// A service account's key, as the JSON text from Google.
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
    /// Prefix for each file's path.
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// The account's name.
    pub account_name: StorageLabel,
    /// The account's key.
    pub account_key: NewCredential,
}

/// Credential that is not stored yet.
pub struct NewCredential;

impl PartialSchema for NewCredential {
    fn schema() -> RefOr<Schema> {
        new_secret("A credential; must not be `***`.", 1)
    }
}

impl ToSchema for NewCredential {}

/// Session token that is not stored yet.
pub struct NewSessionToken;

impl PartialSchema for NewSessionToken {
    fn schema() -> RefOr<Schema> {
        new_secret("A session token, or empty for none; must not be `***`.", 0)
    }
}

impl ToSchema for NewSessionToken {}

fn new_secret(doc: &str, min_length: usize) -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        // Reads show `***`: written back, it would replace the credential.
        .description(Some(doc))
        .min_length(Some(min_length));
    let not_hidden = Extensions::from_iter([("not", json!({"const": HIDDEN}))]);
    text.pattern(Some(r"^[^\u0000]*$"))
        .extensions(Some(not_hidden))
        .into()
}

/// Returns the `oneOf` rule of an update: if a kind is sent, the configuration must be of that kind.
pub(super) fn configs_by_kind() -> Value {
    let of = |kind: &str, config: &str| {
        let config = json!({"$ref": format!("#/components/schemas/{config}")});
        json!({"required": ["kind"], "properties": {"kind": {"const": kind}, "config": config}})
    };
    json!([
        // Without a kind, the configuration's fields or the stored kind decide.
        {"properties": {"kind": false}},
        of("recording", "RecordingDestinationConfig"),
        of("rtmp", "RtmpDestinationConfig"),
    ])
}
