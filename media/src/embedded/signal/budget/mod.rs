//! Limits for clients: bytes, messages and changes per join, per participant and per address.
//!
//! The rates are far above the needs of a client that publishes 50 tracks at once, or receives 1,000 in a room of 500. A
//! client that exceeds them is disconnected, since waiting would only fill queues. If an address exceeds its rates, the
//! client that sends next is disconnected. All joins of one identity in a room share three times a join's rates, so
//! that joining again and again gains little.

use std::sync::Arc;

use conclave_model::{ClientAddress, Clock, Identity, NamespacedRoom, Rate, RateLimit, RateLimits};

/// Bytes. Descriptions with many tracks are large: browsers use 5 kB per video.
const BYTES: Rate = Rate {
    per_second: 1024 * 1024,
    burst: 16 * 1024 * 1024,
};
/// Bytes in offers at the server's request. They do not count towards the address: while a room fills, all clients in
/// an office send an offer for each newcomer, as fast as the server requests them.
const ASKED_BYTES: Rate = Rate {
    per_second: 4 * 1024 * 1024,
    burst: 64 * 1024 * 1024,
};
/// Messages. A long list counts as several; see [`Weight`].
const MESSAGES: Rate = Rate {
    per_second: 200,
    burst: 4_000,
};
/// Default for sustained changes per second.
pub(in crate::embedded) const DEFAULT_CHANGES: u32 = 20;
/// Burst, as a multiple of the changes per second.
const CHANGES_AT_ONCE: u32 = 10;
/// Combined rates for a participant's joins, as a multiple of one join's.
const PARTICIPANT_SHARE: u32 = 3;
/// Combined rates for an address's joins, as a multiple of one join's.
const ADDRESS_SHARE: u32 = 20;
/// Combined rate of changes for an address's joins, as a multiple of one join's: while a room fills, all clients in an
/// office make an offer for each newcomer.
const ADDRESS_CHANGES: u32 = 100;
/// Maximum number of pending requested offers.
const MOST_AWAITED_OFFERS: u32 = 100;
/// Free size for an offer, and the step by which a larger one counts as one more change, in lines and in sections. A
/// media worker takes 3 µs per line. An offer with 50 videos has 5,000 lines.
const LINES_OF_OFFER: (usize, usize) = (5_000, 500);
const SECTIONS_OF_OFFER: (usize, usize) = (100, 50);

/// The limit that a client exceeded, as the reason for closing its WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Bytes per second.
    #[error("too many bytes a second")]
    Bytes,
    /// Messages per second.
    #[error("too many messages a second")]
    Messages,
    /// Changes per second.
    #[error("too many changes a second")]
    Changes,
    /// Message size for its kind, or list length in a message.
    #[error("a message is too large")]
    MessageSize,
    /// Unread bytes or messages.
    #[error("too much is left unread")]
    Unread,
}

impl Excess {
    pub(crate) const ALL: [Self; 5] = [
        Self::Bytes,
        Self::Messages,
        Self::Changes,
        Self::MessageSize,
        Self::Unread,
    ];

    /// Returns the value for the label `limit` in the metrics.
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

/// A message's weight in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    /// Size in bytes.
    pub bytes: usize,
    /// Equivalent number of messages: 1, and one more per [`Weight::FIELDS`] fields.
    pub messages: usize,
    /// Whether it is an offer.
    pub is_offer: bool,
}

impl Weight {
    /// Fields that take as long to handle as a message.
    const FIELDS: usize = 64;

    /// Returns a message's weight.
    pub fn new(bytes: usize, fields: usize) -> Self {
        Self {
            bytes,
            messages: 1 + fields / Self::FIELDS,
            // Set by the decoder, which looks at the first byte.
            is_offer: false,
        }
    }
}

/// Returns an offer's weight in changes.
pub(super) fn weight_of_offer(sdp: &str) -> u32 {
    let beyond = |count: usize, (free, step): (usize, usize)| count.saturating_sub(free) / step;
    let lines = sdp.lines().filter(|line| !line.is_empty());
    let (lines, sections) = lines.fold((0, 0), |(lines, sections), line| {
        (lines + 1, sections + usize::from(line.starts_with("m=")))
    });
    // The larger of the two: lines cost time to parse, sections cost transports and tracks.
    let more = beyond(lines, LINES_OF_OFFER).max(beyond(sections, SECTIONS_OF_OFFER));
    u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
}

/// A participant's room and identity, over all its joins.
pub(in crate::embedded) type BudgetOwner = Arc<(NamespacedRoom, Identity)>;

/// Limits for one join, or for participants or addresses with several joins.
struct Rates<L> {
    bytes: L,
    messages: L,
    changes: L,
}

/// Budgets for all participants and addresses.
pub(in crate::embedded) struct Budgets {
    clock: Clock,
    changes: Rate,
    participants: Rates<RateLimits<BudgetOwner>>,
    addresses: Rates<RateLimits<ClientAddress>>,
}

impl<L> Rates<L> {
    /// Creates a limit for each rate.
    fn new(rates: [Rate; 3], limit: impl Fn(Rate) -> L) -> Self {
        let [bytes, messages, changes] = rates.map(limit);
        Self {
            bytes,
            messages,
            changes,
        }
    }
}

