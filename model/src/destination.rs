//! Destinations: where recordings and broadcasts of a template's rooms go (contract "Destination", decisions section 3).
//!
//! A configuration has three forms. What a caller sends ([`RecordingInput`]) may leave credentials out, which keeps those
//! that are stored. What is used ([`RecordingConfig`], [`RtmpConfig`]) is complete. What is shown is JSON without secrets
//! ([`DestinationConfig::redacted`]).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::plan::Feature;
use crate::rtmp::RtmpUrl;
use crate::sent::sent;
use crate::{BucketName, DestinationId, DestinationName, Problem, Secret, StorageLabel, TemplateId, Timestamp};

/// What stands in the place of a secret wherever a configuration is shown. Sent, it means the stored secret.
pub const HIDDEN: &str = "***";

/// A destination as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The destination.
    pub id: DestinationId,
    /// The template it stands on.
    pub template_id: TemplateId,
    /// Unique in the template; how recordings and broadcasts refer to it.
    pub name: DestinationName,
    /// Never changes.
    pub kind: DestinationKind,
    /// The configuration without its secrets.
    pub config: Value,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a destination is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DestinationKind {
    /// Files of recordings.
    Recording,
    /// Broadcasts.
    Rtmp,
}

impl DestinationKind {
    /// The kind as it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Rtmp => "rtmp",
        }
    }

    /// Reads the kind back.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Recording, Self::Rtmp].into_iter().find(|kind| kind.as_str() == word)
    }

    /// What a plan must include for a destination of this kind to be written.
    #[must_use]
    pub const fn feature(self) -> Feature {
        match self {
            Self::Recording => Feature::Recording,
            Self::Rtmp => Feature::Streaming,
        }
    }
}

/// A complete configuration, secrets and all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationConfig {
    /// Where files go.
    Recording(RecordingConfig),
    /// Where broadcasts go.
    Rtmp(RtmpConfig),
}

/// Somebody's object storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordingConfig {
    /// Amazon S3, or what speaks its protocol.
    S3(S3Config),
    /// Google Cloud Storage.
    Gcp(GcpConfig),
    /// Azure Blob Storage.
    Azure(AzureConfig),
}

/// A bucket behind the S3 protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct S3Config {
    /// The bucket.
    pub bucket: BucketName,
    /// Its region.
    pub region: Option<StorageLabel>,
    /// The service's http(s) url, when it is not Amazon's.
    pub endpoint: Option<String>,
    /// What stands before each file's path.
    pub prefix: Option<StorageText>,
    /// The bucket stands in the path and not in the host.
    pub force_path_style: Option<bool>,
    /// The access key's id, which is no secret.
    pub access_key: StorageText,
    /// The access key's secret.
    #[serde(deserialize_with = "stored_secret")]
    pub secret: Secret,
    /// What temporary credentials need beside.
    #[serde(default, deserialize_with = "stored_secret_if_any")]
    pub session_token: Option<Secret>,
}

/// A bucket of Google Cloud Storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GcpConfig {
    /// The bucket.
    pub bucket: BucketName,
    /// What stands before each file's path.
    pub prefix: Option<StorageText>,
    /// A service account's key, as the JSON text that Google gives.
    #[serde(deserialize_with = "stored_secret")]
    pub credentials: Secret,
}

/// A container of Azure Blob Storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AzureConfig {
    /// The container.
    pub container: BucketName,
    /// What stands before each file's path.
    pub prefix: Option<StorageText>,
    /// The account's name.
    pub account_name: StorageLabel,
    /// The account's key.
    #[serde(deserialize_with = "stored_secret")]
    pub account_key: Secret,
}

/// Where broadcasts go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtmpConfig {
    /// One to eight urls.
    pub urls: Vec<RtmpUrl>,
}

/// A text without control characters, 1 to 1024 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StorageText(String);

impl TryFrom<String> for StorageText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if (1..=1_024).contains(&text.len()) && !text.chars().any(char::is_control) {
            Ok(Self(text))
        } else {
            Err("must have 1 to 1024 bytes, none of them a control character")
        }
    }
}

impl From<StorageText> for String {
    fn from(text: StorageText) -> String {
        text.0
    }
}

