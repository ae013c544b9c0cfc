//! Rooms on several workers: mirrors join, change and leave, and workers exchange notices. [`notice`](crate::notice)
//! describes their order.

use conclave_model::{NamespacedRoom, ParticipantSid, TrackSid};

use super::Worker;
use super::roster::Peer;
use super::shared_room::{BufferedCommand, Neighbour, SharedRoom};
use super::tracks::PublishedTrack;
use crate::codec::Codec;
use crate::command::NewPeer;
use crate::mirror::WorkerId;
use crate::notice::{Instruction, Notice, PeerState, Share, SharingId, StreamName};
use crate::track::NewTrack;
use crate::transport::{PeerKey, RoomKey, TrackKey, TransportKey};

impl Worker {
    /// Shares a room with other workers, and sends them its participants if they do not know them.
    pub(super) fn share_room(&mut self, name: &NamespacedRoom, share: Share) {
        let key = self.roster.open_room(name);
        let Some(room) = self.roster.room_mut(key) else {
            return;
        };
        let new = || Box::new(SharedRoom::new(share.sharing, share.worker));
        let shared = room.shared.get_or_insert_with(new);
        let new: Vec<_> = share.neighbours.iter().map(|new| new.worker).collect();
        for neighbour in share.neighbours {
            shared.add_neighbour(neighbour, !share.is_new);
        }
        // A new worker has no participants to introduce: its first participant's `AddPeer` is behind this instruction in the
        // queue.
        if share.is_new {
            room.reports_messages = share.reports_messages;
            return;
        }
        for worker in new {
            self.introduce_to(key, worker);
        }
    }

    /// Sends the participants on this worker to another worker.
    fn introduce_to(&mut self, room: RoomKey, worker: WorkerId) {
        for peer in self.roster.members(room) {
            if let Some(state) = self.peer_state(peer) {
                self.notify(room, worker, Notice::Peer(Box::new(state)));
            }
        }
        // Sent even without participants: the other worker discards its waiting commands then.
        self.notify(room, worker, Notice::AllPeers);
    }

    /// Returns a participant's state for mirrors; `None` if its media has failed.
    fn peer_state(&self, key: PeerKey) -> Option<PeerState> {
        let peer = self.roster.get(key).filter(|peer| !peer.has_failed)?;
        let mut published = peer.published.clone();
        // The receiver attaches backup codecs to their first codec, so that must exist.
        self.tracks.first_codecs_first(&mut published);
        let tracks = published.into_iter().filter_map(|key| self.tracks.get(key));
        let state = |track: &PublishedTrack| {
            // The publisher may have been muted since the announcement, and a backup codec withdrawn.
            let info = NewTrack {
                is_muted: track.is_muted,
                backup_codecs: track.backups.iter().map(|backup| backup.codec).collect(),
                ..track.info.clone()
            };
            (info, track.codec, rids(track))
        };
        let data_tracks = peer.data_tracks.iter();
        Some(PeerState {
            info: peer.info.clone(),
            announced: peer.announced.clone(),
            published: tracks.map(state).collect(),
            data_tracks: data_tracks
                .map(|(sid, handle, is_muted)| (sid.clone(), handle, is_muted))
                .collect(),
        })
    }

    /// Adds a participant that has joined on another worker.
    pub(super) fn add_mirror(&mut self, room: &NamespacedRoom, info: NewPeer, home: WorkerId) {
        if let Some(room) = self.roster.room_named(room) {
            self.roster.add_mirror(room, info, home, self.now);
        }
    }

    /// Queues a command for an unknown participant, if another worker may still announce it.
    pub(super) fn buffer_command(&mut self, room: RoomKey, command: BufferedCommand) {
        if let Some(shared) = self.roster.shared_mut(room) {
            shared.buffer(command);
        }
    }

