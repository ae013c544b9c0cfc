//! What clients may send: bytes, messages and changes, for each join and for each address.
//!
//! The rates are far above what a client sends that publishes 50 tracks at once, or receives 1,000 in a room of 500. A client
//! that exceeds them is disconnected: it would only go on. Of an address, the client that sends next is disconnected.

use conclave_model::{ClientAddress, Clock, Rate, RateLimit, RateLimits};

/// Bytes. Descriptions of many tracks are large: browsers take 5 kB for each video.
const BYTES: Rate = Rate { per_second: 1024 * 1024, burst: 16 * 1024 * 1024 };
/// Bytes of offers that the server has asked for. They do not count for the address either: in a room that fills, all those of an
/// office send one for each change, as fast as the server asks them.
const ASKED_BYTES: Rate = Rate { per_second: 4 * 1024 * 1024, burst: 64 * 1024 * 1024 };
/// Messages. A long list counts as several, see [`Weight`].
const MESSAGES: Rate = Rate { per_second: 200, burst: 4_000 };
/// Changes a second, sustained, unless it is set otherwise.
pub(in crate::embedded) const DEFAULT_CHANGES: u32 = 20;
/// Changes at once, as a multiple of those a second.
const CHANGES_AT_ONCE: u32 = 10;
/// How many times of what one participant may send all those of an address may send.
const ADDRESS_SHARE: u32 = 20;
/// The same of changes: in a room that fills, all those of an office make an offer for each one that comes.
const ADDRESS_CHANGES: u32 = 100;
/// The most offers that the server has asked for and that have not come.
const MOST_AWAITED_OFFERS: u32 = 100;

/// What a client exceeds, by which it loses its websocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Bytes a second.
    #[error("too many bytes a second")]
    Bytes,
    /// Messages a second.
    #[error("too many messages a second")]
    Messages,
    /// Changes a second.
    #[error("too many changes a second")]
    Changes,
    /// The size of a message of its kind, or the length of a list in it.
    #[error("a message is too large")]
    MessageSize,
    /// Bytes or messages that it does not read.
    #[error("too much is left unread")]
    Unread,
}

impl Excess {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Bytes, Self::Messages, Self::Changes, Self::MessageSize, Self::Unread];

    /// Its value of the label `limit` in the metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Messages => "messages",
            Self::Changes => "changes",
            Self::MessageSize => "message_size",
            Self::Unread => "unread",
        }
    }
}

/// What a message counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    /// The size of the message, in bytes.
    pub bytes: usize,
    /// The number of messages that take as long to handle: 1 and one more for every [`Weight::FIELDS`] fields.
    pub messages: usize,
    /// Whether it is an offer.
    pub is_offer: bool,
}

impl Weight {
    /// The number of fields that take as long to handle as a message.
    const FIELDS: usize = 64;

    /// Returns the weight of a message with this number of fields.
    pub fn new(bytes: usize, fields: usize) -> Self {
        Self { bytes, messages: 1 + fields / Self::FIELDS, is_offer: false }
    }
}

/// The rates of one client, or of addresses, which have a share of those of several clients.
struct Rates<L> {
    bytes: L,
    messages: L,
    changes: L,
}

/// The budgets of all addresses, from which those of clients are made.
pub(in crate::embedded) struct Budgets {
    clock: Clock,
    changes: Rate,
    addresses: Rates<RateLimits<ClientAddress>>,
}

impl Budgets {
    /// Creates the budgets. A participant may make this number of changes a second.
    pub fn new(clock: &Clock, changes_per_second: u32) -> Self {
        let burst = changes_per_second.saturating_mul(CHANGES_AT_ONCE);
        let changes = Rate { per_second: changes_per_second, burst };
        let addresses = Rates {
            bytes: RateLimits::new(clock, BYTES.times(ADDRESS_SHARE)),
            messages: RateLimits::new(clock, MESSAGES.times(ADDRESS_SHARE)),
            changes: RateLimits::new(clock, changes.times(ADDRESS_CHANGES)),
        };
        Self { clock: clock.clone(), changes, addresses }
    }

