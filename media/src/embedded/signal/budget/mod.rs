//! What clients may send: bytes, messages and changes, for each join, for each participant and for each address.
//!
//! The rates are far above what a client sends that publishes 50 tracks at once, or receives 1,000 in a room of 500. A client
//! that exceeds them is disconnected: it would only go on. Of an address, the client that sends next is disconnected. All joins of
//! one identity in a room have the rates of three, so that a client which joins again and again has little of it.

use std::sync::Arc;

use conclave_model::{ClientAddress, Clock, Identity, NamespacedRoom, Rate, RateLimit, RateLimits};

/// Bytes. Descriptions of many tracks are large: browsers take 5 kB for each video.
const BYTES: Rate = Rate {
    per_second: 1024 * 1024,
    burst: 16 * 1024 * 1024,
};
/// Bytes of offers that the server has asked for. They do not count for the address either: in a room that fills, all those of an
/// office send one for each change, as fast as the server asks them.
const ASKED_BYTES: Rate = Rate {
    per_second: 4 * 1024 * 1024,
    burst: 64 * 1024 * 1024,
};
/// Messages. A long list counts as several, see [`Weight`].
const MESSAGES: Rate = Rate {
    per_second: 200,
    burst: 4_000,
};
/// Changes a second, sustained, unless it is set otherwise.
pub(in crate::embedded) const DEFAULT_CHANGES: u32 = 20;
/// Changes at once, as a multiple of those a second.
const CHANGES_AT_ONCE: u32 = 10;
/// How many times of what one join may send all those of a participant may send.
const PARTICIPANT_SHARE: u32 = 3;
/// How many times of what one join may send all those of an address may send.
const ADDRESS_SHARE: u32 = 20;
/// The same of changes: in a room that fills, all those of an office make an offer for each one that comes.
const ADDRESS_CHANGES: u32 = 100;
/// The most offers that the server has asked for and that have not come.
const MOST_AWAITED_OFFERS: u32 = 100;
/// An offer of more lines or sections counts as several changes, one more for each so many: a media worker takes 3 µs for a line. One
/// that sends 50 videos has 5,000 lines.
const LINES_OF_OFFER: (usize, usize) = (5_000, 500);
const SECTIONS_OF_OFFER: (usize, usize) = (100, 50);

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
    pub(crate) const ALL: [Self; 5] = [
        Self::Bytes,
        Self::Messages,
        Self::Changes,
        Self::MessageSize,
        Self::Unread,
    ];

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
        Self {
            bytes,
            messages: 1 + fields / Self::FIELDS,
            is_offer: false,
        }
    }
}

/// Returns as how many changes an offer counts.
pub(super) fn weight_of_offer(sdp: &str) -> u32 {
    let beyond = |count: usize, (free, step): (usize, usize)| count.saturating_sub(free) / step;
    let lines = sdp.lines().filter(|line| !line.is_empty());
    let (lines, sections) = lines.fold((0, 0), |(lines, sections), line| {
        (lines + 1, sections + usize::from(line.starts_with("m=")))
    });
    let more = beyond(lines, LINES_OF_OFFER).max(beyond(sections, SECTIONS_OF_OFFER));
    u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
}

/// The room and the identity of a participant, over all its joins.
pub(in crate::embedded) type Who = Arc<(NamespacedRoom, Identity)>;

/// The rates of one join, or of participants or addresses, which have a share of those of several joins.
struct Rates<L> {
    bytes: L,
    messages: L,
    changes: L,
}

/// The budgets of all participants and addresses.
pub(in crate::embedded) struct Budgets {
    clock: Clock,
    changes: Rate,
    participants: Rates<RateLimits<Who>>,
    addresses: Rates<RateLimits<ClientAddress>>,
}

impl<L> Rates<L> {
    /// Makes a limit of each rate.
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
    /// Creates the budgets. A participant may make this number of changes a second.
    pub fn new(clock: &Clock, changes_per_second: u32) -> Self {
        let burst = changes_per_second.saturating_mul(CHANGES_AT_ONCE);
        let changes = Rate {
            per_second: changes_per_second,
            burst,
        };
        let of_participant = [BYTES, MESSAGES, changes].map(|rate| rate.times(PARTICIPANT_SHARE));
        let of_address = [
            BYTES.times(ADDRESS_SHARE),
            MESSAGES.times(ADDRESS_SHARE),
            changes.times(ADDRESS_CHANGES),
        ];
        let participants = Rates::new(of_participant, |rate| RateLimits::new(clock, rate));
        let addresses = Rates::new(of_address, |rate| RateLimits::new(clock, rate));
        Self {
            clock: clock.clone(),
            changes,
            participants,
            addresses,
        }
    }

    /// Returns the budget of a participant's join from this address.
    pub fn client(&self, who: Who, address: Option<ClientAddress>) -> ClientBudget {
        ClientBudget {
            who,
            address,
            rates: Rates::new([BYTES, MESSAGES, self.changes], |rate| {
                RateLimit::new(&self.clock, rate)
            }),
            change_weight: 1,
            // So that two of them are possible at once.
            most_weight: (self.changes.burst / 2).max(1),
            awaited_offers: 0,
            asked_bytes: RateLimit::new(&self.clock, ASKED_BYTES),
        }
    }
}

/// What the client of one join may send.
pub(in crate::embedded) struct ClientBudget {
    who: Who,
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

    /// Sets as how many changes one of the client counts: others get all that its participant says of itself with each.
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
        let is_within = self.take(changes, weight.min(self.most_weight) as usize);
        if is_within {
            Ok(())
        } else {
            Err(Excess::Changes)
        }
    }

    /// The server asks the client for an offer, which does not count as a change: in a room that fills, a client with one peer
    /// connection makes one for each participant that comes.
    pub fn ask_for_offer(&mut self) {
        self.awaited_offers = (self.awaited_offers + 1).min(MOST_AWAITED_OFFERS);
    }

    /// Counts an offer.
    pub(super) fn take_offer(&mut self, budgets: &Budgets, sdp: &str) -> Result<(), Excess> {
        if self.awaited_offers == 0 {
            return self.take_changes(budgets, weight_of_offer(sdp).max(self.change_weight));
        }
        self.awaited_offers -= 1;
        Ok(())
    }

    /// Takes something from the rate of the join, from that of its participant and from that of its address. Returns whether there was
    /// enough.
    fn take(
        &self,
        (own, of_participant, of_address): (
            &RateLimit,
            &RateLimits<Who>,
            &RateLimits<ClientAddress>,
        ),
        number: usize,
    ) -> bool {
        let Ok(number) = u32::try_from(number) else {
            return false;
        };
        own.take(number)
            && of_participant.take(&self.who, number)
            && self
                .address
                .is_none_or(|address| of_address.take(&address, number))
    }
}

#[cfg(test)]
mod tests;
