//! Use of stream keys: rate limits for attempts, and the time of an encoder's last data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::ingress::StreamKeyHash;
use conclave_model::{ClientAddress, Clock, Rate, RateLimits};
use parking_lot::Mutex;

/// Silence after which an encoder is replaced by another. Encoders send several packets per second, even without video.
pub const SILENT: Duration = Duration::from_secs(2);

/// Time of an encoder's last data, in real time. Shared by clones.
#[derive(Debug, Clone)]
pub struct EncoderActivity(Arc<Mutex<Instant>>);

impl EncoderActivity {
    /// Starts now, with the encoder's connection.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// Records data from the encoder.
    pub fn record_data(&self) {
        *self.0.lock() = Instant::now();
    }

    /// Returns the time since the last data.
    pub fn silent_for(&self) -> Duration {
        self.0.lock().elapsed()
    }
}

impl PartialEq for EncoderActivity {
    fn eq(&self, other: &Self) -> bool {
        // By identity: the time changes between two comparisons of one encoder.
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for EncoderActivity {}

/// Attempts from one address: all of a studio's encoders may reconnect at once.
const ADDRESS: Rate = Rate {
    per_second: 2,
    burst: 64,
};
/// Attempts with one key: an encoder that lost its connection retries.
const KEY: Rate = Rate {
    per_second: 1,
    burst: 10,
};

/// A server's rate limits for stream keys.
pub struct StreamKeyRates {
    addresses: RateLimits<ClientAddress>,
    keys: RateLimits<[u8; 32]>,
}

impl StreamKeyRates {
    pub fn new(clock: &Clock) -> Self {
        Self {
            addresses: RateLimits::new(clock, ADDRESS),
            keys: RateLimits::new(clock, KEY),
        }
    }

    /// Counts an attempt with a key, which need not exist.
    ///
    /// # Errors
    /// The time to wait. The key must not be looked up.
    pub fn check(
        &self,
        address: ClientAddress,
        StreamKeyHash(key): &StreamKeyHash,
    ) -> Result<(), Duration> {
        // The address first, so that one address cannot use up the attempts of many keys.
        self.addresses.check(&address)?;
        self.keys.check(key)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use conclave_model::Timestamp;

    use super::*;

    fn rates() -> (StreamKeyRates, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (StreamKeyRates::new(&clock), clock)
    }

    fn key(number: usize) -> StreamKeyHash {
        StreamKeyHash::from_key(&number.to_string())
    }

    #[test]
    fn an_address_that_guesses_is_refused_and_others_are_not() {
        let (rates, clock) = rates();
        let address = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap());
        let taken = (0..1_000)
            .filter(|guess| rates.check(address("2001:db8::1"), &key(*guess)).is_ok())
            .count();
        assert_eq!(taken, 64);
        assert!(
            rates.check(address("2001:db8::2"), &key(2_000)).is_err(),
            "of the same network"
        );
        assert!(rates.check(address("2001:db8:0:1::1"), &key(2_001)).is_ok());
        assert!(rates.check(address("127.0.0.1"), &key(2_002)).is_ok());
        clock.advance(Duration::from_secs(1));
        let taken = (0..10)
            .filter(|guess| {
                rates
                    .check(address("2001:db8::1"), &key(3_000 + guess))
                    .is_ok()
            })
            .count();
        assert_eq!(taken, 2);
    }

    /// Proves S-78.
    #[test]
    fn a_key_is_tried_at_its_rate_from_all_addresses_together() {
        let (rates, clock) = rates();
        let tries = |of: usize| {
            let addresses = (0..100_u8).map(|host| IpAddr::from([203, 0, 113, host]).into());
            addresses
                .filter(|address| rates.check(*address, &key(of)).is_ok())
                .count()
        };
        assert_eq!(tries(1), 10);
        assert_eq!(tries(2), 10);
        clock.advance(Duration::from_secs(3));
        assert_eq!(tries(1), 3);
    }
}
