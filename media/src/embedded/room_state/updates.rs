//! Participant updates for a room's clients, in batches if the room is large.
//!
//! In a room of 500, each join and leave would cause a message to 499 others. So updates that concern no media are
//! delayed: the first one after an interval without updates is sent immediately, later ones together at the end of each
//! interval, with only the last update of each participant. Updates for a publishing participant are never delayed,
//! since clients drop media from participants that they do not know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Identity, ParticipantSid};
use livekit_protocol::ParticipantInfo;
use livekit_protocol::participant_info::State;
use prost::Message as _;

use super::deadlines::{Deadline, Deadlines};
use super::outbox::Outbox;
use super::roster::Roster;
use crate::embedded::effect::{ClientNotice, ParticipantInfos};
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::wire::participant_info;

/// A room with more clients than this is large.
const LARGE_ROOM: usize = 50;
/// Maximum delay of an update.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of participants with delayed updates. With one more, all are sent.
const MAX_WAITING: usize = 1_000;
/// Approximate size of a message with several participants, in bytes. A larger participant is sent alone.
const MESSAGE_BYTES: usize = 64 * 1024;

/// Participant updates in a room.
#[derive(Debug, Default)]
pub(super) struct Updates(UpdateBatch);

/// Delayed updates.
#[derive(Debug, Default)]
struct UpdateBatch {
    /// Last state of each participant, by identity. If two joins have one identity, the earlier one's state is sent
    /// first.
    waiting: BTreeMap<Identity, Arc<ParticipantInfo>>,
    /// Monotonic reading at which the delayed updates are sent; `None` after an interval without updates.
    until: Option<Duration>,
}

/// Whether an update may be delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// May be batched in a large room: the participant publishes nothing.
    CanWait,
    /// Concerns media or visibility.
    Immediate,
}

impl Urgency {
    /// Returns the urgency of an update that concerns no track.
    pub const fn without_tracks(is_publisher: bool) -> Self {
        if is_publisher {
            Self::Immediate
        } else {
            Self::CanWait
        }
    }
}

impl Updates {
    /// Notifies a participant's own client, and all clients that see it, of its current state. Returns false if there
    /// is no such participant.
    pub fn send_changed(
        &mut self,
        sid: &ParticipantSid,
        urgency: Urgency,
        roster: &mut Roster,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(changed) = roster.get_mut(sid) else {
            return false;
        };
        // Clients ignore an update with a lower version than their current one, so versions only grow.
        changed.bump_version();
        let info = Arc::new(participant_info(changed));
        if changed.client.is_some() {
            // A client's own state is never delayed: it may be waiting for it, as after a change of its own metadata.
            let own = ClientNotice::ParticipantsChanged([Arc::clone(&info)].into());
            outbox.notify(sid, own);
        }
        // Others see neither a participant whose join is not complete nor a hidden one.
        if changed.is_active() && !changed.grants.hidden {
            let identity = changed.identity().clone();
            self.send_to_others(&identity, info, urgency, roster, deadlines, outbox);
        }
        true
    }

    /// Notifies all other clients that a participant, which is not in the roster, has left or become hidden.
    pub fn send_gone(
        &mut self,
        gone: &LocalParticipant,
        urgency: Urgency,
        roster: &Roster,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let mut info = participant_info(gone);
        info.state = State::Disconnected.into();
        // Clients remove a disconnected participant's tracks by themselves.
        info.tracks.clear();
        let identity = gone.identity();
        self.send_to_others(identity, Arc::new(info), urgency, roster, deadlines, outbox);
    }

    fn send_to_others(
        &mut self,
        identity: &Identity,
        info: Arc<ParticipantInfo>,
        urgency: Urgency,
        roster: &Roster,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let clients = roster.present_clients().count();
        // Without receivers there is nothing to send or delay: a later client gets the current state with its join.
        if clients == 0 {
            return;
        }
        let reading = deadlines.reading();
        let due = self.0.push(identity, info, urgency, clients, reading);
        self.send(due, roster, deadlines, outbox);
    }

