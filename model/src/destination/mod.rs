//! Destinations for recordings and broadcasts in a template's rooms.
//!
//! A configuration has three forms. The caller's input ([`RecordingInput`]) may omit credentials,
//! which keeps the stored ones. The configuration in use ([`RecordingConfig`], [`RtmpConfig`]) is
//! complete. The redacted form is JSON without secrets ([`DestinationConfig::redacted`]).

mod input;

use crate::schema::word_enum;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::filepath::FilePath;
use crate::plan::Feature;
use crate::rtmp::RtmpUrl;
use crate::{
    BucketName, DestinationId, DestinationName, ErrorCode, Problem, Secret, StorageLabel,
    TemplateId, Timestamp,
};

pub use input::{
    AzureInput, AzureWord, ConfigInput, Credential, GcpInput, GcpWord, RecordingInput, S3Input,
    S3Word, StorageType,
};

/// Placeholder for a secret in a redacted configuration. Sent back, it means the stored secret.
pub const HIDDEN: &str = "***";

/// Destination in redacted form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Destination id.
    pub id: DestinationId,
    /// Template that it belongs to.
    pub template_id: TemplateId,
    /// Name, unique in the template, by which recordings and broadcasts refer to it.
    pub name: DestinationName,
    /// Recording or RTMP; it never changes.
    pub kind: DestinationKind,
    /// Configuration without secrets.
    pub config: Value,
    /// Creation time.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

impl Destination {
    /// 404: the template has no such destination.
    pub fn not_found() -> Problem {
        Problem::new(
            ErrorCode::DestinationNotFound,
            "no destination by that name on the template",
        )
    }
}

word_enum! {
    /// Purpose of a destination.
    DestinationKind {
        /// Files of recordings.
        Recording = "recording",
        /// RTMP URLs of broadcasts.
        Rtmp = "rtmp",
    }
}

impl DestinationKind {
    /// Returns the problem if a change names another kind at `field`.
    pub fn immutable_kind(self, field: &'static str) -> Problem {
        Problem::invalid(
            field,
            format!("the destination's kind is {self} and cannot be changed"),
        )
    }

    /// Returns the plan feature that this kind of destination needs.
    // Recording and RTMP destinations need the feature that their jobs need (contract).
    pub const fn feature(self) -> Feature {
        match self {
            Self::Recording => Feature::Recording,
            Self::Rtmp => Feature::Streaming,
        }
    }
}

/// Complete configuration, including secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationConfig {
    /// Object storage for files.
    Recording(RecordingConfig),
    /// Broadcast receivers.
    Rtmp(RtmpConfig),
}

/// A project's object storage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
// Tagged as on the wire, so that the redacted form parses as well.
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordingConfig {
    /// Amazon S3, or a service with its protocol.
    S3(S3Config),
    /// Google Cloud Storage.
    Gcp(GcpConfig),
    /// Azure Blob Storage.
    Azure(AzureConfig),
}

/// S3 bucket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct S3Config {
    /// Bucket name.
    pub bucket: BucketName,
    /// Bucket region; absent for the service's default.
    pub region: Option<StorageLabel>,
    /// The service's http(s) URL, if it is not Amazon's.
    pub endpoint: Option<String>,
    /// Prefix for file paths.
    pub prefix: Option<StorageText>,
    /// Whether the path contains the bucket, rather than the host name.
    pub force_path_style: Option<bool>,
    /// The access key's id, which is not secret.
    pub access_key: StorageText,
    /// The access key's secret.
    #[serde(deserialize_with = "stored_secret")]
    pub secret: Secret,
    /// Session token for temporary credentials.
    #[serde(default, deserialize_with = "stored_secret_if_any")]
    pub session_token: Option<Secret>,
}

/// Google Cloud Storage bucket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GcpConfig {
    /// Bucket name.
    pub bucket: BucketName,
    /// Prefix for file paths.
    pub prefix: Option<StorageText>,
    /// A service account's key, as JSON text from Google.
    #[serde(deserialize_with = "stored_secret")]
    pub credentials: Secret,
}

