//! Request rates: per API key, or per client address for calls without a valid key. Exchanges of room codes, which could be
//! guessed otherwise, have a lower rate of their own, per client address and per code.

use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::HttpRequest;
use conclave_model::code::RoomCodeHash;
use conclave_model::key::ApiKeyPrefix;
use conclave_model::{Clock, ErrorCode};
use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use ipnet::IpNet;

use crate::http::problem::Problem;

/// The house's clock, as the limiter reads it.
#[derive(Clone)]
struct Monotonic(Clock);

impl GovernorClock for Monotonic {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.monotonic())
    }
}

type Keyed<K> = RateLimiter<K, DashMapStateStore<K>, Monotonic, NoOpMiddleware<Nanos>>;

/// How often something may be done: so many times a second in the long run, so many at once.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Times a second.
    pub per_second: NonZeroU32,
    /// Times at once.
    pub burst: NonZeroU32,
}

/// The limiters of one server.
pub struct Limits {
    clock: Monotonic,
    keys: Keyed<ApiKeyPrefix>,
    addresses: Keyed<IpAddr>,
    exchanging_addresses: Keyed<IpAddr>,
    exchanged_codes: Keyed<RoomCodeHash>,
    trusted_proxies: Vec<IpNet>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limits")
    }
}

impl Limits {
    /// `calls` for everything but exchanges of room codes. Behind a proxy of `trusted_proxies` the client's address is the
    /// one it forwards.
    #[must_use]
    pub fn new(clock: &Clock, calls: Rate, exchanges: Rate, trusted_proxies: Vec<IpNet>) -> Self {
        let clock = Monotonic(clock.clone());
        Self {
            keys: keyed(calls, &clock),
            addresses: keyed(calls, &clock),
            exchanging_addresses: keyed(exchanges, &clock),
            exchanged_codes: keyed(exchanges, &clock),
            clock,
            trusted_proxies,
        }
    }

    /// Counts a call of a key.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_key(&self, key: &ApiKeyPrefix) -> Result<(), Problem> {
        check(&self.clock, &self.keys, key)
    }

    /// Counts a call of a client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_address(&self, request: &HttpRequest) -> Result<(), Problem> {
        match self.client(request) {
            Some(address) => check(&self.clock, &self.addresses, &address),
            None => Ok(()),
        }
    }

    /// Counts an exchange by a client's address.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_exchanging_address(&self, request: &HttpRequest) -> Result<(), Problem> {
        match self.client(request) {
            Some(address) => check(&self.clock, &self.exchanging_addresses, &address),
            None => Ok(()),
        }
    }

    /// Counts an exchange of a code, whoever asks for it.
    ///
    /// # Errors
    /// 429 `rate_limited`.
    pub fn check_exchanged_code(&self, code: RoomCodeHash) -> Result<(), Problem> {
        check(&self.clock, &self.exchanged_codes, &code)
    }

    /// Forgets who has not called for long enough to have a full burst again.
    pub fn forget_idle(&self) {
        self.keys.retain_recent();
        self.addresses.retain_recent();
        self.exchanging_addresses.retain_recent();
        self.exchanged_codes.retain_recent();
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
