//! How a room actor mends what lost reports left: asks the media plane who is there and what they publish, and holds that
//! against the records.

use std::sync::Arc;
use std::time::Duration;

use conclave_media::{MediaError, ReportError};
use conclave_model::event::{ParticipantRef, TrackSummary};
use conclave_model::participant::{Participant, ParticipantState};
use conclave_model::{ParticipantSid, Timestamp};

use super::state::RoomState;
use super::{RoomActor, RoomMsg};
use crate::mailbox::Mailbox;
use crate::project::ProjectMsg;
use crate::system::SystemMsg;

/// How long a join may be on its way into the media plane after it was written.
const JOIN_GRACE: Duration = Duration::from_secs(5);

/// Somebody's track that has not ended.
type OpenTrack = (ParticipantSid, TrackSummary);

/// What the media plane says of a room, and what the records said when it was asked.
#[derive(Debug)]
pub struct RoomObservation {
    /// Who was in the records.
    known: Vec<ParticipantSid>,
    /// Which tracks were.
    tracks: Vec<OpenTrack>,
    /// Who is there.
    people: Vec<Participant>,
}

/// A report about a track that must have been lost.
#[derive(Debug, PartialEq, Eq)]
enum Missed {
    Published(TrackSummary),
    Unpublished(TrackSummary),
    Muted(TrackSummary),
}

/// What was missed of somebody's tracks. One that is not in the records may have ended in the meantime; writing it again
/// changes nothing then.
fn missed(known: &[OpenTrack], seen: &Participant) -> Vec<Missed> {
    let open = || known.iter().filter(|(sid, _)| *sid == seen.sid).map(|(_, track)| track);
    let gone = open().filter(|track| seen.tracks.iter().all(|t| t.sid != track.sid)).cloned();
    let found = seen.tracks.iter().map(TrackSummary::from).filter_map(|track| {
        match open().find(|known| known.sid == track.sid) {
            None => Some(Missed::Published(track)),
            Some(known) if known.muted != track.muted => Some(Missed::Muted(track)),
            Some(_) => None,
        }
    });
    gone.map(Missed::Unpublished).chain(found).collect()
}

impl RoomActor {
    /// Asks the media plane who is in the room; the answer comes back as a message, by the way that reports come: one that
    /// the plane had sent before it answered must not be overtaken, or a goodbye would be taken for a lost connection.
    pub(super) fn ask_media(&self, state: &RoomState) {
        let now = self.context.clock.now();
        // A join is written before the media plane lets it in: one that is being let in is not missing.
        let settled = |joined_at: Timestamp| joined_at <= self.info.started_at() || joined_at.after(JOIN_GRACE) <= now;
        let known = state.people.iter().filter(|p| settled(p.joined_at)).map(|p| p.sid.clone()).collect();
        let (context, system) = (Arc::clone(&self.context), self.system.clone());
        let (id, room) = (state.room.id, state.room.namespaced_name());
        tokio::spawn(async move {
            // Before the plane is asked: a track that ends in between is no loss.
            let tracks = context.store.open_tracks(id).await;
            let tracks = tracks.map_err(|error| MediaError::Unavailable(error.to_string()));
            let seen = match tracks {
                Ok(tracks) => {
                    context.media.participants(&room).await.map(|people| RoomObservation { known, tracks, people })
                }
                Err(error) => Err(error),
            };
            match seen {
                Ok(seen) => {
                    let (project, name) = room.split();
                    let message = Box::new(ProjectMsg::ToRoom { name, message: RoomMsg::Observed(Box::new(seen)) });
                    let _ = system.cast(SystemMsg::ToProject { project, message });
                }
                Err(error) => log::warn!(room = room.as_str(); "a room could not be reconciled: {error}"),
            }
        });
    }

    /// Repairs what reports lost: closes the sessions of who is gone, writes the joins that were missed, and the tracks. Who
    /// came or left since the question was asked is left to its own report.
    pub(super) async fn repair(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState, seen: RoomObservation) {
        if !state.is_open() {
            return;
        }
        let RoomObservation { known, tracks, people } = seen;
        let gone = known.iter().filter(|sid| people.iter().all(|person| person.sid != **sid)).cloned().collect();
        self.close_lost(me, state, gone).await;
        if !people.is_empty() {
            self.resend_subscription_rules(state).await;
        }
        // A join that has not completed may still fail; its own report says which.
        let inside = |person: &Participant| person.state == ParticipantState::Active && person.kind.makes_session();
        for person in people.into_iter().filter(inside) {
            let missed = missed(&tracks, &person);
            let who = ParticipantRef::from(&person);
            if !known.contains(&person.sid) && !state.has(&person.sid) {
                self.admit_missed(me, state, person).await;
            }
            self.write_missed(state, &who, missed).await;
        }
    }

