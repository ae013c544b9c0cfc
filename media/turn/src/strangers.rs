//! How many answers are sent to addresses that have proved nothing. Over UDP anyone can write any address as the sender.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use conclave_model::rates::{RateLimit, RateLimits};
use conclave_model::{ClientAddress, Clock, Rate};

/// The answers to one address: enough for an office behind one address, whose clients need two each.
const OF_ADDRESS: Rate = Rate {
    per_second: 50,
    burst: 500,
};
/// The answers in all: about 4 Mbit/s.
const IN_ALL: Rate = Rate {
    per_second: 5_000,
    burst: 5_000,
};
/// Addresses are counted in so many groups, by a hash that strangers cannot predict. So nothing grows with their number.
const GROUPS: u64 = 4_096;

/// Limits answers to strangers, by address and in all.
#[derive(Debug)]
pub struct Strangers {
    hasher: RandomState,
    groups: RateLimits<u64>,
    all: RateLimit,
}

impl Strangers {
    /// Nothing has been answered.
    pub fn new(clock: &Clock) -> Self {
        let (groups, all) = (
            RateLimits::new(clock, OF_ADDRESS),
            RateLimit::new(clock, IN_ALL),
        );
        Self {
            hasher: RandomState::new(),
            groups,
            all,
        }
    }

    /// Counts an answer to an address; returns whether it may be sent.
    pub fn may_answer(&self, address: IpAddr) -> bool {
        let group = self.hasher.hash_one(ClientAddress::from(address)) % GROUPS;
        self.groups.take(&group, 1) && self.all.take(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use conclave_model::Timestamp;

    use super::*;

    #[test]
    fn answers_are_limited_by_address_and_in_all() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let strangers = Strangers::new(&clock);
        let answered = |address: u32| strangers.may_answer(Ipv4Addr::from_bits(address).into());
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 500);
        assert_eq!(
            (2..100_000).filter(|address| answered(*address)).count(),
            4_500
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 50);
    }
}
