//! Request rates: per API key, or per client address for requests without a valid key. Open operations have lower rates of their own,
//! per client address and per secret, so that their secrets cannot be guessed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};
use conclave_model::key::{ApiKeyHash, ApiKeyPrefix};
use conclave_model::{ClientAddress, Clock, ErrorCode, Problem, Rate, RateLimits};
use parking_lot::RwLock;

use crate::http::api::error::ApiError;
use crate::http::api::spec::OpenRates;
use crate::http::listener::client_address::TrustedProxies;

/// SHA-256 of an API key, or BLAKE3 of a secret in a path.
type SecretHash = [u8; 32];

/// Limiters for the open operations with one of [`OpenRates`].
struct OpenLimits {
    addresses: RateLimits<ClientAddress>,
    // Hashes, so that the limiter's memory contains no code.
    secrets: RateLimits<SecretHash>,
}

/// Results of earlier key lookups, so that guessed keys cost no database query.
#[derive(Default)]
struct Lookups {
    /// Keys that were valid at their last lookup. Others' guesses from the same address do not affect them. At most as many as in the
    /// database.
    valid: HashSet<SecretHash>,
    /// Clients over their rate that sent an invalid key, with the end of the refusal on the monotonic clock.
    refused: HashMap<ClientAddress, Duration>,
}

/// A server's limiters.
pub struct Limits {
    clock: Clock,
    keys: RateLimits<ApiKeyPrefix>,
    addresses: RateLimits<ClientAddress>,
    lookups: RwLock<Lookups>,
    exchange: OpenLimits,
    signalling: RateLimits<ClientAddress>,
    trusted_proxies: TrustedProxies,
}

/// Rate per address for WebRTC connections and their validation requests: an office behind one address may join at once.
const SIGNALLING: Rate = Rate {
    per_second: 20,
    burst: 200,
};
/// Rate per address for content that is the same for everyone, such as the call page's files: an office may open 60 pages at once.
const FIXED: Rate = Rate {
    per_second: 200,
    burst: 2_000,
};

impl Limits {
    /// Creates the limiters, with the rate `exchanges` for room code exchanges and `calls` for all other requests. For requests from
    /// one of `trusted_proxies`, the forwarded address counts as the client's.
    pub fn new(
        clock: &Clock,
        calls: Rate,
        exchanges: Rate,
        trusted_proxies: TrustedProxies,
    ) -> Self {
        Self {
            keys: RateLimits::new(clock, calls),
            addresses: RateLimits::new(clock, calls),
            lookups: RwLock::default(),
            exchange: OpenLimits {
                addresses: RateLimits::new(clock, exchanges),
                secrets: RateLimits::new(clock, exchanges),
            },
            signalling: RateLimits::new(clock, SIGNALLING),
            clock: clock.clone(),
            trusted_proxies,
        }
    }

    /// Counts a request with an API key.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_key(&self, key: &ApiKeyPrefix) -> Result<(), Problem> {
        self.keys.check(key).map_err(rate_limited)
    }

    /// Refuses a key before its lookup if its client has guessed more keys than its rate allows. A key that was valid before is not
    /// refused. Returns whether it was.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_lookup(&self, key: &ApiKeyHash, request: &HttpRequest) -> Result<bool, Problem> {
        let lookups = self.lookups.read();
        let was_valid = lookups.valid.contains(&key.0);
        // The common case, without computing the client's address: the key is known, or nobody is guessing.
        if was_valid || lookups.refused.is_empty() {
            return Ok(was_valid);
        }
        let until = self
            .trusted_proxies
            // By address alone, so that another key does not help a client that is over its rate.
            .client(request)
            .and_then(|client| lookups.refused.get(&client));
        match until.and_then(|until| until.checked_sub(self.clock.monotonic())) {
            Some(wait) if !wait.is_zero() => Err(rate_limited(wait)),
            _ => Ok(false),
        }
    }

    /// Records that a key was valid at its lookup. Called only if [`check_lookup`](Self::check_lookup) has returned false: a write lock
    /// per request would serialise the workers.
    pub fn record_valid(&self, key: &ApiKeyHash) {
        self.lookups.write().valid.insert(key.0);
    }

    /// Counts a request with an invalid key by the client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`. Until the client may retry, its keys are not looked up.
    pub fn check_invalid_key(
        &self,
        key: &ApiKeyHash,
        request: &HttpRequest,
    ) -> Result<(), Problem> {
        // Before the map is locked, so that its lock is held for the change only.
        let checked = self.check_address(request);
        let mut lookups = self.lookups.write();
        // The key may have been revoked since its last lookup.
        lookups.valid.remove(&key.0);
        let wait = checked
            .as_ref()
            .err()
            .and_then(|limited| limited.retry_after);
        let refused = self.trusted_proxies.client(request).zip(wait);
        lookups
            .refused
            .extend(refused.map(|(client, wait)| (client, self.clock.monotonic() + wait)));
        // Within the rate, the caller goes on to its 401.
        checked
    }

    /// Counts a request by the client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_address(&self, request: &HttpRequest) -> Result<(), Problem> {
        self.check_client(&self.addresses, request)
    }

    /// Counts a WebRTC client that connects, or validates its token, by its address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_signalling(&self, request: &HttpRequest) -> Result<(), Problem> {
        self.check_client(&self.signalling, request)
    }

    /// Returns the client's address, if known.
    pub fn client_address(&self, request: &HttpRequest) -> Option<ClientAddress> {
        self.trusted_proxies.client(request)
    }

    /// Counts a request for an open operation by the client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_open_address(
        &self,
        rates: OpenRates,
        request: &HttpRequest,
    ) -> Result<(), Problem> {
        self.check_client(&self.open(rates).addresses, request)
    }

    /// Counts a request for an open operation by the secret in its path, from any client.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_open_secret(&self, rates: OpenRates, secret: &str) -> Result<(), Problem> {
        self.open(rates)
            .secrets
            .check(&hash(secret))
            .map_err(rate_limited)
    }

    fn check_client(
        &self,
        limits: &RateLimits<ClientAddress>,
        request: &HttpRequest,
    ) -> Result<(), Problem> {
        check_client(limits, &self.trusted_proxies, request)
    }

    fn open(&self, rates: OpenRates) -> &OpenLimits {
        match rates {
            OpenRates::Exchange => &self.exchange,
        }
    }

    /// Removes expired refusals.
    pub fn forget_refusals(&self) {
        let now = self.clock.monotonic();
        // Without this, each address that ever guessed a key would keep an entry.
        self.lookups.write().refused.retain(|_, until| *until > now);
    }
}