impl AsRef<str> for StorageText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

fn stored_secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

fn stored_secret_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    stored_secret(deserializer).map(Some)
}

/// A credential as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Left out, or read back and sent again: the stored one.
    #[default]
    Stored,
    /// An empty text: none, where there need not be one.
    Cleared,
    /// A new one.
    New(Secret),
}

impl<'de> Deserialize<'de> for Credential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)? {
            hidden if hidden == HIDDEN => Self::Stored,
            empty if empty.is_empty() => Self::Cleared,
            new => Self::New(Secret::new(new)),
        })
    }
}

impl Credential {
    /// The credential, which must be there when all is told.
    fn required(self, field: &'static str, stored: Option<&Secret>) -> Result<Secret, Problem> {
        match self {
            Self::New(secret) => Ok(secret),
            Self::Stored => stored.cloned().ok_or_else(|| missing(field)),
            Self::Cleared => Err(Problem::invalid(field, "must not be empty")),
        }
    }

    /// The credential, if there is one.
    fn optional(self, field: &'static str, stored: Option<&Secret>) -> Result<Option<Secret>, Problem> {
        match self {
            Self::Cleared => Ok(None),
            // Hidden and left out are the same; there need not be one to keep.
            Self::Stored => Ok(stored.cloned()),
            new @ Self::New(_) => new.required(field, None).map(Some),
        }
    }
}

fn missing(field: &'static str) -> Problem {
    Problem::invalid(field, "is required: none of this type is stored that could be kept")
}

macro_rules! type_word {
    ($name:ident, $variant:ident, $word:literal) => {
        /// The one word that `type` can be here.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
        pub enum $name {
            #[doc = $word]
            #[serde(rename = $word)]
            $variant,
        }
    };
}
type_word!(S3Word, S3, "s3");
type_word!(GcpWord, Gcp, "gcp");
type_word!(AzureWord, Azure, "azure");

/// Which object storage a recording's configuration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageType {
    /// Amazon S3, or what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcp,
    /// Azure Blob Storage.
    Azure,
}

/// S3, or what speaks its protocol. Credentials that are left out of a change, or sent as `***`, stay as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = S3Destination)]
pub struct S3Input {
    #[serde(rename = "type")]
    #[allow(missing_docs)]
    pub kind: S3Word,
    /// The bucket.
    #[schema(value_type = String, pattern = "^[a-zA-Z0-9._$-]{1,255}$")]
    pub bucket: BucketName,
    /// Its region.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>, nullable = false, pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    pub region: Option<StorageLabel>,
    /// The service's http(s) url, when it is not Amazon's.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    pub endpoint: Option<String>,
    /// What stands before each file's path.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub prefix: Option<StorageText>,
    /// The bucket stands in the path and not in the host.
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    pub force_path_style: Option<bool>,
    /// The access key's id.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub access_key: Option<StorageText>,
    /// The access key's secret; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<String>, nullable = false)]
    pub secret: Credential,
    /// What temporary credentials need beside; reads back as `***`. An empty text removes it.
    #[serde(default)]
    #[schema(value_type = Option<String>, nullable = false)]
    pub session_token: Credential,
}

/// Google Cloud Storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GcpDestination)]
pub struct GcpInput {
    #[serde(rename = "type")]
    #[allow(missing_docs)]
    pub kind: GcpWord,
    /// The bucket.
    #[schema(value_type = String, pattern = "^[a-zA-Z0-9._$-]{1,255}$")]
    pub bucket: BucketName,
    /// What stands before each file's path.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub prefix: Option<StorageText>,
    /// A service account's key, as the JSON text that Google gives; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<String>, nullable = false)]
    pub credentials: Credential,
}

/// Azure Blob Storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AzureDestination)]
pub struct AzureInput {
    #[serde(rename = "type")]
    #[allow(missing_docs)]
    pub kind: AzureWord,
    /// The container.
    #[schema(value_type = String, pattern = "^[a-zA-Z0-9._$-]{1,255}$")]
    pub container: BucketName,
    /// What stands before each file's path.
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub prefix: Option<StorageText>,
    /// The account's name.
    #[schema(value_type = String, pattern = "^[a-zA-Z0-9_-]{1,64}$")]
    pub account_name: StorageLabel,
    /// The account's key; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<String>, nullable = false)]
    pub account_key: Credential,
}

