//! Configurations as callers send them, completed by stored ones.

use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::{
    AzureConfig, DestinationConfig, DestinationKind, GcpConfig, HIDDEN, RecordingConfig,
    RtmpConfig, S3Config, StorageText,
};
use crate::non_null::non_null;
use crate::schema::{HttpUrl, word_enum};
use crate::{BucketName, Problem, Secret, StorageLabel, Text};

/// Credential in a request. If omitted or `***`, the stored one is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credential {
    /// Omitted: the stored credential.
    #[default]
    Stored,
    /// The placeholder that was read: the stored credential, which must exist.
    Hidden,
    /// An empty text: no credential, where it is optional.
    Cleared,
    /// A new credential.
    New(Secret),
}

impl<'de> Deserialize<'de> for Credential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By `Text`, which refuses U+0000.
        Ok(match String::from(Text::deserialize(deserializer)?) {
            // Console and API clients send back the form that they read.
            hidden if hidden == HIDDEN => Self::Hidden,
            empty if empty.is_empty() => Self::Cleared,
            new => Self::New(Secret::new(new)),
        })
    }
}

impl utoipa::PartialSchema for Credential {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let doc = "A credential; `***` stands for the stored one.";
        crate::schema::string(doc)
            .pattern(Some(Text::PATTERN))
            .min_length(Some(1))
            .into()
    }
}

impl ToSchema for Credential {}

impl Credential {
    /// Returns a required credential, from the request or the stored configuration.
    fn required(self, field: &'static str, stored: Option<&Secret>) -> Result<Secret, Problem> {
        match self {
            Self::New(secret) => Ok(secret),
            Self::Stored | Self::Hidden => stored.cloned().ok_or_else(|| missing(field)),
            // An empty required credential could never work.
            Self::Cleared => Err(Problem::invalid(field, "must not be empty")),
        }
    }

    /// Returns the session token, if there is one, from the request or the stored configuration.
    fn session_token(self, stored: Option<&S3Config>) -> Result<Option<Secret>, Problem> {
        match self {
            Self::Cleared => Ok(None),
            // The caller copied a configuration with a token from another destination. Without the token, the copy would not work.
            Self::Hidden if stored.is_none() => Err(missing("config.session_token")),
            Self::Stored | Self::Hidden => {
                Ok(stored.and_then(|stored| stored.session_token.clone()))
            }
            Self::New(secret) => Ok(Some(secret)),
        }
    }
}

fn missing(field: &'static str) -> Problem {
    Problem::invalid(
        field,
        "is required: no stored credential of this type can be kept",
    )
}

word_enum! {
    /// The value of `type` in a configuration for S3.
    S3Word {
        /// `s3`.
        S3 = "s3",
    }
}

word_enum! {
    /// The value of `type` in a configuration for Google Cloud Storage.
    GcpWord {
        /// `gcp`.
        Gcp = "gcp",
    }
}

word_enum! {
    /// The value of `type` in a configuration for Azure Blob Storage.
    AzureWord {
        /// `azure`.
        Azure = "azure",
    }
}

word_enum! {
    /// Which object storage a recording's configuration is for.
    StorageType {
        /// Amazon S3, or a service with its protocol.
        S3 = "s3",
        /// Google Cloud Storage.
        Gcp = "gcp",
        /// Azure Blob Storage.
        Azure = "azure",
    }
}

/// S3, or a service with its protocol. Credentials that are omitted in a change, or sent as `***`, keep their stored values.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = S3Destination)]
pub struct S3Input {
    #[serde(rename = "type")]
    #[allow(missing_docs)]
    pub kind: S3Word,
    /// The bucket that files are written to.
    pub bucket: BucketName,
    /// The region of the bucket.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub region: Option<StorageLabel>,
    /// The service's http(s) URL, if it is not Amazon's.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<HttpUrl>, nullable = false)]
    pub endpoint: Option<String>,
    /// A prefix of each file's path.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// The bucket is part of the path and not of the host name.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub force_path_style: Option<bool>,
    /// The access key's id.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub access_key: Option<StorageText>,
    /// The access key's secret; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<Credential>, nullable = false)]
    pub secret: Credential,
    /// Session token of temporary credentials; reads back as `***`. An empty text removes it.
    #[serde(default)]
    #[schema(value_type = Option<Text>, nullable = false)]
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
    /// The bucket that files are written to.
    pub bucket: BucketName,
    /// A prefix of each file's path.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// A service account's key, as the JSON text that Google gives; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<Credential>, nullable = false)]
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
    /// The container that files are written to.
    pub container: BucketName,
    /// A prefix of each file's path.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub prefix: Option<StorageText>,
    /// The account's name.
    pub account_name: StorageLabel,
    /// The account's key; reads back as `***`.
    #[serde(default)]
    #[schema(value_type = Option<Credential>, nullable = false)]
    pub account_key: Credential,
}