/// Rate per client address for responses that need no credential and no record, on every public listener. Routes, standbys and the
/// redirect to `https` share it.
pub struct FixedLimits {
    addresses: RateLimits<ClientAddress>,
    trusted_proxies: TrustedProxies,
}

impl FixedLimits {
    /// Creates the limits. For requests from a trusted proxy, the forwarded address counts as the client's.
    #[must_use]
    pub fn new(clock: &Clock, trusted_proxies: TrustedProxies) -> Self {
        Self {
            addresses: RateLimits::new(clock, FIXED),
            trusted_proxies,
        }
    }

    /// Counts a request by the client's address, and returns its response, or 429 `rate_limited`.
    pub fn respond(
        &self,
        request: &HttpRequest,
        respond: impl FnOnce() -> HttpResponse,
    ) -> HttpResponse {
        let checked = check_client(&self.addresses, &self.trusted_proxies, request);
        checked.map_or_else(|limited| ApiError::from(limited).to_http(), |()| respond())
    }
}

fn check_client(
    limits: &RateLimits<ClientAddress>,
    proxies: &TrustedProxies,
    request: &HttpRequest,
) -> Result<(), Problem> {
    match proxies.client(request) {
        Some(client) => limits.check(&client).map_err(rate_limited),
        // Without a peer address there is nothing to count by.
        None => Ok(()),
    }
}

fn hash(secret: &str) -> SecretHash {
    blake3::hash(secret.as_bytes()).into()
}

fn rate_limited(wait: Duration) -> Problem {
    Problem::new(
        ErrorCode::RateLimited,
        "over the request rate; see Retry-After",
    )
    .after(wait)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use conclave_model::Timestamp;
    use conclave_model::key::ApiKey;
    use conclave_model::project::Environment;

    use super::*;

    /// Proves S-1.
    #[test]
    fn a_client_that_guesses_keys_is_refused_for_as_long_as_its_rate_says_and_valid_keys_never() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let rate = Rate {
            per_second: 1,
            burst: 1,
        };
        let limits = Limits::new(&clock, rate, rate, TrustedProxies::default());
        let request = TestRequest::default()
            .peer_addr("203.0.113.1:1".parse().unwrap())
            .to_http_request();
        let [valid, new, guessed] = [(); 3].map(|()| ApiKey::generate(Environment::Test).hash());
        limits.record_valid(&valid);
        assert!(
            limits.check_invalid_key(&guessed, &request).is_ok(),
            "within the burst"
        );
        assert!(limits.check_lookup(&guessed, &request).is_ok());
        assert!(limits.check_invalid_key(&guessed, &request).is_err());
        limits.forget_refusals();
        let refused = limits.check_lookup(&new, &request).unwrap_err();
        assert_eq!(
            (refused.code, refused.retry_after),
            (ErrorCode::RateLimited, Some(Duration::from_secs(1)))
        );
        assert!(limits.check_lookup(&valid, &request).is_ok());
        let elsewhere = TestRequest::default()
            .peer_addr("203.0.113.2:1".parse().unwrap())
            .to_http_request();
        assert!(limits.check_lookup(&new, &elsewhere).is_ok());
        // A revoked key counts like any invalid one.
        assert!(limits.check_invalid_key(&valid, &request).is_err());
        assert!(limits.check_lookup(&valid, &request).is_err());
        clock.advance(Duration::from_secs(1));
        assert!(limits.check_lookup(&new, &request).is_ok());
    }
}
