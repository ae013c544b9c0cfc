//! Reconciliation of a room: compares its participants and tracks on the media plane with the records, and repairs the effects of lost
//! reports.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conclave_db::OpenTrack;
use conclave_media::{MediaError, ReportError};
use conclave_model::event::{ParticipantRef, TrackChange, TrackSummary};
use conclave_model::participant::{Participant, ParticipantState};
use conclave_model::{NamespacedRoom, ParticipantSid, RoomId, Timestamp};

use super::LiveRoom;
use super::join::{JoinSource, refuse_excluded};
use super::message::{RoomMsg, RoomObservation};
use crate::context::ActorContext;
use crate::mailbox::Timer;

/// Time that a join may take to complete on the media plane after it was written.
const JOIN_GRACE: Duration = Duration::from_secs(5);
/// Time that the media plane may still list a participant after its leave was written.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// Lost report about a track.
#[derive(Debug, PartialEq, Eq)]
enum MissedReport {
    Published(TrackSummary),
    Unpublished(TrackSummary),
    Muted(TrackSummary),
}

/// Returns the lost reports about a participant's tracks. A track that is missing in the records may have ended in the meantime; then
/// writing it again changes nothing.
fn missed_reports(known: &[OpenTrack], seen: &Participant) -> Vec<MissedReport> {
    let open = || {
        known
            .iter()
            .filter(|open| open.participant == seen.sid)
            .map(|open| &open.track)
    };
    // Ends before starts: a track that is published again has another sid.
    let gone = open()
        .filter(|track| seen.tracks.iter().all(|t| t.sid != track.sid))
        .cloned();
    let found = seen
        .tracks
        .iter()
        .map(TrackSummary::from)
        .filter_map(|track| match open().find(|known| known.sid == track.sid) {
            None => Some(MissedReport::Published(track)),
            Some(known) if known.muted != track.muted => Some(MissedReport::Muted(track)),
            Some(_) => None,
        });
    gone.map(MissedReport::Unpublished).chain(found).collect()
}

/// Reads the open tracks, then queries the media plane, so that a track that ends in between is not taken for lost.
async fn observe(
    context: &ActorContext,
    id: RoomId,
    room: &NamespacedRoom,
    known: Vec<ParticipantSid>,
    asked_at: Timestamp,
) -> Result<RoomObservation, MediaError> {
    let (project, _) = room.split();
    let tracks = context
        .store
        .tracks()
        .list_open(project, id)
        .await
        // Logged like an unavailable media plane: in both cases the next reconciliation repeats it.
        .map_err(|error| MediaError::Unavailable(error.to_string()))?;
    let participants = context.media.participants(room).await?;
    Ok(RoomObservation {
        asked_at,
        known,
        tracks,
        participants,
    })
}

impl LiveRoom {
    /// Queries the media plane for the room's participants, in a spawned task. The reply takes the report path: if it overtook an
    /// earlier one, a clean leave would be written as a lost connection.
    pub(super) fn observe(&mut self) {
        let now = self.context.clock.now();
        // In case the media plane does not reply this time.
        self.ask_again_about_absences(now.after(self.context.media.absence_grace()));
        // A join is written before it completes on the media plane, so a recent one may still be missing there.
        let known = self
            .roster
            .settled(self.context.clock.monotonic(), JOIN_GRACE);
        let (context, path) = (Arc::clone(&self.context), self.path.clone());
        let (id, room) = (self.roster.room().id, self.name.clone());
        tokio::spawn(async move {
            match observe(&context, id, &room, known, now).await {
                Ok(observation) => path.send(RoomMsg::Observed(Box::new(observation))),
                Err(error) => {
                    log::warn!(room = room.as_str(); "a room could not be reconciled: {error}");
                }
            }
        });
    }