/// A recording's configuration as a caller sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingInput {
    /// Amazon S3, or a service with its protocol.
    S3(S3Input),
    /// Google Cloud Storage.
    Gcp(GcpInput),
    /// Azure Blob Storage.
    Azure(AzureInput),
}

/// A configuration as a caller sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigInput {
    /// Object storage for files.
    Recording(RecordingInput),
    /// Broadcast receivers. Nothing is kept from the stored ones: a URL that was read back is redacted, and refused while it is parsed.
    Rtmp(RtmpConfig),
}

impl ConfigInput {
    /// Returns the kind of destination.
    pub const fn kind(&self) -> DestinationKind {
        match self {
            Self::Recording(_) => DestinationKind::Recording,
            Self::Rtmp(_) => DestinationKind::Rtmp,
        }
    }

    /// Returns the configuration, in which omitted values come from the stored one.
    ///
    /// # Errors
    /// 400 `invalid_request` at a credential that is neither sent nor stored for the same type of storage.
    pub fn complete(
        self,
        stored: Option<&DestinationConfig>,
    ) -> Result<DestinationConfig, Problem> {
        match (self, stored) {
            (Self::Rtmp(config), _) => Ok(DestinationConfig::Rtmp(config)),
            (Self::Recording(input), Some(DestinationConfig::Recording(stored))) => input
                .complete(Some(stored))
                .map(DestinationConfig::Recording),
            // Credentials of another kind or type are never reused.
            (Self::Recording(input), _) => input.complete(None).map(DestinationConfig::Recording),
        }
    }
}

impl RecordingInput {
    fn complete(self, stored: Option<&RecordingConfig>) -> Result<RecordingConfig, Problem> {
        // Only a stored configuration of the same type has credentials that can be kept.
        match (self, stored) {
            (Self::S3(input), Some(RecordingConfig::S3(stored))) => input.complete(Some(stored)),
            (Self::S3(input), _) => input.complete(None),
            (Self::Gcp(input), Some(RecordingConfig::Gcp(stored))) => {
                input.complete(Some(&stored.credentials))
            }
            (Self::Gcp(input), _) => input.complete(None),
            (Self::Azure(input), Some(RecordingConfig::Azure(stored))) => {
                input.complete(Some(&stored.account_key))
            }
            (Self::Azure(input), _) => input.complete(None),
        }
    }
}

impl S3Input {
    fn complete(self, stored: Option<&S3Config>) -> Result<RecordingConfig, Problem> {
        // The id is not secret, so it has no placeholder; omitted, it is kept like one.
        let access_key = self
            .access_key
            .or_else(|| stored.map(|stored| stored.access_key.clone()));
        Ok(RecordingConfig::S3(S3Config {
            bucket: self.bucket,
            region: self.region,
            endpoint: self.endpoint,
            prefix: self.prefix,
            force_path_style: self.force_path_style,
            access_key: access_key.ok_or_else(|| missing("config.access_key"))?,
            secret: self
                .secret
                .required("config.secret", stored.map(|stored| &stored.secret))?,
            session_token: self.session_token.session_token(stored)?,
        }))
    }
}

impl GcpInput {
    fn complete(self, stored: Option<&Secret>) -> Result<RecordingConfig, Problem> {
        let credentials = self.credentials.required("config.credentials", stored)?;
        Ok(RecordingConfig::Gcp(GcpConfig {
            bucket: self.bucket,
            prefix: self.prefix,
            credentials,
        }))
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