    /// Sends the updates of the past interval in one batch.
    pub fn end_interval(
        &mut self,
        roster: &Roster,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        let due = self.0.end_interval(deadlines.reading());
        self.send(due, roster, deadlines, outbox);
    }

    /// Sends what is due, and updates the batch's deadline.
    fn send(
        &self,
        due: Vec<ParticipantInfos>,
        roster: &Roster,
        deadlines: &mut Deadlines,
        outbox: &mut Outbox,
    ) {
        // Unchanged in most calls.
        if deadlines.get(&Deadline::Updates) != self.0.until {
            deadlines.set(Deadline::Updates, self.0.until);
        }
        for infos in due {
            // A participant has received its own state already. In a larger batch, its session leaves it out.
            let alone = match &*infos {
                [info] => Some(info.sid.as_str()),
                _ => None,
            };
            for to in roster.present_clients() {
                if alone != Some(to.as_str()) {
                    outbox.notify(to, ClientNotice::ParticipantsChanged(Arc::clone(&infos)));
                }
            }
        }
    }
}

impl UpdateBatch {
    /// Adds an update in a room with this many clients. Returns the messages to send now.
    pub fn push(
        &mut self,
        identity: &Identity,
        info: Arc<ParticipantInfo>,
        urgency: Urgency,
        clients: usize,
        reading: Duration,
    ) -> Vec<ParticipantInfos> {
        let waits = urgency == Urgency::CanWait && clients > LARGE_ROOM;
        let before = self.waiting.remove(identity);
        // Within one join, the latest state suffices. An earlier join's state must precede it: clients identify
        // participants by identity, and would otherwise treat the new join as gone.
        let mut sent: Vec<_> = before
            .filter(|before| before.sid != info.sid)
            .into_iter()
            .collect();
        if waits && sent.is_empty() && self.until.is_some() {
            self.waiting.insert(identity.clone(), info);
            // Bounds memory if participants come and go faster than intervals pass.
            return if self.waiting.len() > MAX_WAITING {
                self.take()
            } else {
                Vec::new()
            };
        }
        // The first update after a quiet interval is sent now and starts the next interval.
        if waits {
            self.until.get_or_insert(reading + INTERVAL);
        }
        sent.push(info);
        in_messages(sent)
    }

    /// Ends the interval. Returns the delayed updates. If there are none, the next update is sent immediately.
    pub fn end_interval(&mut self, reading: Duration) -> Vec<ParticipantInfos> {
        // The interval starts again only if updates were delayed, so that a quiet room sends its next one immediately.
        self.until = (!self.waiting.is_empty()).then(|| reading + INTERVAL);
        self.take()
    }

    fn take(&mut self) -> Vec<ParticipantInfos> {
        in_messages(std::mem::take(&mut self.waiting).into_values().collect())
    }
}

