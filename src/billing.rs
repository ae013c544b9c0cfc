//! Client of the external billing service, which keeps the projects' wallets if `billing.url` is set.
//!
//! Before a project starts work, the server requests `GET {url}/v1/projects/{id}/standing`, which returns `{"standing": "ok"}`. A response
//! is cached for 30 s and a failure for 1 s: an unavailable service must not cost each request the full timeout, and its recovery must be
//! noticed soon. Concurrent requests for a project share one call.
//!
//! `model::usage` combines the service's verdict with the plan; `http::quota` decides without a verdict.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::usage::BillingVerdict;
use conclave_model::{Clock, ProjectId, Secret};
use conclave_outbound::http::Request;
use conclave_outbound::{Client, Error, RequestFailure, config};
use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;

/// Time limit for the whole request, from name resolution to the body's last byte.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a verdict is cached.
const VERDICT_TTL: Duration = Duration::from_secs(30);
/// Time for which a failure is cached.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Maximum size for the response's header and for its body, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Failed request to the billing service. Contains neither the token nor anything that the service sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BillingError {
    /// The service did not respond within the timeout.
    #[error("the billing service did not answer within {TIMEOUT:?}")]
    TimedOut,
    /// No HTTP response was received, for this reason.
    #[error("the billing service cannot be reached: {0}")]
    Unreachable(&'static str),
    /// The response has another status than 200, for example a redirect, which is not followed.
    #[error("the billing service answered with status {0}")]
    Status(u16),
    /// The response has status 200 but no known `standing`.
    #[error("the billing service's answer contains no known standing")]
    UnknownStanding,
}

/// Last result for a project, and the monotonic time at which it was received.
#[derive(Debug, Clone)]
struct CachedVerdict {
    at: Duration,
    result: Result<BillingVerdict, BillingError>,
}

impl CachedVerdict {
    fn is_fresh(&self, now: Duration) -> bool {
        let ttl = if self.result.is_ok() {
            VERDICT_TTL
        } else {
            FAILURE_TTL
        };
        now.saturating_sub(self.at) < ttl
    }
}

/// A project's cached result. The lock is held during a request, so that concurrent callers share its result.
type CacheEntry = Arc<tokio::sync::Mutex<Option<CachedVerdict>>>;

/// Caching client of the billing service.
#[derive(Debug)]
pub struct BillingClient {
    service: Arc<Service>,
    clock: Clock,
    /// One entry per project that has started work since the server started.
    cache: Mutex<HashMap<ProjectId, CacheEntry>>,
}

impl BillingClient {
    /// Creates a client for the service at `url`, which sends `token` as a bearer token.
    pub fn new(url: Url, token: Option<Secret>, clock: Clock) -> Self {
        // Connections are not reused: a connection that the service has closed meanwhile would look like an outage.
        let config = config()
            .timeout_global(Some(TIMEOUT))
            .max_response_header_size(MAX_RESPONSE_BYTES)
            .max_idle_connections(0)
            .build();
        let service = Arc::new(Service {
            client: Client::new(config, MAX_RESPONSE_BYTES as u64),
            url,
            token,
        });
        Self {
            service,
            clock,
            cache: Mutex::default(),
        }
    }

    /// Returns the service's verdict on a project, from the cache if it is at most 30 s old.
    ///
    /// # Errors
    /// If the service gave no verdict, now or within the last second.
    pub async fn verdict(&self, project: &ProjectId) -> Result<BillingVerdict, BillingError> {
        // The map's lock is released before the request.
        let entry = self.cache_entry(project);
        let mut entry = entry.lock().await;
        if let Some(cached) = entry
            .as_ref()
            .filter(|cached| cached.is_fresh(self.clock.monotonic()))
        {
            return cached.result.clone();
        }
        let result = self.fetch(project.clone()).await;
        // Only the first failure in a row is logged here. The HTTP layer logs the requests that are refused because of it.
        let has_failed_before = entry.as_ref().is_some_and(|cached| cached.result.is_err());
        if let Err(error) = &result
            && !has_failed_before
        {
            log::warn!(project = project.as_str(); "{error}; decisions that do not need it use the local wallet");
        }
        *entry = Some(CachedVerdict {
            at: self.clock.monotonic(),
            result: result.clone(),
        });
        result
    }

    fn cache_entry(&self, project: &ProjectId) -> CacheEntry {
        let mut cache = self.cache.lock();
        Arc::clone(cache.entry(project.clone()).or_default())
    }

    async fn fetch(&self, project: ProjectId) -> Result<BillingVerdict, BillingError> {
        let service = Arc::clone(&self.service);
        // The HTTP client blocks.
        let joined = tokio::task::spawn_blocking(move || service.fetch_verdict(&project)).await;
        joined.unwrap_or(Err(BillingError::Unreachable("the request panicked")))
    }
}