/// A recording's configuration as a caller sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingInput {
    /// Amazon S3, or what speaks its protocol.
    S3(S3Input),
    /// Google Cloud Storage.
    Gcp(GcpInput),
    /// Azure Blob Storage.
    Azure(AzureInput),
}

/// A configuration as a caller sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigInput {
    /// Where files go.
    Recording(RecordingInput),
    /// Where broadcasts go. It keeps nothing: a url that was read back is refused while it is parsed.
    Rtmp(RtmpConfig),
}

impl ConfigInput {
    /// The kind of destination this can be.
    #[must_use]
    pub const fn kind(&self) -> DestinationKind {
        match self {
            Self::Recording(_) => DestinationKind::Recording,
            Self::Rtmp(_) => DestinationKind::Rtmp,
        }
    }

    /// The configuration, with what was left out taken from the stored one.
    ///
    /// # Errors
    /// 400 `invalid_request` at a credential that is neither sent nor stored for the same type of storage.
    pub fn complete(self, stored: Option<&DestinationConfig>) -> Result<DestinationConfig, Problem> {
        match (self, stored) {
            (Self::Rtmp(config), _) => Ok(DestinationConfig::Rtmp(config)),
            (Self::Recording(input), Some(DestinationConfig::Recording(stored))) => {
                input.complete(Some(stored)).map(DestinationConfig::Recording)
            }
            (Self::Recording(input), _) => input.complete(None).map(DestinationConfig::Recording),
        }
    }
}

impl RecordingInput {
    fn complete(self, stored: Option<&RecordingConfig>) -> Result<RecordingConfig, Problem> {
        match (self, stored) {
            (Self::S3(input), Some(RecordingConfig::S3(stored))) => input.complete(Some(stored)),
            (Self::S3(input), _) => input.complete(None),
            (Self::Gcp(input), Some(RecordingConfig::Gcp(stored))) => input.complete(Some(&stored.credentials)),
            (Self::Gcp(input), _) => input.complete(None),
            (Self::Azure(input), Some(RecordingConfig::Azure(stored))) => input.complete(Some(&stored.account_key)),
            (Self::Azure(input), _) => input.complete(None),
        }
    }
}

impl S3Input {
    fn complete(self, stored: Option<&S3Config>) -> Result<RecordingConfig, Problem> {
        let stored_token = stored.and_then(|stored| stored.session_token.as_ref());
        let access_key = self.access_key.or_else(|| stored.map(|stored| stored.access_key.clone()));
        Ok(RecordingConfig::S3(S3Config {
            bucket: self.bucket,
            region: self.region,
            endpoint: self.endpoint,
            prefix: self.prefix,
            force_path_style: self.force_path_style,
            access_key: access_key.ok_or_else(|| missing("config.access_key"))?,
            secret: self.secret.required("config.secret", stored.map(|stored| &stored.secret))?,
            session_token: self.session_token.optional("config.session_token", stored_token)?,
        }))
    }
}

impl GcpInput {
    fn complete(self, stored: Option<&Secret>) -> Result<RecordingConfig, Problem> {
        let credentials = self.credentials.required("config.credentials", stored)?;
        Ok(RecordingConfig::Gcp(GcpConfig { bucket: self.bucket, prefix: self.prefix, credentials }))
    }
}

impl AzureInput {
    fn complete(self, stored: Option<&Secret>) -> Result<RecordingConfig, Problem> {
        let account_key = self.account_key.required("config.account_key", stored)?;
        Ok(RecordingConfig::Azure(AzureConfig {
            container: self.container,
            prefix: self.prefix,
            account_name: self.account_name,
            account_key,
        }))
    }
}

/// A stored configuration that does not read. It does not say what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored destination does not read")]
pub struct Unreadable;

impl DestinationConfig {
    /// The configuration as it is shown. Options that are not set are absent.
    #[must_use]
    pub fn redacted(&self) -> Value {
        match self {
            Self::Recording(config) => config.json(|_| HIDDEN),
            Self::Rtmp(config) => config.json(RtmpUrl::redacted),
        }
    }

