//! Request rates: per API key, or per client address for requests without a valid key. Open operations, whose secrets could be
//! guessed otherwise, have lower rates of their own, per client address and per secret.

use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::HttpRequest;
use conclave_model::key::ApiKeyPrefix;
use conclave_model::{Clock, ErrorCode, Problem};
use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use ipnet::IpNet;

use super::spec::OpenRates;

/// The injected clock, as the limiter reads it.
#[derive(Clone)]
struct Monotonic(Clock);

impl GovernorClock for Monotonic {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.monotonic())
    }
}

type Keyed<K> = RateLimiter<K, DashMapStateStore<K>, Monotonic, NoOpMiddleware<Nanos>>;

/// A sustained rate and a burst.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Requests a second, sustained.
    pub per_second: NonZeroU32,
    /// Requests at once.
    pub burst: NonZeroU32,
}

/// BLAKE3 of a secret in a path.
type SecretHash = [u8; 32];

/// The limiters of the open operations with one of [`OpenRates`].
struct OpenLimits {
    addresses: Keyed<IpAddr>,
    secrets: Keyed<SecretHash>,
}

/// The limiters of one server.
pub struct Limits {
    clock: Monotonic,
    keys: Keyed<ApiKeyPrefix>,
    addresses: Keyed<IpAddr>,
    exchange: OpenLimits,
    trusted_proxies: Vec<IpNet>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limits")
    }
}

impl Limits {
    /// Limiters with the rate `exchanges` for exchanges of room codes and `calls` for every other request. Behind a proxy of
    /// `trusted_proxies` the client's address is the one that the proxy forwards.
    #[must_use]
    pub fn new(clock: &Clock, calls: Rate, exchanges: Rate, trusted_proxies: Vec<IpNet>) -> Self {
        let clock = Monotonic(clock.clone());
        Self {
            keys: keyed(calls, &clock),
            addresses: keyed(calls, &clock),
            exchange: OpenLimits { addresses: keyed(exchanges, &clock), secrets: keyed(exchanges, &clock) },
            clock,
            trusted_proxies,
        }
    }

    /// Counts a request with an API key.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_key(&self, key: &ApiKeyPrefix) -> Result<(), Problem> {
        check(&self.clock, &self.keys, key)
    }

    /// Counts a request by the client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_address(&self, request: &HttpRequest) -> Result<(), Problem> {
        match self.client(request) {
            Some(address) => check(&self.clock, &self.addresses, &address),
            None => Ok(()),
        }
    }

    /// Counts a request for an open operation by the client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_open_address(&self, rates: OpenRates, request: &HttpRequest) -> Result<(), Problem> {
        match self.client(request) {
            Some(address) => check(&self.clock, &self.open(rates).addresses, &address),
            None => Ok(()),
        }
    }

    /// Counts a request for an open operation by the secret in its path, whichever client sends it.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_open_secret(&self, rates: OpenRates, secret: &str) -> Result<(), Problem> {
        let hash: SecretHash = blake3::hash(secret.as_bytes()).into();
        check(&self.clock, &self.open(rates).secrets, &hash)
    }

    fn open(&self, rates: OpenRates) -> &OpenLimits {
        match rates {
            OpenRates::Exchange => &self.exchange,
        }
    }

    /// Drops the entries of callers that have a full burst again.
    pub fn forget_idle(&self) {
        self.keys.retain_recent();
        self.addresses.retain_recent();
        self.exchange.addresses.retain_recent();
        self.exchange.secrets.retain_recent();
    }

    /// The client: the peer, or behind trusted proxies the last address that none of them added.
    fn client(&self, request: &HttpRequest) -> Option<IpAddr> {
        let peer = request.peer_addr()?.ip().to_canonical();
        let trusted = |address: &IpAddr| self.trusted_proxies.iter().any(|net| net.contains(address));
        if !trusted(&peer) {
            return Some(peer);
        }
        let forwarded = request.headers().get_all("x-forwarded-for").filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
        let mut hops = hops.into_iter().rev().map_while(|hop| hop.parse::<IpAddr>().ok());
        hops.find(|hop| !trusted(hop)).or(Some(peer))
    }
}

fn keyed<K: Hash + Eq + Clone>(rate: Rate, clock: &Monotonic) -> Keyed<K> {
    let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
    RateLimiter::dashmap_with_clock(quota, clock.clone())
}

fn check<K: Hash + Eq + Clone>(clock: &Monotonic, limiter: &Keyed<K>, key: &K) -> Result<(), Problem> {
    limiter.check_key(key).map_err(|until| {
        let wait: Duration = until.wait_time_from(clock.now());
        Problem::new(ErrorCode::RateLimited, "over the request rate; see Retry-After").after(wait)
    })
}