/// Splits participants into messages of limited size.
fn in_messages(infos: Vec<Arc<ParticipantInfo>>) -> Vec<ParticipantInfos> {
    let (mut messages, mut message, mut bytes) = (Vec::new(), Vec::new(), 0);
    for info in infos {
        // A single participant may exceed the limit: its message then contains nothing else.
        let length = info.encoded_len();
        if !message.is_empty() && bytes + length > MESSAGE_BYTES {
            messages.push(std::mem::take(&mut message).into());
            bytes = 0;
        }
        bytes += length;
        message.push(info);
    }
    if !message.is_empty() {
        messages.push(message.into());
    }
    messages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LARGE: usize = LARGE_ROOM + 1;

    fn info(identity: &str, sid: &str, version: u32, state: State) -> Arc<ParticipantInfo> {
        let (identity, sid, state) = (identity.to_owned(), sid.to_owned(), state.into());
        Arc::new(ParticipantInfo {
            identity,
            sid,
            version,
            state,
            ..ParticipantInfo::default()
        })
    }

    fn identity(of: &ParticipantInfo) -> Identity {
        of.identity.parse().unwrap()
    }

    fn push(
        batch: &mut UpdateBatch,
        info: Arc<ParticipantInfo>,
        urgency: Urgency,
        clients: usize,
    ) -> Vec<u32> {
        versions(&batch.push(&identity(&info), info, urgency, clients, Duration::ZERO))
    }

    fn versions(messages: &[ParticipantInfos]) -> Vec<u32> {
        messages
            .iter()
            .flat_map(|infos| infos.iter())
            .map(|info| info.version)
            .collect()
    }

    #[test]
    fn in_a_small_room_nothing_waits() {
        let mut batch = UpdateBatch::default();
        for version in 0..10 {
            let sent = push(
                &mut batch,
                info("alice", "PA_1", version, State::Active),
                Urgency::CanWait,
                LARGE_ROOM,
            );
            assert_eq!(sent, [version]);
        }
        assert_eq!(batch.until, None);
    }

    #[test]
    fn in_a_large_room_the_first_update_is_sent_at_once_and_later_ones_once_per_participant() {
        let mut batch = UpdateBatch::default();
        let alice = |version| info("alice", "PA_1", version, State::Active);
        assert_eq!(push(&mut batch, alice(1), Urgency::CanWait, LARGE), [1]);
        assert_eq!(batch.until, Some(INTERVAL));
        for (name, version) in [("alice", 2), ("bob", 10), ("alice", 3)] {
            let sid = format!("PA_{name}");
            let sid = if name == "alice" { "PA_1" } else { &sid };
            assert!(
                push(
                    &mut batch,
                    info(name, sid, version, State::Active),
                    Urgency::CanWait,
                    LARGE
                )
                .is_empty()
            );
        }
        assert_eq!(versions(&batch.end_interval(INTERVAL)), [3, 10]);
        assert!(
            push(&mut batch, alice(4), Urgency::CanWait, LARGE).is_empty(),
            "the next interval has begun"
        );
        assert_eq!(versions(&batch.end_interval(2 * INTERVAL)), [4]);
        assert!(batch.end_interval(3 * INTERVAL).is_empty());
        assert_eq!(push(&mut batch, alice(5), Urgency::CanWait, LARGE), [5]);
    }

    #[test]
    fn an_update_about_media_is_sent_at_once_and_replaces_a_delayed_one() {
        let mut batch = UpdateBatch::default();
        push(
            &mut batch,
            info("bob", "PA_2", 1, State::Active),
            Urgency::CanWait,
            LARGE,
        );
        assert!(
            push(
                &mut batch,
                info("alice", "PA_1", 1, State::Active),
                Urgency::CanWait,
                LARGE
            )
            .is_empty()
        );
        assert_eq!(
            push(
                &mut batch,
                info("alice", "PA_1", 2, State::Active),
                Urgency::Immediate,
                LARGE
            ),
            [2]
        );
        assert!(batch.end_interval(INTERVAL).is_empty());
    }

    #[test]
    fn of_two_joins_with_one_identity_the_end_of_the_first_comes_before_the_second() {
        let mut batch = UpdateBatch::default();
        push(
            &mut batch,
            info("bob", "PA_2", 1, State::Active),
            Urgency::CanWait,
            LARGE,
        );
        // In either case, the end of the earlier join must come first.
        for urgency in [Urgency::CanWait, Urgency::Immediate] {
            assert!(
                push(
                    &mut batch,
                    info("alice", "PA_1", 7, State::Disconnected),
                    Urgency::CanWait,
                    LARGE
                )
                .is_empty()
            );
            assert_eq!(
                push(
                    &mut batch,
                    info("alice", "PA_3", 1, State::Active),
                    urgency,
                    LARGE
                ),
                [7, 1]
            );
        }
    }

    #[test]
    fn a_message_has_a_bounded_length_and_so_has_what_waits() {
        let mut batch = UpdateBatch::default();
        // Two of these fit into a message.
        let large = |at: u32| {
            let metadata = "m".repeat(MESSAGE_BYTES / 2 - 1_000);
            Arc::new(ParticipantInfo {
                metadata,
                ..(*info(&format!("p{at}"), "PA_1", at, State::Active)).clone()
            })
        };
        (0..6).for_each(|at| drop(push(&mut batch, large(at), Urgency::CanWait, LARGE)));
        let lengths: Vec<_> = batch
            .end_interval(INTERVAL)
            .iter()
            .map(|infos| infos.len())
            .collect();
        assert_eq!(lengths, [2, 2, 1]);
        let mut sent = Vec::new();
        for at in 0..=u32::try_from(MAX_WAITING).unwrap() {
            sent = push(
                &mut batch,
                info(&format!("p{at}"), "PA_1", at, State::Active),
                Urgency::CanWait,
                LARGE,
            );
        }
        assert_eq!(sent.len(), MAX_WAITING + 1);
    }

    /// Step of the property test, about the participant with this number.
    #[derive(Debug, Clone)]
    enum BatchStep {
        /// The participant changes or joins.
        Change(usize, Urgency),
        /// The participant leaves, if it is in the room.
        Leave(usize, Urgency),
        /// The interval is over.
        Interval,
    }

    fn step() -> impl Strategy<Value = BatchStep> {
        let urgency = || prop_oneof![3 => Just(Urgency::CanWait), 1 => Just(Urgency::Immediate)];
        prop_oneof![
            6 => (0..4_usize, urgency()).prop_map(|(index, urgency)| BatchStep::Change(index, urgency)),
            3 => (0..4_usize, urgency()).prop_map(|(index, urgency)| BatchStep::Leave(index, urgency)),
            1 => Just(BatchStep::Interval),
        ]
    }

    /// A client, as LiveKit's SDK for browsers takes updates.
    #[derive(Default)]
    struct Receiver {
        known: BTreeMap<String, (String, u32)>,
        last_versions: BTreeMap<String, u32>,
    }

    impl Receiver {
        fn take(&mut self, messages: Vec<ParticipantInfos>) -> Result<(), TestCaseError> {
            for info in messages.iter().flat_map(|infos| infos.iter()) {
                let last = self.last_versions.entry(info.sid.clone()).or_default();
                prop_assert!(info.version >= *last, "{info:?} after {last}");
                *last = info.version;
                if info.state() == State::Disconnected {
                    // Clients identify participants by identity here, whichever join it belongs to.
                    let known = self.known.remove(&info.identity);
                    prop_assert!(
                        known.is_none_or(|(sid, _)| sid == info.sid),
                        "a later join is taken for gone"
                    );
                } else {
                    self.known
                        .insert(info.identity.clone(), (info.sid.clone(), info.version));
                }
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn no_version_goes_backwards_and_nothing_is_lost(
            steps in prop::collection::vec((step(), prop_oneof![Just(LARGE), Just(LARGE_ROOM)]), 0..200),
        ) {
            let (mut batch, mut receiver) = (UpdateBatch::default(), Receiver::default());
            let mut present: BTreeMap<String, (String, u32)> = BTreeMap::new();
            let (mut joins, mut reading) = (0, Duration::ZERO);
            for (step, clients) in steps {
                let pushed = match step {
                    BatchStep::Change(index, urgency) => {
                        let name = format!("p{index}");
                        let (sid, version) = present.entry(name.clone()).or_insert_with(|| {
                            joins += 1;
                            (format!("PA_{joins}"), 0)
                        });
                        *version += 1;
                        Some((info(&name, sid, *version, State::Active), urgency))
                    }
                    BatchStep::Leave(index, urgency) => {
                        let name = format!("p{index}");
                        present.remove(&name).map(|(sid, version)| (info(&name, &sid, version + 1, State::Disconnected), urgency))
                    }
                    BatchStep::Interval => {
                        reading += INTERVAL;
                        receiver.take(batch.end_interval(reading))?;
                        None
                    }
                };
                if let Some((info, urgency)) = pushed {
                    receiver.take(batch.push(&identity(&info), info, urgency, clients, reading))?;
                }
                prop_assert!(batch.waiting.is_empty() || batch.until.is_some(), "what waits is sent");
                prop_assert!(batch.waiting.len() <= 4);
            }
            receiver.take(batch.end_interval(reading + INTERVAL))?;
            prop_assert_eq!(receiver.known, present);
        }
    }
}