    /// The whole configuration as one secret, to be sealed.
    #[must_use]
    pub fn to_secret(&self) -> Secret {
        let json = match self {
            Self::Recording(config) => config.json(Secret::reveal),
            Self::Rtmp(config) => config.json(RtmpUrl::reveal),
        };
        Secret::new(json.to_string())
    }

    /// Reads back what [`Self::to_secret`] gave.
    ///
    /// # Errors
    /// A text that is no configuration of this kind.
    pub fn from_secret(kind: DestinationKind, text: &Secret) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Urls {
            urls: Vec<String>,
        }
        match kind {
            DestinationKind::Recording => {
                serde_json::from_str(text.reveal()).map(Self::Recording).map_err(|_| Unreadable)
            }
            DestinationKind::Rtmp => {
                let Urls { urls } = serde_json::from_str(text.reveal()).map_err(|_| Unreadable)?;
                let urls: Result<_, _> = urls.iter().map(|url| RtmpUrl::parse(url)).collect();
                Ok(Self::Rtmp(RtmpConfig { urls: urls.map_err(|_| Unreadable)? }))
            }
        }
    }

    /// A shown configuration in the place of one that is used: every secret in it is [`HIDDEN`]. It tells what there is
    /// to keep without any key. A broadcast's has nothing that is ever kept.
    #[must_use]
    pub fn of_redacted(kind: DestinationKind, shown: &Value) -> Option<Self> {
        match kind {
            DestinationKind::Recording => RecordingConfig::deserialize(shown).map(Self::Recording).ok(),
            DestinationKind::Rtmp => None,
        }
    }

    /// Whether any secret is still [`HIDDEN`], since it was taken from [`Self::of_redacted`].
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let hidden = |secret: &Secret| secret.reveal() == HIDDEN;
        match self {
            Self::Recording(RecordingConfig::S3(s3)) => {
                hidden(&s3.secret) || s3.session_token.as_ref().is_some_and(hidden)
            }
            Self::Recording(RecordingConfig::Gcp(gcp)) => hidden(&gcp.credentials),
            Self::Recording(RecordingConfig::Azure(azure)) => hidden(&azure.account_key),
            Self::Rtmp(_) => false,
        }
    }
}

impl RecordingConfig {
    fn json(&self, show: fn(&Secret) -> &str) -> Value {
        match self {
            Self::S3(s3) => object([
                ("type", Some(json!("s3"))),
                ("bucket", Some(json!(s3.bucket))),
                ("region", s3.region.as_ref().map(|region| json!(region))),
                ("endpoint", s3.endpoint.as_ref().map(|endpoint| json!(endpoint))),
                ("prefix", s3.prefix.as_ref().map(|prefix| json!(prefix))),
                ("force_path_style", s3.force_path_style.map(Value::Bool)),
                ("access_key", Some(json!(s3.access_key))),
                ("secret", Some(json!(show(&s3.secret)))),
                ("session_token", s3.session_token.as_ref().map(|token| json!(show(token)))),
            ]),
            Self::Gcp(gcp) => object([
                ("type", Some(json!("gcp"))),
                ("bucket", Some(json!(gcp.bucket))),
                ("prefix", gcp.prefix.as_ref().map(|prefix| json!(prefix))),
                ("credentials", Some(json!(show(&gcp.credentials)))),
            ]),
            Self::Azure(azure) => object([
                ("type", Some(json!("azure"))),
                ("container", Some(json!(azure.container))),
                ("prefix", azure.prefix.as_ref().map(|prefix| json!(prefix))),
                ("account_name", Some(json!(azure.account_name))),
                ("account_key", Some(json!(show(&azure.account_key)))),
            ]),
        }
    }
}

impl RtmpConfig {
    fn json(&self, show: fn(&RtmpUrl) -> &str) -> Value {
        json!({"urls": self.urls.iter().map(show).collect::<Vec<_>>()})
    }
}

/// An object of what is there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Value::Object(there.collect::<Map<_, _>>())
}

impl fmt::Display for DestinationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