impl Budgets {
    /// Creates the budgets, with this many changes per second for a join.
    pub fn new(clock: &Clock, changes_per_second: u32) -> Self {
        let burst = changes_per_second.saturating_mul(CHANGES_AT_ONCE);
        let changes = Rate {
            per_second: changes_per_second,
            burst,
        };
        let participant_rates =
            [BYTES, MESSAGES, changes].map(|rate| rate.times(PARTICIPANT_SHARE));
        let address_rates = [
            BYTES.times(ADDRESS_SHARE),
            MESSAGES.times(ADDRESS_SHARE),
            changes.times(ADDRESS_CHANGES),
        ];
        // Only limits in use are stored, so idle addresses take no memory.
        let participants = Rates::new(participant_rates, |rate| RateLimits::new(clock, rate));
        let addresses = Rates::new(address_rates, |rate| RateLimits::new(clock, rate));
        Self {
            clock: clock.clone(),
            changes,
            participants,
            addresses,
        }
    }

    /// Returns the budget for a participant's join from this address.
    pub fn client(&self, owner: BudgetOwner, address: Option<ClientAddress>) -> ClientBudget {
        ClientBudget {
            owner,
            address,
            rates: Rates::new([BYTES, MESSAGES, self.changes], |rate| {
                RateLimit::new(&self.clock, rate)
            }),
            change_weight: 1,
            // Two such changes must fit into the burst.
            most_weight: (self.changes.burst / 2).max(1),
            awaited_offers: 0,
            asked_bytes: RateLimit::new(&self.clock, ASKED_BYTES),
        }
    }
}

/// A client's budget for one join.
pub(in crate::embedded) struct ClientBudget {
    owner: BudgetOwner,
    /// Address from which the WebSocket was opened, if known.
    address: Option<ClientAddress>,
    rates: Rates<RateLimit>,
    /// Weight of each change by the client, and its maximum.
    change_weight: u32,
    most_weight: u32,
    /// Requested offers that have not arrived.
    awaited_offers: u32,
    /// Limit for bytes in requested offers.
    asked_bytes: RateLimit,
}

impl ClientBudget {
    /// Records that the client continues from another address.
    pub fn move_to(&mut self, address: Option<ClientAddress>) {
        // Its limits per join stay, so that a new connection does not refill them.
        self.address = address;
    }

    /// Counts a message.
    pub(super) fn take_message(&self, budgets: &Budgets, weight: Weight) -> Result<(), Excess> {
        // By its first byte alone, since the message is not decoded yet. `take_offer` counts the offer itself.
        let is_asked = weight.is_offer
            && self.awaited_offers > 0
            && u32::try_from(weight.bytes).is_ok_and(|bytes| self.asked_bytes.take(bytes));
        let (participants, addresses) = (&budgets.participants, &budgets.addresses);
        if !is_asked
            && !self.take(
                (&self.rates.bytes, &participants.bytes, &addresses.bytes),
                weight.bytes,
            )
        {
            return Err(Excess::Bytes);
        }
        let messages = (
            &self.rates.messages,
            &participants.messages,
            &addresses.messages,
        );
        let is_within = self.take(messages, weight.messages);
        if is_within {
            Ok(())
        } else {
            Err(Excess::Messages)
        }
    }

    /// Sets the weight of the client's changes: others receive all its metadata with each.
    pub fn weigh_changes(&mut self, weight: u32) {
        self.change_weight = weight.clamp(1, self.most_weight);
    }

    /// Counts a change.
    pub(super) fn take_change(&self, budgets: &Budgets) -> Result<(), Excess> {
        self.take_changes(budgets, self.change_weight)
    }

    fn take_changes(&self, budgets: &Budgets, weight: u32) -> Result<(), Excess> {
        let changes = (
            &self.rates.changes,
            &budgets.participants.changes,
            &budgets.addresses.changes,
        );
        // Capped, or a heavy change would never be granted.
        let is_within = self.take(changes, weight.min(self.most_weight) as usize);
        if is_within {
            Ok(())
        } else {
            Err(Excess::Changes)
        }
    }

    /// Records the server's request for an offer, which then does not count as a change: while a room fills, a client
    /// with one peer connection makes one for each newcomer.
    pub fn ask_for_offer(&mut self) {
        // Capped, or a client that never replies could collect free offers.
        self.awaited_offers = (self.awaited_offers + 1).min(MOST_AWAITED_OFFERS);
    }

    /// Counts an offer.
    pub(super) fn take_offer(&mut self, budgets: &Budgets, sdp: &str) -> Result<(), Excess> {
        if self.awaited_offers == 0 {
            return self.take_changes(budgets, weight_of_offer(sdp).max(self.change_weight));
        }
        // One offer per request. Further ones count as changes.
        self.awaited_offers -= 1;
        Ok(())
    }

    /// Deducts a number from the join's, the participant's and the address's limits. Returns whether all three had
    /// enough.
    fn take(
        &self,
        (own, participant_limit, address_limit): (
            &RateLimit,
            &RateLimits<BudgetOwner>,
            &RateLimits<ClientAddress>,
        ),
        number: usize,
    ) -> bool {
        // Above `u32::MAX`, no limit has enough.
        let Ok(number) = u32::try_from(number) else {
            return false;
        };
        // The narrowest first: what a client exceeds by itself must not reduce its address's share.
        // Earlier deductions stay if a later limit fails: the client is disconnected anyway.
        own.take(number)
            && participant_limit.take(&self.owner, number)
            && self
                .address
                .is_none_or(|address| address_limit.take(&address, number))
    }
}

#[cfg(test)]
mod tests;