    /// A plane apart from us keeps people in a room while we start anew, and was told its rules by whom we replaced; and its
    /// clients may have found a way around them.
    async fn resend_subscription_rules(&self, state: &RoomState) {
        let said = match self.context.store.room_roles(state.room.template_id.clone()).await {
            Ok(roles) => self.set_subscription_rules(state, &roles).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = said {
            log::warn!(room = state.room.namespaced_name().as_str(); "subscription rules were not said again: {error}");
        }
    }

    async fn close_lost(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState, lost: Vec<ParticipantSid>) {
        if lost.is_empty() {
            return;
        }
        match self.context.store.record_lost(state.room.id, lost, self.context.clock.now()).await {
            Ok(left) => self.apply_leave(me, state, left),
            Err(error) => log::error!("lost participants could not be written: {error}"),
        }
    }

    /// Somebody is inside whose join was not heard of. Whoever would not have been let in goes again.
    async fn admit_missed(&self, me: &Mailbox<RoomMsg>, state: &mut RoomState, person: Participant) {
        let at = person.joined_at.unwrap_or_else(|| self.context.clock.now());
        let (sid, room) = (person.sid.clone(), state.room.namespaced_name());
        // Any other refusal has been logged; the next round asks again.
        if self.admit(me, state, person, at).await == Err(ReportError::RoleFull)
            && let Err(error) = self.context.media.remove_participant(&room, &sid).await
        {
            log::warn!(room = room.as_str(); "somebody too many could not be removed: {error}");
        }
    }

    async fn write_missed(&self, state: &RoomState, who: &ParticipantRef, missed: Vec<Missed>) {
        let (store, room, at) = (&self.context.store, state.room.id, self.context.clock.now());
        for report in missed {
            let written = match report {
                Missed::Published(track) => store.record_track(room, who.clone(), track, true, at).await,
                Missed::Unpublished(track) => store.record_track(room, who.clone(), track, false, at).await,
                Missed::Muted(track) => store.record_track_muted(room, who.sid.clone(), track).await,
            };
            if let Err(error) = written {
                log::error!(room = state.room.namespaced_name().as_str(); "a track could not be written: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_model::participant::{ParticipantKind, Track, TrackKind, TrackSource};

    use super::*;

    fn track(sid: &str, muted: bool) -> Track {
        Track {
            sid: sid.parse().unwrap(),
            kind: TrackKind::Audio,
            source: TrackSource::Microphone,
            muted,
            name: None,
            width: None,
            height: None,
            simulcast: None,
            mime_type: None,
        }
    }

    fn person(tracks: Vec<Track>) -> Participant {
        Participant {
            sid: "PA_1".parse().unwrap(),
            identity: "alice".parse().unwrap(),
            name: String::new(),
            state: ParticipantState::Active,
            kind: ParticipantKind::Standard,
            metadata: String::new(),
            attributes: std::collections::BTreeMap::new(),
            is_publisher: !tracks.is_empty(),
            joined_at: None,
            tracks,
        }
    }

    #[test]
    fn what_was_missed_of_somebodys_tracks_is_what_differs() {
        let facts = |sid: &str, muted| TrackSummary::from(&track(sid, muted));
        let of = |who: &str, sid: &str, muted| (who.parse().unwrap(), facts(sid, muted));
        let known = [of("PA_1", "a", false), of("PA_1", "b", false), of("PA_1", "c", true), of("PA_2", "d", false)];
        let seen = person(vec![track("a", false), track("b", true), track("e", false)]);
        let expected = [
            Missed::Unpublished(facts("c", true)),
            Missed::Muted(facts("b", true)),
            Missed::Published(facts("e", false)),
        ];
        assert_eq!(missed(&known, &seen), expected);
        assert_eq!(missed(&known[..1], &person(vec![track("a", false)])), []);
    }
}