/// Azure Blob Storage container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AzureConfig {
    /// Container name.
    pub container: BucketName,
    /// Prefix for file paths.
    pub prefix: Option<StorageText>,
    /// The account's name.
    pub account_name: StorageLabel,
    /// The account's key.
    #[serde(deserialize_with = "stored_secret")]
    pub account_key: Secret,
}

/// Broadcast receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtmpConfig {
    /// One to eight URLs.
    pub urls: Vec<RtmpUrl>,
}

/// Text of 1 to 1024 bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StorageText(String);

impl TryFrom<String> for StorageText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        // 1024 bytes: the longest object name of S3 and of Google Cloud Storage.
        if (1..=1_024).contains(&text.len()) && !text.chars().any(char::is_control) {
            Ok(Self(text))
        } else {
            Err("must have 1 to 1024 bytes, none of them a control character")
        }
    }
}

impl utoipa::PartialSchema for StorageText {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let doc = "Text of 1 to 1024 bytes without control characters.";
        crate::schema::text(doc, r"^[^\u0000-\u001f\u007f-\u009f]+$", 1..=1_024)
    }
}

impl utoipa::ToSchema for StorageText {}

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
    // `Secret` has no `Deserialize` of its own.
    String::deserialize(deserializer).map(Secret::new)
}

fn stored_secret_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Secret>, D::Error> {
    stored_secret(deserializer).map(Some)
}

/// The stored configuration is malformed. The error does not quote the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored destination has an invalid configuration")]
pub struct ParseDestinationConfigError;

impl DestinationConfig {
    /// Returns the redacted configuration. Unset options are absent.
    pub fn redacted(&self) -> Value {
        match self {
            // The placeholder has a fixed length, so it reveals nothing about the secret.
            Self::Recording(config) => config.json(|_| HIDDEN),
            Self::Rtmp(config) => config.json(RtmpUrl::redacted),
        }
    }

    /// Returns the whole configuration as one secret, for encryption.
    pub fn to_secret(&self) -> Secret {
        // The secrets of a destination are encrypted as a whole: their number and names differ by type.
        let json = match self {
            Self::Recording(config) => config.json(Secret::reveal),
            Self::Rtmp(config) => config.json(RtmpUrl::reveal),
        };
        Secret::new(json.to_string())
    }

    /// Parses a secret from [`Self::to_secret`].
    ///
    /// # Errors
    /// Fails if the text is not a configuration of this kind.
    pub fn from_secret(
        kind: DestinationKind,
        text: &Secret,
    ) -> Result<Self, ParseDestinationConfigError> {
        #[derive(Deserialize)]
        struct Urls {
            urls: Vec<String>,
        }
        match kind {
            DestinationKind::Recording => serde_json::from_str(text.reveal())
                .map(Self::Recording)
                // serde's error could quote a secret.
                .map_err(|_| ParseDestinationConfigError),
            DestinationKind::Rtmp => {
                let Urls { urls } =
                    serde_json::from_str(text.reveal()).map_err(|_| ParseDestinationConfigError)?;
                // Parsed again, since the host and the redacted form are not stored.
                let urls: Result<_, _> = urls.iter().map(|url| RtmpUrl::parse(url)).collect();
                Ok(Self::Rtmp(RtmpConfig {
                    urls: urls.map_err(|_| ParseDestinationConfigError)?,
                }))
            }
        }
    }

    /// Converts a redacted configuration, in which every secret is [`HIDDEN`]. It shows which
    /// secrets can be kept, without decryption. A broadcast's configuration has none.
    pub fn from_redacted(kind: DestinationKind, shown: &Value) -> Option<Self> {
        match kind {
            DestinationKind::Recording => RecordingConfig::deserialize(shown)
                .map(Self::Recording)
                .ok(),
            // A redacted URL cannot be parsed: `REDACTED` is refused.
            DestinationKind::Rtmp => None,
        }
    }

    /// Returns whether any secret is still [`HIDDEN`], after [`Self::from_redacted`].
    pub fn is_hidden(&self) -> bool {
        let hidden = |secret: &Secret| secret.reveal() == HIDDEN;
        match self {
            Self::Recording(RecordingConfig::S3(s3)) => {
                // The token may be new while the secret is kept.
                hidden(&s3.secret) || s3.session_token.as_ref().is_some_and(hidden)
            }
            Self::Recording(RecordingConfig::Gcp(gcp)) => hidden(&gcp.credentials),
            Self::Recording(RecordingConfig::Azure(azure)) => hidden(&azure.account_key),
            Self::Rtmp(_) => false,
        }
    }
}