    /// Closes the sessions of participants that are gone, and writes joins and tracks whose reports were lost. Participants that joined or
    /// left after the query are left to their own reports. A list may be wrong: a participant has to be absent for the media plane's grace
    /// period, and the session of a participant that is listed again is reopened.
    pub(super) async fn repair(&mut self, observation: RoomObservation) {
        let RoomObservation {
            asked_at,
            known,
            tracks,
            participants,
        } = observation;
        // Only joins that had time to complete: a newer one may be missing for a good reason.
        let gone = known
            .iter()
            .filter(|sid| participants.iter().all(|seen| seen.sid != **sid))
            .cloned()
            .collect();
        let grace = self.context.media.absence_grace();
        // A single list is not enough, since it may be wrong.
        let lost = self.absences.record(gone, asked_at, grace);
        let verdict_at = self.absences.next_verdict(grace).unwrap_or(asked_at);
        self.ask_again_about_absences(verdict_at);
        // Leaves first, since a full role may become free for a join below.
        self.close_lost(lost).await;
        let mut participants = participants;
        if !participants.is_empty() {
            self.resend_subscription_rules().await;
            participants = self.remove_excluded(participants).await;
        }
        // A join that has not completed may still fail, which its own report will show.
        let joined = |seen: &Participant| {
            seen.state == ParticipantState::Active && seen.kind.makes_session()
        };
        for participant in participants.into_iter().filter(joined) {
            let missed = missed_reports(&tracks, &participant);
            let who = ParticipantRef::from(&participant);
            // After the query it may have been reported, which has a session by now.
            if !known.contains(&participant.sid) && !self.roster.has_session(&participant.sid) {
                self.admit_missed(participant, asked_at).await;
            }
            self.write_missed(&who, missed).await;
        }
    }

    /// Arms the timer for the next query if a participant is absent, so that the query follows right after the grace period, and not with
    /// the next regular reconciliation.
    fn ask_again_about_absences(&mut self, at: Timestamp) {
        let absent = self.absences.next_verdict(Duration::ZERO);
        self.absence_timer = absent.map(|_| {
            Timer::arm(
                &self.context.clock,
                "absence",
                at,
                &self.me,
                RoomMsg::Reconcile,
            )
        });
    }