    /// Returns the budget of a join from this address.
    pub fn client(&self, address: Option<ClientAddress>) -> ClientBudget {
        let [bytes, messages, changes, asked_bytes] =
            [BYTES, MESSAGES, self.changes, ASKED_BYTES].map(|rate| RateLimit::new(&self.clock, rate));
        ClientBudget {
            address,
            rates: Rates { bytes, messages, changes },
            change_weight: 1,
            // So that two of them are possible at once.
            most_weight: (self.changes.burst / 2).max(1),
            awaited_offers: 0,
            asked_bytes,
        }
    }
}

/// What the client of one join may send.
pub(in crate::embedded) struct ClientBudget {
    /// The address of its websocket, if it is known.
    address: Option<ClientAddress>,
    rates: Rates<RateLimit>,
    /// As how many changes one of it counts, and the most of them.
    change_weight: u32,
    most_weight: u32,
    /// How many offers the server has asked for that have not come.
    awaited_offers: u32,
    /// The bytes of those.
    asked_bytes: RateLimit,
}

impl ClientBudget {
    /// The client goes on from another address.
    pub fn move_to(&mut self, address: Option<ClientAddress>) {
        self.address = address;
    }

    /// Counts a message.
    pub(super) fn take_message(&self, budgets: &Budgets, weight: Weight) -> Result<(), Excess> {
        let of_address = &budgets.addresses;
        let is_asked = weight.is_offer
            && self.awaited_offers > 0
            && u32::try_from(weight.bytes).is_ok_and(|bytes| self.asked_bytes.take(bytes));
        if !is_asked && !self.take(&self.rates.bytes, &of_address.bytes, weight.bytes) {
            return Err(Excess::Bytes);
        }
        let is_within = self.take(&self.rates.messages, &of_address.messages, weight.messages);
        if is_within { Ok(()) } else { Err(Excess::Messages) }
    }

    /// Sets as how many changes one of the client counts: others get all that its participant says of itself with each.
    pub fn weigh_changes(&mut self, weight: u32) {
        self.change_weight = weight.clamp(1, self.most_weight);
    }

    /// Counts a change.
    pub(super) fn take_change(&self, budgets: &Budgets) -> Result<(), Excess> {
        let is_within = self.take(&self.rates.changes, &budgets.addresses.changes, self.change_weight as usize);
        if is_within { Ok(()) } else { Err(Excess::Changes) }
    }

    /// The server asks the client for an offer, which does not count as a change: in a room that fills, a client with one peer
    /// connection makes one for each participant that comes.
    pub fn ask_for_offer(&mut self) {
        self.awaited_offers = (self.awaited_offers + 1).min(MOST_AWAITED_OFFERS);
    }

    /// Counts an offer.
    pub(super) fn take_offer(&mut self, budgets: &Budgets) -> Result<(), Excess> {
        if self.awaited_offers == 0 {
            return self.take_change(budgets);
        }
        self.awaited_offers -= 1;
        Ok(())
    }

    /// Takes something from the client's own rate and from that of its address. Returns whether there was enough.
    fn take(&self, own: &RateLimit, of_address: &RateLimits<ClientAddress>, number: usize) -> bool {
        let Ok(number) = u32::try_from(number) else { return false };
        own.take(number) && self.address.is_none_or(|address| of_address.take(&address, number))
    }
}

