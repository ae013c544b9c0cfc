//! Requests to the CA, sent in the blocking pool.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use actix_web::web::Bytes;
use conclave_outbound::http::Request;
use conclave_outbound::http::header::USER_AGENT;
use conclave_outbound::{Client, TrustedRoots, config_trusting, roots};
use http_body_util::{BodyExt, Collected};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::config::{AcmeConfig, ConfigError};

/// Time limit for a whole request, from name resolution to the body's last byte. A server that stops waits for it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response's header, in bytes.
const MAX_HEADER_BYTES: usize = 32 * 1024;
/// Maximum size of a response's body, in bytes. The largest ones are certificate chains.
const MAX_BODY_BYTES: u64 = 256 * 1024;
/// Time for which an idle connection is kept, for an order's next request.
const MAX_IDLE: Duration = Duration::from_secs(10);

type ResponseFuture = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

/// Sends an ACME client's requests. Clones share connections.
#[derive(Debug, Clone)]
pub struct AcmeHttp(Client);

impl AcmeHttp {
    /// Creates a client that trusts the built-in root certificates, or those in the file of `tls.acme_root`.
    ///
    /// # Errors
    /// If the file cannot be read or has no root certificate.
    pub fn new(config: &AcmeConfig) -> Result<Self, ConfigError> {
        let roots = config
            .root
            .as_deref()
            .map_or_else(|| Ok(TrustedRoots::default()), read_roots)?;
        let config = config_trusting(roots)
            .https_only(true)
            .timeout_global(Some(TIMEOUT))
            .max_response_header_size(MAX_HEADER_BYTES)
            .max_idle_age(MAX_IDLE)
            .build();
        Ok(Self(Client::new(config, MAX_BODY_BYTES)))
    }
}

fn read_roots(path: &Path) -> Result<TrustedRoots, ConfigError> {
    let found = roots::read(path).map_err(|problem| ConfigError::new("tls.acme_root", problem))?;
    Ok(TrustedRoots::only(&found))
}

impl HttpClient for AcmeHttp {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> ResponseFuture {
        let client = self.0.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            // The library's header would take precedence over the client's.
            head.headers.remove(USER_AGENT);
            let body = body
                .collect()
                .await
                .map_or_else(|never| match never {}, Collected::to_bytes);
            let sent =
                tokio::task::spawn_blocking(move || send(&client, Request::from_parts(head, body)))
                    .await;
            sent.unwrap_or_else(|_| Err(Error::Other("the request was cancelled".into())))
        })
    }
}

/// Sends a request and reads its response. Blocks for at most [`TIMEOUT`].
fn send(client: &Client, request: Request<Bytes>) -> Result<BytesResponse, Error> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let response = client.send(request);
    let response = response
        .map_err(|error| Error::Other(format!("{host} cannot be reached: {error}").into()))?;
    let (parts, body) = response.into_parts();
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(&body).is_ok();
    // The library parses the body of an error as a problem document, and would report a syntax error instead of the status.
    if !parts.status.is_success() && !is_json {
        return Err(Error::Other(
            format!("{host} answered with status {}", parts.status.as_u16()).into(),
        ));
    }
    Ok(BytesResponse {
        parts,
        body: Box::new(Bytes::from(body)),
    })
}