    /// Handles a notice from another worker of the room.
    pub(super) fn handle_notice(
        &mut self,
        room: &NamespacedRoom,
        (from, sharing): (WorkerId, SharingId),
        notice: Notice,
    ) {
        let Some(room) = self.roster.room_named(room) else {
            return;
        };
        let shared = self.roster.shared(room);
        // The room may have been closed and opened again while the notice was on its way.
        if shared.is_none_or(|shared| shared.sharing() != sharing) {
            return;
        }
        match notice {
            Notice::Peer(state) => self.add_known_mirror(room, from, *state),
            Notice::AllPeers => {
                if let Some(shared) = self.roster.shared_mut(room) {
                    shared.mark_known(from);
                }
            }
            Notice::Published {
                stream,
                is_backup,
                rids,
            } => self.mirror_track(from, &stream, is_backup, &rids),
            // `mirror_of` ignores publishers that have meanwhile left, or joined again elsewhere.
            Notice::Ended { publisher, track } => {
                if let Some(key) = self.mirror_of(from, &publisher) {
                    self.unpublish_track(key, &track);
                }
            }
            Notice::BackupEnded(stream) => self.end_mirrored_backup(from, &stream),
            Notice::Failed(publisher) => {
                if let Some(key) = self.mirror_of(from, &publisher) {
                    if let Some(peer) = self.roster.get_mut(key) {
                        peer.has_failed = true;
                    }
                    self.disconnect_peer(key);
                }
            }
            Notice::Subscribed { publisher, track } => {
                // The publisher is on this worker; the subscriber is on the worker that sent the notice.
                let publisher = self.roster.by_sid(&publisher);
                let track = publisher.and_then(|publisher| self.track_of(publisher, &track));
                if let Some(track) = track {
                    self.record_subscription(track);
                }
            }
            Notice::Message {
                sender,
                kind,
                routed,
            } => self.deliver_from_neighbour(room, from, (&sender, kind), &routed),
            Notice::DataPacket { publisher, packet } => {
                self.record_arrival(room, from, packet.len());
                if let Some(key) = self.mirror_of(from, &publisher) {
                    self.forward_data_packet(key, packet.to_vec());
                }
            }
            Notice::CaughtUp => self.connections.record_catch_up(),
            Notice::Tap(..)
            | Notice::Untap(_)
            | Notice::KeyFrame { .. }
            | Notice::Used { .. }
            | Notice::Awaited { .. } => self.serve_mirror(from, notice),
        }
    }

    /// Returns a participant's mirror, if the participant is on that worker.
    pub(super) fn mirror_of(&self, home: WorkerId, sid: &ParticipantSid) -> Option<PeerKey> {
        let key = self.roster.by_sid(sid)?;
        let is_there = |peer: &&Peer| peer.home() == Some(home);
        self.roster.get(key).filter(is_there).map(|_| key)
    }

    /// Adds a participant from before the room was shared, and handles the commands that were queued for it.
    fn add_known_mirror(&mut self, room: RoomKey, home: WorkerId, state: PeerState) {
        let sid = state.info.sid.clone();
        let Some(key) = self.roster.add_mirror(room, state.info, home, self.now) else {
            return;
        };
        if let Some(peer) = self.roster.get_mut(key) {
            peer.announced = state.announced;
            for (track, handle, is_muted) in state.data_tracks {
                peer.data_tracks.publish(track.clone(), handle);
                peer.data_tracks.set_muted(&track, is_muted);
            }
        }
        // In the order of a normal join: first the tracks, then what the control side has changed since.
        for (info, codec, rids) in state.published {
            self.publish_mirror(key, info, codec, &rids);
        }
        let shared = self.roster.shared_mut(room);
        let commands = shared.map_or_else(Vec::new, |shared| shared.take_buffered(&sid));
        for BufferedCommand { peer, command, .. } in commands {
            if let Some(peer) = self.roster.by_sid(&peer) {
                self.handle_peer_command(peer, command);
            }
        }
    }

    /// Publishes another worker's track, unless it was withdrawn meanwhile.
    fn mirror_track(
        &mut self,
        from: WorkerId,
        stream: &StreamName,
        is_backup: bool,
        rids: &[String],
    ) {
        let Some(key) = self.mirror_of(from, &stream.publisher) else {
            return;
        };
        let Some(peer) = self.roster.get_mut(key) else {
            return;
        };
        // The announcement came from the control side, before the notice. If it is gone, so is the track.
        let is_named = |track: &NewTrack| {
            let has_codec = !is_backup || track.codec == Some(stream.codec);
            track.sid == stream.track && track.is_backup == is_backup && has_codec
        };
        if let Some(position) = peer.announced.iter().position(is_named) {
            let info = peer.announced.remove(position);
            self.publish_mirror(key, info, stream.codec, rids);
        }
    }

