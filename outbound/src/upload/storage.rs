//! Object storage of a destination: S3, Google Cloud Storage, or Azure.

use std::time::Duration;

use conclave_model::destination::{AzureConfig, GcpConfig, RecordingConfig, S3Config};
use conclave_model::filepath::FilePath;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, ObjectStore, PutMultipartOptions, RetryConfig,
};

use super::UploadFailure;
use super::connector::StorageConnector;

/// Region if the destination has none.
const DEFAULT_REGION: &str = "us-east-1";

/// Storage with multipart uploads and object metadata.
pub(super) trait MultipartObjectStore: MultipartStore + ObjectStore {}

impl<T: MultipartStore + ObjectStore> MultipartObjectStore for T {}

/// Opened storage for one object.
pub(super) struct ObjectStorage {
    pub store: Box<dyn MultipartObjectStore>,
    /// Object name, the same in each attempt.
    pub object: Path,
    /// Object metadata.
    pub options: PutMultipartOptions,
}

impl ObjectStorage {
    /// Opens a destination's storage for a file. Sends nothing yet.
    ///
    /// # Errors
    /// Fails if the credentials or the URL are unusable.
    pub fn open(
        config: &RecordingConfig,
        filepath: &FilePath,
        connector: &mut StorageConnector,
    ) -> Result<Self, UploadFailure> {
        let opened: Result<Box<dyn MultipartObjectStore>, object_store::Error> = match config {
            RecordingConfig::S3(s3) => open_s3(s3, connector),
            RecordingConfig::Gcp(gcp) => open_gcp(gcp, connector),
            RecordingConfig::Azure(azure) => open_azure(azure, connector),
        };
        // The error may quote the credentials.
        let store = opened.map_err(|_| {
            UploadFailure::Refused("the destination's credentials are unusable".into())
        })?;
        let name = config.object_name(filepath);
        // `Path::from` encodes characters that a name may not have.
        let object = Path::parse(&name).unwrap_or_else(|_| Path::from(name));
        let has_type = !matches!(config, RecordingConfig::Azure(_));
        let attributes = content_type(filepath)
            .filter(|_| has_type)
            .map(|media_type| (Attribute::ContentType, media_type));
        let options = PutMultipartOptions::from(Attributes::from_iter(attributes));
        Ok(Self {
            store,
            object,
            options,
        })
    }
}

/// Returns how often a request is repeated within an attempt.
fn retries() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    RetryConfig {
        backoff,
        // About three seconds with these delays; a longer outage is for the next attempt.
        max_retries: 4,
        retry_timeout: Duration::from_secs(60),
    }
}

fn open_s3(
    s3: &S3Config,
    connector: &mut StorageConnector,
) -> object_store::Result<Box<dyn MultipartObjectStore>> {
    // Only if the endpoint's URL is http, such as a MinIO in the same network.
    connector.allows_http = s3
        .endpoint
        .as_ref()
        .is_some_and(|endpoint| !endpoint.starts_with("https:"));
    let mut builder = AmazonS3Builder::new()
        .with_http_connector(connector.clone())
        .with_retry(retries())
        .with_region(s3.region.as_ref().map_or(DEFAULT_REGION, AsRef::as_ref))
        .with_bucket_name(s3.bucket.as_ref())
        .with_access_key_id(s3.access_key.as_ref())
        .with_secret_access_key(s3.secret.reveal())
        // Twice: the library checks before signing, the connector before sending.
        .with_allow_http(connector.allows_http);
    // Temporary credentials consist of three parts: id, secret and session token.
    if let Some(token) = &s3.session_token {
        builder = builder.with_token(token.reveal());
    }
    // The library does not add the bucket to the host of another endpoint, so this crate does.
    let (endpoint, is_virtual) = endpoint_url(s3);
    builder = builder.with_virtual_hosted_style_request(is_virtual);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    Ok(Box::new(builder.build()?))
}

/// Returns the endpoint, if it is not Amazon's, and whether the bucket is part of the host name.
/// For Amazon it is, unless `force_path_style` is set or the bucket's name has a dot, which no
/// wildcard certificate covers. For others it is only if `force_path_style` is `false`.
fn endpoint_url(s3: &S3Config) -> (Option<String>, bool) {
    let Some(endpoint) = s3
        .endpoint
        .as_ref()
        .map(|endpoint| endpoint.trim_end_matches('/'))
    else {
        return (
            None,
            !s3.force_path_style.unwrap_or(false) && !s3.bucket.as_ref().contains('.'),
        );
    };
    match endpoint
        .split_once("://")
        .filter(|_| s3.force_path_style == Some(false))
    {
        Some((scheme, host)) => (
            Some(format!("{scheme}://{}.{host}", s3.bucket.as_ref())),
            true,
        ),
        None => (Some(endpoint.to_owned()), false),
    }
}

fn open_gcp(
    gcp: &GcpConfig,
    connector: &StorageConnector,
) -> object_store::Result<Box<dyn MultipartObjectStore>> {
    let builder = GoogleCloudStorageBuilder::new()
        .with_http_connector(connector.clone())
        .with_retry(retries())
        .with_bucket_name(gcp.bucket.as_ref())
        .with_service_account_key(gcp.credentials.reveal());
    Ok(Box::new(builder.build()?))
}

fn open_azure(
    azure: &AzureConfig,
    connector: &StorageConnector,
) -> object_store::Result<Box<dyn MultipartObjectStore>> {
    let builder = MicrosoftAzureBuilder::new()
        .with_http_connector(connector.clone())
        .with_retry(retries())
        .with_account(azure.account_name.as_ref())
        .with_access_key(azure.account_key.reveal())
        .with_container_name(azure.container.as_ref());
    Ok(Box::new(builder.build()?))
}

/// Returns the media type for a recorded file.
fn content_type(filepath: &FilePath) -> Option<&'static str> {
    match filepath.split_extension().1?.to_ascii_lowercase().as_str() {
        "mp4" | "m4v" => Some("video/mp4"),
        "m4a" => Some("audio/mp4"),
        "webm" => Some("video/webm"),
        "ogg" | "oga" | "opus" => Some("audio/ogg"),
        "mkv" => Some("video/x-matroska"),
        "mka" => Some("audio/x-matroska"),
        _ => None,
    }
}