/// Blocking HTTP client and address of the service.
#[derive(Debug)]
struct Service {
    client: Client,
    url: Url,
    token: Option<Secret>,
}

/// Response body. Unknown fields are ignored, so that services may add some.
#[derive(Deserialize)]
struct StandingResponse {
    standing: BillingVerdict,
}

impl Service {
    /// Sends the request. Blocks for at most [`TIMEOUT`].
    fn fetch_verdict(&self, project: &ProjectId) -> Result<BillingVerdict, BillingError> {
        let mut request =
            Request::get(self.standing_url(project).as_str()).header("Accept", "application/json");
        // The connection is not reused, so the service need not keep it open.
        request = request.header("Connection", "close");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let response = self.client.send(request.body("").map_err(Error::from)?)?;
        if response.status() != 200 {
            return Err(BillingError::Status(response.status().as_u16()));
        }
        let body: Result<StandingResponse, _> = serde_json::from_slice(response.body());
        Ok(body.map_err(|_| BillingError::UnknownStanding)?.standing)
    }

    fn standing_url(&self, project: &ProjectId) -> Url {
        let mut url = self.url.clone();
        // An http URL always has path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                // An operator may have written the URL with a slash at its end.
                .pop_if_empty()
                .extend(["v1", "projects", project.as_str(), "standing"]);
        }
        url
    }
}

impl From<Error> for BillingError {
    fn from(error: Error) -> Self {
        match RequestFailure::from(&error) {
            RequestFailure::TimedOut => Self::TimedOut,
            RequestFailure::NameNotResolved => {
                Self::Unreachable("its host name cannot be resolved")
            }
            RequestFailure::Refused
            | RequestFailure::Unreachable
            | RequestFailure::Closed
            | RequestFailure::ConnectionFailed => Self::Unreachable("the connection failed"),
            RequestFailure::UnknownIssuer => Self::Unreachable(
                "its certificate is of an issuer that is not trusted (SSL_CERT_FILE)",
            ),
            RequestFailure::Tls(_) => Self::Unreachable("the TLS handshake failed"),
            // A response of that size cannot be a standing.
            RequestFailure::LargeBody => Self::UnknownStanding,
            _ => Self::Unreachable("the response is not valid HTTP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_path_is_appended_to_the_path_of_the_configured_url() {
        let project: ProjectId = "prj_5f2a9c01be34".parse().unwrap();
        let address = |url: &str| {
            let billing = BillingClient::new(url.parse().unwrap(), None, Clock::system());
            billing.service.standing_url(&project).to_string()
        };
        let path = "v1/projects/prj_5f2a9c01be34/standing";
        assert_eq!(
            address("https://pay.example.org"),
            format!("https://pay.example.org/{path}")
        );
        assert_eq!(
            address("http://pay.example.org:81/"),
            format!("http://pay.example.org:81/{path}")
        );
        assert_eq!(
            address("https://example.org/pay/"),
            format!("https://example.org/pay/{path}")
        );
    }

    #[test]
    fn a_verdict_is_cached_for_30_s_and_a_failure_for_1_s() {
        let cached = |result| CachedVerdict {
            at: Duration::from_secs(100),
            result,
        };
        let (verdict, failure) = (
            cached(Ok(BillingVerdict::Suspended)),
            cached(Err(BillingError::TimedOut)),
        );
        let at = |millis: u64| Duration::from_millis(100_000 + millis);
        assert_eq!(
            (verdict.is_fresh(at(29_999)), verdict.is_fresh(at(30_000))),
            (true, false)
        );
        assert_eq!(
            (failure.is_fresh(at(999)), failure.is_fresh(at(1_000))),
            (true, false)
        );
    }

    #[test]
    fn a_service_that_ends_the_handshake_of_tls_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || drop(listener.accept()));
        let billing = BillingClient::new(url.parse().unwrap(), None, Clock::system());
        let verdict = billing
            .service
            .fetch_verdict(&"prj_5f2a9c01be34".parse().unwrap());
        assert!(
            matches!(verdict, Err(BillingError::Unreachable(_))),
            "{verdict:?}"
        );
        server.join().unwrap();
    }

    #[test]
    fn debug_output_does_not_contain_the_token() {
        let token = Some(Secret::new("tell-nobody"));
        let billing = BillingClient::new(
            "http://127.0.0.1:1".parse().unwrap(),
            token,
            Clock::system(),
        );
        assert!(!format!("{billing:?}").contains("tell-nobody"));
    }
}