    fn end_mirrored_backup(&mut self, from: WorkerId, stream: &StreamName) {
        let Some(key) = self.mirror_of(from, &stream.publisher) else {
            return;
        };
        // The codec may have ended before it was ever sent.
        if let Some(peer) = self.roster.get_mut(key) {
            peer.withdraw_backup(&stream.track, stream.codec);
        }
        let is_ended = |key: &TrackKey| {
            let track = self.tracks.get(*key);
            track.is_some_and(|track| track.info.is_backup && track.codec == stream.codec)
        };
        let mut tracks = self.tracks_of(key, &stream.track).into_iter();
        if let Some(streams) = tracks.find(is_ended) {
            self.end_backup(streams);
        }
    }

    /// Announces a newly published track to the room's other workers.
    pub(super) fn share_track(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get(key) else {
            return;
        };
        let (publisher, is_backup) = (track.peer, track.info.is_backup);
        let (sid, codec, rids) = (track.sid.clone(), track.codec, rids(track));
        self.notify_neighbours(publisher, |publisher| Notice::Published {
            stream: StreamName {
                publisher,
                track: sid,
                codec,
            },
            is_backup,
            rids,
        });
    }

    /// Announces the end of a track or of a backup codec to the room's other workers, if no command from the control
    /// side caused it.
    pub(super) fn share_end(&mut self, publisher: PeerKey, sid: &TrackSid, backup: Option<Codec>) {
        let track = sid.clone();
        self.notify_neighbours(publisher, |publisher| match backup {
            Some(codec) => Notice::BackupEnded(StreamName {
                publisher,
                track,
                codec,
            }),
            None => Notice::Ended { publisher, track },
        });
    }

    /// Announces a participant's media failure to the room's other workers.
    pub(super) fn share_failure(&mut self, publisher: PeerKey) {
        self.notify_neighbours(publisher, Notice::Failed);
    }

    /// Sends a notice about a participant on this worker to all other workers of its room.
    fn notify_neighbours(&mut self, of: PeerKey, notice: impl FnOnce(ParticipantSid) -> Notice) {
        // Only the participant's own worker announces anything about it.
        let Some(peer) = self.roster.get(of).filter(|peer| peer.is_here()) else {
            return;
        };
        let (room, sid) = (peer.room, &peer.info.sid);
        let Some(shared) = self.roster.shared(room) else {
            return;
        };
        let notice = notice(sid.clone());
        let workers: Vec<_> = shared.neighbours().map(Neighbour::worker).collect();
        for worker in workers {
            self.notify(room, worker, notice.clone());
        }
    }

    /// Sends a notice to another worker of a room.
    pub(super) fn notify(&mut self, room: RoomKey, to: WorkerId, notice: Notice) {
        let Some(room) = self.roster.room(room) else {
            return;
        };
        if let Some(shared) = &room.shared {
            let notice = Instruction::Notice {
                from: shared.worker(),
                sharing: shared.sharing(),
                notice,
            };
            self.outputs.send_to_worker(to, room.name().clone(), notice);
        }
    }

    /// Counts a message that has arrived from another worker, and notifies its senders if they wait.
    pub(super) fn record_arrival(&mut self, room: RoomKey, from: WorkerId, bytes: usize) {
        let shared = self.roster.shared_mut(room);
        if shared.is_some_and(|shared| shared.record_arrival(from, bytes)) {
            self.notify(room, from, Notice::CaughtUp);
        }
    }

    /// Makes senders on another worker wait for slow receivers on this one.
    pub(super) fn await_slow(&mut self, room: RoomKey, from: WorkerId, slow: Vec<TransportKey>) {
        if let Some(shared) = self.roster.shared_mut(room) {
            shared.await_receivers(from, slow);
        }
        if !self.slow_rooms.contains(&room) {
            self.slow_rooms.push(room);
        }
    }

    /// Releases senders on other workers whose receivers have caught up.
    pub(super) fn release_neighbours(&mut self) {
        for room in std::mem::take(&mut self.slow_rooms) {
            let Some(shared) = self.roster.shared_mut(room) else {
                continue;
            };
            let connections = &self.connections;
            let released = shared.release(|receiver| connections.is_awaited(receiver));
            if shared.has_slow_receivers() {
                self.slow_rooms.push(room);
            }
            for worker in released {
                self.notify(room, worker, Notice::CaughtUp);
            }
        }
    }
}

/// Returns a track's RIDs.
fn rids(track: &PublishedTrack) -> Vec<String> {
    let rids = track.layers.iter().filter_map(|layer| layer.rid);
    rids.map(|rid| rid.to_string()).collect()
}