#[cfg(test)]
mod real_use;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use conclave_model::Timestamp;

    use super::*;

    const MESSAGE: Weight = Weight { bytes: 100, messages: 1, is_offer: false };

    fn budgets() -> (Clock, Budgets) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let budgets = Budgets::new(&clock, 20);
        (clock, budgets)
    }

    fn address(text: &str) -> Option<ClientAddress> {
        Some(text.parse::<IpAddr>().unwrap().into())
    }

    /// Takes as often as there is something, 100,000 times at most.
    fn exhaust<E>(take: impl Fn() -> Result<(), E>) -> usize {
        (0..100_000).take_while(|_| take().is_ok()).count()
    }

    #[test]
    fn a_client_that_exceeds_a_rate_is_refused_until_time_has_passed() {
        let (clock, budgets) = budgets();
        let client = budgets.client(None);
        assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
        assert_eq!(client.take_message(&budgets, MESSAGE), Err(Excess::Messages));
        assert_eq!(exhaust(|| client.take_change(&budgets)), 200);
        assert_eq!(client.take_change(&budgets), Err(Excess::Changes));
        clock.advance(Duration::from_secs(1));
        assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 200);
        assert_eq!(exhaust(|| client.take_change(&budgets)), 20);
    }

    #[test]
    fn changes_of_a_participant_that_says_much_of_itself_count_as_several() {
        let (_clock, budgets) = budgets();
        let mut client = budgets.client(None);
        client.weigh_changes(17);
        assert_eq!(exhaust(|| client.take_change(&budgets)), 11);
        let mut client = Budgets::new(&Clock::manual(Timestamp::from_millis(0)), 1).client(None);
        client.weigh_changes(17);
        assert_eq!(exhaust(|| client.take_change(&budgets)), 2, "it can change itself");
    }

    #[test]
    fn offers_that_the_server_has_asked_for_are_no_changes() {
        let (_clock, budgets) = budgets();
        let mut client = budgets.client(None);
        for _ in 0..1_000 {
            client.ask_for_offer();
            assert_eq!(client.take_offer(&budgets), Ok(()));
        }
        let offers = (0..1_000).take_while(|_| client.take_offer(&budgets).is_ok()).count();
        assert_eq!(offers, 200, "those of its own");
        (0..1_000).for_each(|_| client.ask_for_offer());
        let offers = (0..1_000).take_while(|_| client.take_offer(&budgets).is_ok()).count();
        assert_eq!(offers, 100, "a bounded number is awaited");
    }

    #[test]
    fn bytes_and_long_lists_count_and_so_does_a_step_of_the_clock_not() {
        let (clock, budgets) = budgets();
        let client = budgets.client(None);
        assert_eq!(exhaust(|| client.take_message(&budgets, Weight::new(1024 * 1024, 0))), 16);
        clock.step(3_600_000);
        assert_eq!(client.take_message(&budgets, Weight::new(1024 * 1024, 0)), Err(Excess::Bytes));
        let client = budgets.client(None);
        assert_eq!(exhaust(|| client.take_message(&budgets, Weight::new(1, 6_400))), 4_000 / 101);
    }

    #[test]
    fn clients_of_an_address_share_its_budget_and_those_elsewhere_have_their_own() {
        let (clock, budgets) = budgets();
        let here = address("203.0.113.1");
        for _ in 0..ADDRESS_SHARE {
            let client = budgets.client(here);
            assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
        }
        assert_eq!(budgets.client(here).take_message(&budgets, MESSAGE), Err(Excess::Messages));
        let elsewhere = address("203.0.113.2");
        assert_eq!(budgets.client(elsewhere).take_message(&budgets, MESSAGE), Ok(()));
        clock.advance(Duration::from_secs(1));
        assert_eq!(budgets.client(here).take_message(&budgets, MESSAGE), Ok(()));
        let changes = (0..=ADDRESS_CHANGES).map(|_| exhaust(|| budgets.client(here).take_change(&budgets)));
        assert_eq!(changes.sum::<usize>(), 20_000);
    }

    #[test]
    fn clients_of_an_ipv6_network_share_the_budget_of_one_address() {
        let (_clock, budgets) = budgets();
        for host in 1..=ADDRESS_SHARE {
            let client = budgets.client(address(&format!("2001:db8::{host}")));
            assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
        }
        let client = budgets.client(address("2001:db8::ffff"));
        assert_eq!(client.take_message(&budgets, MESSAGE), Err(Excess::Messages));
        assert_eq!(budgets.client(address("2001:db8:0:1::1")).take_message(&budgets, MESSAGE), Ok(()));
    }
}
