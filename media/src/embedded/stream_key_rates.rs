//! How often encoders may try a stream key, by RTMP and WHIP together: each address, and each key from wherever it comes.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use conclave_model::ingress::StreamKeyHash;
use conclave_model::{ClientAddress, Clock, MonotonicClock};
use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

/// Tries from one address: all encoders of a studio may come back at once.
const ADDRESS: Quota = quota(2, 64);
/// Tries of one key: an encoder that lost its connection tries it again.
const KEY: Quota = quota(1, 10);
/// Entries beyond which those that have their full burst again are dropped.
const MOST_KEPT: usize = 10_000;

type Keyed<K> = RateLimiter<K, DashMapStateStore<K>, MonotonicClock, NoOpMiddleware<Nanos>>;

/// The rates of a server.
pub struct StreamKeyRates {
    clock: MonotonicClock,
    addresses: Keyed<ClientAddress>,
    keys: Keyed<[u8; 32]>,
}

impl StreamKeyRates {
    /// Nothing has been tried.
    pub fn new(clock: Clock) -> Self {
        let clock = MonotonicClock(clock);
        let addresses = RateLimiter::dashmap_with_clock(ADDRESS, clock.clone());
        Self { addresses, keys: RateLimiter::dashmap_with_clock(KEY, clock.clone()), clock }
    }

    /// Counts a try of a key, which need not exist.
    ///
    /// # Errors
    /// How long to wait. The key must not be looked up.
    pub fn check(&self, address: ClientAddress, StreamKeyHash(key): &StreamKeyHash) -> Result<(), Duration> {
        self.count(&self.addresses, &address)?;
        self.count(&self.keys, key)
    }

    fn count<K: Hash + Eq + Clone>(&self, limiter: &Keyed<K>, of: &K) -> Result<(), Duration> {
        if limiter.len() > MOST_KEPT {
            limiter.retain_recent();
        }
        limiter.check_key(of).map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

const fn quota(per_second: u32, burst: u32) -> Quota {
    Quota::per_second(nonzero(per_second)).allow_burst(nonzero(burst))
}

const fn nonzero(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use conclave_model::Timestamp;

    use super::*;

    fn rates() -> (StreamKeyRates, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (StreamKeyRates::new(clock.clone()), clock)
    }

    fn key(number: usize) -> StreamKeyHash {
        StreamKeyHash::from_key(&number.to_string())
    }

    #[test]
    fn an_address_that_guesses_is_refused_and_others_are_not() {
        let (rates, clock) = rates();
        let address = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap());
        let taken = (0..1_000).filter(|guess| rates.check(address("2001:db8::1"), &key(*guess)).is_ok()).count();
        assert_eq!(taken, 64);
        assert!(rates.check(address("2001:db8::2"), &key(2_000)).is_err(), "of the same network");
        assert!(rates.check(address("2001:db8:0:1::1"), &key(2_001)).is_ok());
        assert!(rates.check(address("127.0.0.1"), &key(2_002)).is_ok());
        clock.advance(Duration::from_secs(1));
        let taken = (0..10).filter(|guess| rates.check(address("2001:db8::1"), &key(3_000 + guess)).is_ok()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn a_key_is_tried_at_its_rate_from_all_addresses_together() {
        let (rates, clock) = rates();
        let tries = |of: usize| {
            let addresses = (0..100_u8).map(|host| IpAddr::from([203, 0, 113, host]).into());
            addresses.filter(|address| rates.check(*address, &key(of)).is_ok()).count()
        };
        assert_eq!(tries(1), 10);
        assert_eq!(tries(2), 10);
        clock.advance(Duration::from_secs(3));
        assert_eq!(tries(1), 3);
    }

    #[test]
    fn what_was_tried_is_forgotten() {
        let (rates, clock) = rates();
        for guess in 0..3 * MOST_KEPT {
            clock.advance(Duration::from_secs(1));
            let address = IpAddr::from(u32::try_from(guess).unwrap().to_be_bytes());
            rates.check(address.into(), &key(guess)).unwrap();
        }
        assert!(rates.keys.len() <= MOST_KEPT + 1 && rates.addresses.len() <= MOST_KEPT + 1);
    }
}
