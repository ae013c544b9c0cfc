//! HTTP client for object storage: the same client and address filter as for webhooks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use conclave_model::address::AddressFilter;
use http_body_util::BodyExt as _;
use md5::{Digest as _, Md5};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use parking_lot::Mutex;
use ureq::Error;
use ureq::http::uri::Scheme;
use ureq::http::{HeaderValue, Method, Request, Response, StatusCode};

use super::UploadFailure;
use crate::client::{Client, config_trusting};
use crate::failure::RequestFailure;
use crate::roots::TrustedRoots;

/// Timeouts for connecting and for a response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for a part. At 8 MiB, it allows links down to a quarter megabit per second.
const PART_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum length of a response in bytes. Responses to uploads are far shorter.
const MAX_RESPONSE: u64 = 1024 * 1024;
/// Maximum length of an error code.
const MAX_CODE: usize = 64;
/// Header that identifies requests to Azure.
const AZURE_VERSION: &str = "x-ms-version";
/// Codes for requests that arrived damaged or too slowly, and are repeated at once. S3 sends them
/// with status 400.
const DAMAGED_CODES: [&str; 5] = [
    "RequestTimeout",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "Md5Mismatch",
];
/// Codes for an overloaded storage, whatever the status. Requests are repeated after a delay.
const BUSY_CODES: [&str; 7] = [
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
    "ServerBusy",
    "InternalError",
];
/// Codes after which the whole file is uploaded again: the storage has lost the multipart upload,
/// or parts.
const LOST_CODES: [&str; 4] = [
    "NoSuchUpload",
    "InvalidPart",
    "InvalidBlockList",
    "InvalidBlobOrBlock",
];

/// Client for one attempt, which records why the last request failed.
#[derive(Debug, Clone)]
pub(super) struct StorageConnector {
    client: Client,
    /// Whether plain HTTP is allowed.
    pub allows_http: bool,
    failure: Arc<Mutex<Option<UploadFailure>>>,
}

impl StorageConnector {
    /// Creates a client that dials only addresses that `filter` permits, and trusts `roots`.
    pub fn new(filter: AddressFilter, roots: TrustedRoots) -> Self {
        let config = config_trusting(roots)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // No timeout for the whole request: a large part on a slow link may take minutes.
            .timeout_send_body(Some(PART_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .timeout_recv_body(Some(RESPONSE_TIMEOUT))
            .build();
        Self {
            client: Client::filtered(config, MAX_RESPONSE, filter),
            allows_http: false,
            failure: Arc::default(),
        }
    }

    /// Creates a client for another attempt, which shares this one's connections.
    pub fn for_attempt(&self) -> Self {
        Self {
            client: self.client.clone(),
            allows_http: false,
            failure: Arc::default(),
        }
    }

    /// Returns the reason why the last request failed, if it did.
    pub fn take_failure(&self) -> Option<UploadFailure> {
        self.failure.lock().take()
    }

    fn record_failure(&self, failure: UploadFailure) {
        *self.failure.lock() = Some(failure);
    }

    /// Sends a request. Blocks until the response has arrived.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Vec<u8>>, Error> {
        if !self.allows_http && request.uri().scheme() != Some(&Scheme::HTTPS) {
            // Credentials and recordings must not travel in plain text by mistake.
            return Err(Error::RequireHttpsOnly(String::new()));
        }
        self.client.send(request)
    }
}

impl HttpConnector for StorageConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for StorageConnector {
    /// Blocks, since an attempt has its own thread.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if parts.method == Method::PUT
            && !parts.headers.contains_key(AZURE_VERSION)
            && let Ok(sum) = HeaderValue::from_str(&BASE64_STANDARD.encode(Md5::digest(&body)))
        {
            // Buckets with Object Lock reject parts without it. S3, compatible storages and Google
            // check it; newer checksums are unknown to some. It need not be among the signed
            // headers, except for Azure, which does not require it.
            parts.headers.insert("content-md5", sum);
        }
        let mut response = self
            .send(Request::from_parts(parts, body))
            .map_err(|error| {
                self.record_failure(failure(&error));
                HttpError::new(retry_kind(&error), error)
            })?;
        if !response.status().is_success() {
            self.record_failure(response_failure(&response));
        }
        if let Some(status) = repeated_status(&response) {
            *response.status_mut() = status;
        }
        Ok(response.map(Into::into))
    }
}

/// Maps a request without a response to its effect on the upload.
fn failure(error: &Error) -> UploadFailure {
    if matches!(error, Error::RequireHttpsOnly(_)) {
        return UploadFailure::Refused("the storage is not called without TLS".into());
    }
    match RequestFailure::from(error) {
        RequestFailure::AddressBlocked => {
            UploadFailure::Refused("the storage has an address that is not public".into())
        }
        RequestFailure::UnknownIssuer => UploadFailure::Interrupted(format!(
            "{} (egress.root_certs, SSL_CERT_FILE)",
            RequestFailure::UnknownIssuer
        )),
        RequestFailure::TimedOut => {
            UploadFailure::Interrupted("the storage did not answer in time".into())
        }
        failure => UploadFailure::Interrupted(failure.to_string()),
    }
}

/// Returns whether `object_store` repeats a request without a response.
fn retry_kind(error: &Error) -> HttpErrorKind {
    match RequestFailure::from(error) {
        RequestFailure::TimedOut => HttpErrorKind::Timeout,
        RequestFailure::NameNotResolved | RequestFailure::Refused => HttpErrorKind::Connect,
        RequestFailure::Closed | RequestFailure::NotHttp => HttpErrorKind::Interrupted,
        // Not repeated: TLS errors and forbidden addresses do not go away within seconds.
        _ => HttpErrorKind::Unknown,
    }
}