impl RecordingConfig {
    /// Returns a file's object name: its path after the prefix, which is a directory, with or
    /// without a final slash.
    pub fn object_name(&self, filepath: &FilePath) -> String {
        let prefix = match self {
            Self::S3(s3) => &s3.prefix,
            Self::Gcp(gcp) => &gcp.prefix,
            Self::Azure(azure) => &azure.prefix,
        };
        match prefix
            .as_ref()
            // Operators write prefixes with and without a final slash; two slashes in a row would be another object.
            .map(|prefix| prefix.as_ref().trim_end_matches('/'))
        {
            None | Some("") => filepath.to_string(),
            Some(prefix) => format!("{prefix}/{filepath}"),
        }
    }

    fn json(&self, show: fn(&Secret) -> &str) -> Value {
        match self {
            Self::S3(s3) => object([
                ("type", Some(json!("s3"))),
                ("bucket", Some(json!(s3.bucket))),
                ("region", s3.region.as_ref().map(|region| json!(region))),
                (
                    "endpoint",
                    s3.endpoint.as_ref().map(|endpoint| json!(endpoint)),
                ),
                ("prefix", s3.prefix.as_ref().map(|prefix| json!(prefix))),
                ("force_path_style", s3.force_path_style.map(Value::Bool)),
                // Shown, since it identifies the credentials without giving access.
                ("access_key", Some(json!(s3.access_key))),
                ("secret", Some(json!(show(&s3.secret)))),
                (
                    "session_token",
                    s3.session_token.as_ref().map(|token| json!(show(token))),
                ),
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

/// Returns an object with the fields that are present.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    // Absent rather than null, as in requests.
    let there = fields
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Value::Object(there.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;
    use crate::Problem;

    fn s3(config: Value) -> RecordingInput {
        RecordingInput::S3(serde_json::from_value(config).unwrap())
    }

    fn complete(
        input: RecordingInput,
        stored: Option<&DestinationConfig>,
    ) -> Result<DestinationConfig, Problem> {
        ConfigInput::Recording(input).complete(stored)
    }

    fn stored() -> DestinationConfig {
        let config = json!({
            "type": "s3", "bucket": "b", "region": "eu-west-1", "access_key": "AKIA", "secret": "hush", "session_token": "sst"
        });
        complete(s3(config), None).unwrap()
    }

    fn refused(result: Result<DestinationConfig, Problem>) -> String {
        let problem = result.unwrap_err();
        assert_eq!(problem.code, ErrorCode::InvalidRequest);
        problem.field.unwrap().into_owned()
    }

    #[test]
    fn a_configuration_is_shown_without_its_secrets_and_without_what_is_not_set() {
        let shown = json!({
            "type": "s3", "bucket": "b", "region": "eu-west-1", "access_key": "AKIA", "secret": "***", "session_token": "***"
        });
        assert_eq!(stored().redacted(), shown);
        let gcp = json!({"type": "gcp", "bucket": "b", "prefix": "calls/", "credentials": "{\"private_key\":\"k\"}"});
        let gcp = complete(
            RecordingInput::Gcp(serde_json::from_value(gcp).unwrap()),
            None,
        )
        .unwrap();
        assert_eq!(
            gcp.redacted(),
            json!({"type": "gcp", "bucket": "b", "prefix": "calls/", "credentials": "***"})
        );
        let azure = json!({"type": "azure", "container": "c", "account_name": "acme", "account_key": "hush"});
        let azure = complete(
            RecordingInput::Azure(serde_json::from_value(azure).unwrap()),
            None,
        )
        .unwrap();
        let shown = json!({"type": "azure", "container": "c", "account_name": "acme", "account_key": "***"});
        assert_eq!(azure.redacted(), shown);
        for config in [stored(), gcp, azure] {
            assert!(!format!("{config:?} {}", config.redacted()).contains("hush"));
            assert_eq!(
                DestinationConfig::from_secret(DestinationKind::Recording, &config.to_secret()),
                Ok(config)
            );
        }
    }

    #[test]
    fn the_urls_of_a_broadcast_are_shown_without_their_keys() {
        let urls =
            crate::rtmp::parse_urls("config.urls", &["rtmp://example.com/live/hush".to_owned()])
                .unwrap();
        let config = DestinationConfig::Rtmp(RtmpConfig { urls });
        assert_eq!(
            config.redacted(),
            json!({"urls": ["rtmp://example.com/live/REDACTED"]})
        );
        assert!(!format!("{config:?} {:?}", config.to_secret()).contains("hush"));
        assert_eq!(
            DestinationConfig::from_secret(DestinationKind::Rtmp, &config.to_secret()),
            Ok(config.clone())
        );
        assert_eq!(
            DestinationConfig::from_secret(DestinationKind::Recording, &config.to_secret()),
            Err(ParseDestinationConfigError)
        );
    }

    #[test]
    fn credentials_left_out_or_hidden_are_kept_and_all_else_is_replaced() {
        for change in [
            json!({"type": "s3", "bucket": "new"}),
            json!({"type": "s3", "bucket": "new", "secret": "***", "session_token": "***"}),
            json!({"type": "s3", "bucket": "new", "access_key": "AKIA", "secret": "hush"}),
        ] {
            let DestinationConfig::Recording(RecordingConfig::S3(kept)) =
                complete(s3(change), Some(&stored())).unwrap()
            else {
                panic!("another type")
            };
            assert_eq!((kept.bucket.as_str(), kept.region), ("new", None));
            assert_eq!(
                (kept.secret.reveal(), kept.session_token.unwrap().reveal()),
                ("hush", "sst")
            );
            assert_eq!(kept.access_key.as_ref(), "AKIA");
        }
        let change = json!({"type": "s3", "bucket": "b", "secret": "other", "session_token": ""});
        let shown = complete(s3(change), Some(&stored())).unwrap().redacted();
        assert_eq!(
            shown,
            json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "***"})
        );
    }

    #[test]
    fn nothing_is_kept_from_another_type_or_from_nothing() {
        assert_eq!(
            refused(complete(s3(json!({"type": "s3", "bucket": "b"})), None)),
            "config.access_key"
        );
        for hidden in [json!("***"), json!("")] {
            let config =
                json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": hidden});
            assert_eq!(refused(complete(s3(config), None)), "config.secret");
        }
        let gcp = || {
            RecordingInput::Gcp(
                serde_json::from_value(json!({"type": "gcp", "bucket": "b"})).unwrap(),
            )
        };
        assert_eq!(
            refused(complete(gcp(), Some(&stored()))),
            "config.credentials"
        );
        let azure = json!({"type": "azure", "container": "c", "account_name": "a"});
        let azure = RecordingInput::Azure(serde_json::from_value(azure).unwrap());
        assert_eq!(refused(complete(azure, None)), "config.account_key");
    }

    #[test]
    fn what_is_shown_tells_what_can_be_kept() {
        let shown =
            DestinationConfig::from_redacted(DestinationKind::Recording, &stored().redacted())
                .unwrap();
        assert!(shown.is_hidden() && !stored().is_hidden());
        let kept = complete(
            s3(json!({"type": "s3", "bucket": "b", "secret": "new"})),
            Some(&shown),
        )
        .unwrap();
        assert!(kept.is_hidden(), "the session token is still to be opened");
        let new = json!({"type": "s3", "bucket": "b", "secret": "new", "session_token": ""});
        assert!(!complete(s3(new), Some(&shown)).unwrap().is_hidden());
    }

    #[test]
    fn what_can_become_part_of_a_host_holds_nothing_that_ends_one() {
        for bad in ["", "a/b", "a@b", "a#b", "a?b", "a b", "a\\b", "a:b", "ä"] {
            assert!(
                bad.parse::<BucketName>().is_err() && bad.parse::<StorageLabel>().is_err(),
                "{bad}"
            );
        }
        assert!("a.b".parse::<StorageLabel>().is_err() && "$web".parse::<BucketName>().is_ok());
        assert!(
            StorageText::try_from("a\nb".to_owned()).is_err()
                && StorageText::try_from("x".repeat(1_025)).is_err()
        );
    }
}