    /// Sends the subscription rules to the media plane again. A media plane in another process keeps participants connected while this
    /// server restarts, and its clients may have found a way around the rules.
    async fn resend_subscription_rules(&self) {
        let room = self.roster.room();
        let (project, template) = (room.project_id.clone(), room.template_id.clone());
        let sent = match self.context.store.rooms().roles(project, template).await {
            Ok(roles) => self
                .send_subscription_rules(&roles)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = sent {
            log::warn!(room = self.name.as_str(); "subscription rules were not sent again: {error}");
        }
    }

    /// Closes the sessions of participants that are no longer on the media plane. Sessions interrupted by a crash, together with a media
    /// plane in the same process, end at the last heartbeat before it.
    async fn close_lost(&mut self, lost: Vec<ParticipantSid>) {
        let (store, record) = (&self.context.store, self.roster.room());
        let (project, room) = (&record.project_id, record.id);
        let crash = store
            .server()
            .crash()
            // A media plane in another process has kept its participants, so they left by themselves.
            .filter(|_| !self.context.media.outlives_server());
        // Only sessions from before the crash. Others were lost while this server ran.
        let is_interrupted = |sid: &ParticipantSid| {
            crash.is_some_and(|crash| self.roster.joined_before(sid, crash.restarted_at))
        };
        let (interrupted, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(is_interrupted);
        let mut written = Vec::new();
        if let Some(crash) = crash.filter(|_| !interrupted.is_empty()) {
            written.push(
                store
                    .sessions()
                    .record_interrupted(project.clone(), room, interrupted, crash.last_heartbeat)
                    .await,
            );
        }
        if !lost.is_empty() {
            written.push(
                store
                    .sessions()
                    .record_lost(project.clone(), room, lost, self.context.clock.now())
                    .await,
            );
        }
        // Applied one by one, so that the empty timer follows from the last one.
        for left in written {
            match left {
                Ok(left) => self.apply_leave(left),
                Err(error) => log::error!("lost participants could not be written: {error}"),
            }
        }
    }

    /// Writes a join whose report was lost, or reopens a session that was closed some time before the query. A participant whose join would
    /// have been refused is removed.
    async fn admit_missed(&mut self, participant: Participant, asked_at: Timestamp) {
        let join = JoinSource::Listed {
            left_before: asked_at.before(LEAVE_GRACE),
        };
        let (sid, room) = (participant.sid.clone(), self.name.clone());
        // Any other error is already logged, and the next reconciliation tries again.
        let admitted = self.record_join(participant, join).await;
        if matches!(
            admitted,
            Err(ReportError::RoleFull
                | ReportError::RoleRemoved
                | ReportError::Banned
                | ReportError::TokenRevoked)
        ) {
            self.remove_refused(&room, &sid).await;
        }
    }

    /// Removes participants that are banned, or whose tokens were revoked, and returns the others. The media plane may have been
    /// unavailable at the time of the ban.
    async fn remove_excluded(&self, participants: Vec<Participant>) -> Vec<Participant> {
        let room = self.roster.room();
        let exclusions = self
            .context
            .store
            .bans()
            .exclusions(room.project_id.clone(), room.id)
            .await
            .unwrap_or_else(|error| {
                log::error!(room = self.name.as_str(); "bans could not be read: {error}");
                HashMap::new()
            });
        let mut others = Vec::with_capacity(participants.len());
        for participant in participants {
            let exclusion = exclusions
                .get(&participant.identity)
                .copied()
                .unwrap_or_default();
            // Only with a session: other participants are refused when their join is written.
            let is_excluded = self.roster.has_session(&participant.sid)
                && refuse_excluded(&participant, exclusion).is_err();
            if is_excluded {
                self.remove_refused(&self.name, &participant.sid).await;
            } else {
                others.push(participant);
            }
        }
        others
    }

    /// Disconnects a participant that may not be in the room. If that fails, the next reconciliation repeats it.
    async fn remove_refused(&self, room: &NamespacedRoom, sid: &ParticipantSid) {
        if let Err(error) = self.context.media.remove_participant(room, sid).await {
            log::warn!(room = room.as_str(); "a participant that may not be in the room could not be removed: {error}");
        }
    }

    async fn write_missed(&self, who: &ParticipantRef, missed: Vec<MissedReport>) {
        // Repeated reports change nothing, so an error here is repaired by the next reconciliation.
        let (store, room, at) = (
            &self.context.store,
            self.roster.room().id,
            self.context.clock.now(),
        );
        for report in missed {
            let project = self.roster.room().project_id.clone();
            let written = match report {
                MissedReport::Published(track) => {
                    store
                        .tracks()
                        .record(
                            project,
                            room,
                            who.clone(),
                            track,
                            TrackChange::Published,
                            at,
                        )
                        .await
                }
                MissedReport::Unpublished(track) => {
                    store
                        .tracks()
                        .record(
                            project,
                            room,
                            who.clone(),
                            track,
                            TrackChange::Unpublished,
                            at,
                        )
                        .await
                }
                MissedReport::Muted(track) => {
                    store
                        .tracks()
                        .record_muted(project, room, who.sid.clone(), track)
                        .await
                }
            };
            if let Err(error) = written {
                log::error!(room = self.name.as_str(); "a track could not be written: {error}");
            }
        }
    }
}

/// Participants missing in the last list, each with the time of the first list in a row that lacked it.
#[derive(Debug, Default)]
pub(super) struct Absences(HashMap<ParticipantSid, Timestamp>);

impl Absences {
    /// Records the participants missing in a list of the time `at`. Returns the participants that have been absent for at least `grace`,
    /// and forgets absences that are over.
    pub fn record(
        &mut self,
        absent: Vec<ParticipantSid>,
        at: Timestamp,
        grace: Duration,
    ) -> Vec<ParticipantSid> {
        let before = std::mem::take(&mut self.0);
        let mut lost = Vec::new();
        for sid in absent {
            // The earlier absence may be later than `at` if the clock was set back.
            let since = before.get(&sid).map_or(at, |since| at.min(*since));
            if since.after(grace) <= at {
                lost.push(sid);
            } else {
                self.0.insert(sid, since);
            }
        }
        lost
    }

    /// Returns when the longest absence reaches `grace`; `None` if no participant is absent.
    pub fn next_verdict(&self, grace: Duration) -> Option<Timestamp> {
        self.0.values().min().map(|since| since.after(grace))
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

    fn participant(tracks: Vec<Track>) -> Participant {
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
    fn missed_track_reports_are_the_differences_between_records_and_media_plane() {
        let facts = |sid: &str, muted| TrackSummary::from(&track(sid, muted));
        let of = |participant: &str, sid: &str, muted| OpenTrack {
            participant: participant.parse().unwrap(),
            track: facts(sid, muted),
        };
        let known = [
            of("PA_1", "a", false),
            of("PA_1", "b", false),
            of("PA_1", "c", true),
            of("PA_2", "d", false),
        ];
        let seen = participant(vec![track("a", false), track("b", true), track("e", false)]);
        let expected = [
            MissedReport::Unpublished(facts("c", true)),
            MissedReport::Muted(facts("b", true)),
            MissedReport::Published(facts("e", false)),
        ];
        assert_eq!(missed_reports(&known, &seen), expected);
        assert_eq!(
            missed_reports(&known[..1], &participant(vec![track("a", false)])),
            []
        );
    }

    const GRACE: Duration = Duration::from_millis(10);

    fn record(absences: &mut Absences, absent: &[&str], at: i64, grace: Duration) -> Vec<String> {
        let absent = absent.iter().map(|sid| sid.parse().unwrap()).collect();
        let lost = absences.record(absent, Timestamp::from_millis(at), grace);
        lost.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_participant_is_lost_when_two_lists_in_a_row_lack_it_that_are_far_enough_apart() {
        let mut absences = Absences::default();
        assert!(record(&mut absences, &["PA_1"], 0, GRACE).is_empty());
        assert!(
            record(&mut absences, &["PA_1", "PA_2"], 9, GRACE).is_empty(),
            "the lists are too close"
        );
        assert_eq!(
            absences.next_verdict(GRACE),
            Some(Timestamp::from_millis(10))
        );
        assert_eq!(
            record(&mut absences, &["PA_1", "PA_2"], 10, GRACE),
            ["PA_1"]
        );
        assert_eq!(
            absences.next_verdict(GRACE),
            Some(Timestamp::from_millis(19))
        );
        assert!(record(&mut absences, &[], 20, GRACE).is_empty());
        assert_eq!(absences.next_verdict(GRACE), None);
        assert!(
            record(&mut absences, &["PA_2"], 30, GRACE).is_empty(),
            "the participant was listed in between"
        );
        assert_eq!(record(&mut absences, &["PA_2"], 40, GRACE), ["PA_2"]);
    }

    #[test]
    fn an_absence_that_a_clock_ahead_recorded_counts_from_the_next_list() {
        let mut absences = Absences::default();
        assert!(record(&mut absences, &["PA_1"], 1_000, GRACE).is_empty());
        assert!(record(&mut absences, &["PA_1"], 0, GRACE).is_empty());
        assert_eq!(record(&mut absences, &["PA_1"], 10, GRACE), ["PA_1"]);
    }

    #[test]
    fn without_a_grace_the_first_absence_counts() {
        assert_eq!(
            record(&mut Absences::default(), &["PA_1"], 0, Duration::ZERO),
            ["PA_1"]
        );
    }
}