/// Maps an error response to its effect on the upload.
fn response_failure(response: &Response<Vec<u8>>) -> UploadFailure {
    let status = response.status();
    // The status first: some storages send no code.
    let code = code(response.body())
        .map(|code| format!(" {code}"))
        .unwrap_or_default();
    let reason = format!("the storage answered {}{code}", status.as_u16());
    let is_lost = self::code(response.body()).is_some_and(|code| LOST_CODES.contains(&code));
    let is_temporary = status.is_server_error()
        // 409 appears while another request changes the same object.
        || matches!(status.as_u16(), 408 | 409 | 429)
        // `object_store` has repeated the request already; the next attempt may still succeed.
        || repeated_status(response).is_some()
        || is_lost;
    if is_temporary {
        UploadFailure::Interrupted(reason)
    } else {
        UploadFailure::Refused(reason)
    }
}

/// Returns the status that makes `object_store` repeat a request, if only the error code asks for
/// it.
fn repeated_status(response: &Response<Vec<u8>>) -> Option<StatusCode> {
    let code = if response.status().is_client_error() {
        code(response.body())?
    } else {
        return None;
    };
    match code {
        code if DAMAGED_CODES.contains(&code) => Some(StatusCode::REQUEST_TIMEOUT),
        code if BUSY_CODES.contains(&code) => Some(StatusCode::SERVICE_UNAVAILABLE),
        _ => None,
    }
}

/// Returns the code in an XML error, such as `NoSuchBucket`.
fn code(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    // Only words: an error must not carry markup or URLs from the storage.
    (code.len() <= MAX_CODE && code.chars().all(|c| c.is_ascii_alphanumeric())).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Response<Vec<u8>> {
        Response::builder()
            .status(status)
            .body(body.into())
            .unwrap()
    }

    #[test]
    fn a_storage_that_ends_the_handshake_of_tls_is_tried_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || drop(listener.accept()));
        let connector = StorageConnector::new(
            AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]),
            TrustedRoots::default(),
        );
        let error = connector
            .send(Request::get(url).body(Bytes::new()).unwrap())
            .unwrap_err();
        assert!(
            matches!(failure(&error), UploadFailure::Interrupted(_)),
            "{error}"
        );
        server.join().unwrap();
    }

    #[test]
    fn a_refusal_says_the_status_and_the_code_and_nothing_else_of_the_response() {
        let body = "<Error><Code>AccessDenied</Code><Message>AKIA hush</Message></Error>";
        let refused = UploadFailure::Refused("the storage answered 403 AccessDenied".into());
        assert_eq!(response_failure(&response(403, body)), refused);
        for odd in [
            "<Code>a secret</Code>",
            "<Code>",
            "hush",
            "<Code>\u{e9}</Code>",
        ] {
            assert_eq!(
                response_failure(&response(403, odd)),
                UploadFailure::Refused("the storage answered 403".into()),
                "{odd}"
            );
        }
    }

    #[test]
    fn what_a_storage_says_when_it_is_busy_is_tried_again() {
        for (status, is_temporary) in [
            (500, true),
            (503, true),
            (429, true),
            (408, true),
            (404, false),
            (301, false),
        ] {
            let failure = response_failure(&response(status, ""));
            assert_eq!(
                matches!(failure, UploadFailure::Interrupted(_)),
                is_temporary,
                "{status}"
            );
        }
    }

    #[test]
    fn what_a_storage_says_by_a_code_decides_whether_it_is_tried_again() {
        for (status, code, is_temporary, repeated) in [
            (400, "RequestTimeout", true, Some(408)),
            (400, "BadDigest", true, Some(408)),
            (400, "SlowDown", true, Some(503)),
            (403, "RequestLimitExceeded", true, Some(503)),
            (503, "SlowDown", true, None),
            (404, "NoSuchUpload", true, None),
            (400, "InvalidPart", true, None),
            (400, "InvalidBlockList", true, None),
            (404, "NoSuchBucket", false, None),
            (403, "AccessDenied", false, None),
            (400, "EntityTooSmall", false, None),
        ] {
            let response = response(status, &format!("<Error><Code>{code}</Code></Error>"));
            let is_interrupted =
                matches!(response_failure(&response), UploadFailure::Interrupted(_));
            assert_eq!(is_interrupted, is_temporary, "{status} {code}");
            assert_eq!(
                repeated_status(&response).map(|status| status.as_u16()),
                repeated,
                "{status} {code}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_put_has_its_md5_and_nothing_else_has() {
        let echo = test_http_server::serve(|request, mut stream| {
            let sum = request
                .headers
                .iter()
                .find(|(name, _)| name == "content-md5");
            let sum = sum.map_or("none", |(_, value)| value);
            let _ = test_http_server::Response::new(200)
                .body(sum)
                .send(&mut stream);
        });
        let mut connector = StorageConnector::new(
            AddressFilter::new(vec!["127.0.0.0/8".parse().unwrap()]),
            TrustedRoots::default(),
        );
        connector.allows_http = true;
        let sum = "XUFAKrxLKna5cZ2REBfFkg==";
        for (method, header, expected) in [
            (Method::PUT, "x-amz-date", sum),
            (Method::POST, "x-amz-date", "none"),
            // Azure demands that it is signed.
            (Method::PUT, AZURE_VERSION, "none"),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(format!("http://{echo}/"))
                .header(header, "1");
            let response = connector
                .call(request.body("hello".to_owned().into()).unwrap())
                .await
                .unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected);
        }
    }
}
