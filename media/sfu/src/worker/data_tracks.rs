//! Data tracks, and the header of their packets. The payload, perhaps encrypted, is not read.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | V   |S|F|X|     reserved      |            handle             |
//! |        sequence number        |         frame number          |
//! |                           timestamp                           |
//! ```

use conclave_model::TrackSid;

use crate::transport::PeerKey;

/// Bytes before extensions and payload.
const HEADER: usize = 12;
/// Position of the handle.
const HANDLE: std::ops::Range<usize> = 2..4;
/// Version bits in the first byte; the version is 0.
const VERSION: u8 = 0b1110_0000;

/// Returns the publisher's handle for a packet's track; `None` for an unknown format.
pub fn handle(packet: &[u8]) -> Option<u16> {
    let header = packet.get(..HEADER)?;
    let handle = u16::from_be_bytes(header[HANDLE].try_into().ok()?);
    // A later version may have the handle elsewhere, so its packets are not forwarded.
    (header[0] & VERSION == 0 && handle != 0).then_some(handle)
}

/// Sets the subscriber's handle for a packet's track.
pub fn set_handle(packet: &mut [u8], handle: u16) {
    if let Some(field) = packet.get_mut(HANDLE) {
        field.copy_from_slice(&handle.to_be_bytes());
    }
}

/// A participant's data tracks.
#[derive(Debug, Default)]
pub struct DataTracks(Vec<DataTrack>);

/// Data track of a participant.
#[derive(Debug)]
struct DataTrack {
    sid: TrackSid,
    /// The publisher's handle.
    handle: u16,
    /// Whether forwarding is stopped.
    is_muted: bool,
    subscribers: Subscribers,
}

/// Subscribers, each with its own handle.
pub type Subscribers = Vec<(PeerKey, u16)>;

impl DataTracks {
    /// Admits a track.
    pub fn publish(&mut self, sid: TrackSid, handle: u16) {
        self.0.push(DataTrack {
            sid,
            handle,
            is_muted: false,
            subscribers: Vec::new(),
        });
    }

    pub fn unpublish(&mut self, sid: &TrackSid) {
        self.0.retain(|track| track.sid != *sid);
    }

    /// Returns the tracks with their handle and whether they are muted.
    pub fn iter(&self) -> impl Iterator<Item = (&TrackSid, u16, bool)> {
        self.0
            .iter()
            .map(|track| (&track.sid, track.handle, track.is_muted))
    }

    /// Stops or resumes forwarding.
    pub fn set_muted(&mut self, sid: &TrackSid, is_muted: bool) {
        if let Some(track) = self.by_sid(sid) {
            track.is_muted = is_muted;
        }
    }

    /// Forwards a track to a participant, under this handle.
    pub fn subscribe(&mut self, sid: &TrackSid, subscriber: PeerKey, handle: u16) {
        // At most one handle per subscriber: the newest one.
        self.unsubscribe(sid, subscriber);
        if let Some(track) = self.by_sid(sid) {
            track.subscribers.push((subscriber, handle));
        }
    }

    /// Stops forwarding a track to a participant.
    pub fn unsubscribe(&mut self, sid: &TrackSid, subscriber: PeerKey) {
        if let Some(track) = self.by_sid(sid) {
            track.subscribers.retain(|(other, _)| *other != subscriber);
        }
    }

    /// Removes and returns a track's subscribers, to be returned with [`DataTracks::put_back`]; `None` if the track is
    /// unknown or muted.
    pub fn take_subscribers(&mut self, handle: u16) -> Option<Subscribers> {
        // Taken out, since sending needs the participant that owns them. A copy per packet would cost an allocation.
        let track = self.by_handle(handle).filter(|track| !track.is_muted)?;
        Some(std::mem::take(&mut track.subscribers))
    }

    /// Puts back a track's subscribers.
    pub fn put_back(&mut self, handle: u16, subscribers: Subscribers) {
        if let Some(track) = self.by_handle(handle) {
            track.subscribers = subscribers;
        }
    }

    fn by_sid(&mut self, sid: &TrackSid) -> Option<&mut DataTrack> {
        self.0.iter_mut().find(|track| track.sid == *sid)
    }

    fn by_handle(&mut self, handle: u16) -> Option<&mut DataTrack> {
        self.0.iter_mut().find(|track| track.handle == handle)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn a_packet_is_as_long_as_its_header_and_of_the_known_version() {
        let packet = [0x18, 0, 1, 2, 0, 3, 0, 4, 0, 0, 0, 5, 9, 9];
        assert_eq!(handle(&packet), Some(0x0102));
        assert_eq!(
            handle(&packet[..HEADER]),
            Some(0x0102),
            "a frame may be empty"
        );
        assert_eq!(handle(&packet[..HEADER - 1]), None);
        assert_eq!(handle(&[0; HEADER]), None, "0 is no handle");
        for version in 1..8 {
            let mut other = packet;
            other[0] |= version << 5;
            assert_eq!(handle(&other), None);
        }
    }

    #[test]
    fn a_muted_track_has_no_subscribers_and_each_has_one_handle() {
        let mut keys = SlotMap::with_key();
        let [alice, bob] = [keys.insert(()), keys.insert(())];
        let (sid, other): (TrackSid, TrackSid) =
            ("TR_DC1".parse().unwrap(), "TR_DC2".parse().unwrap());
        let mut tracks = DataTracks::default();
        tracks.publish(sid.clone(), 7);
        tracks.subscribe(&other, alice, 1);
        tracks.subscribe(&sid, alice, 1);
        tracks.subscribe(&sid, bob, 2);
        tracks.subscribe(&sid, alice, 3);
        let subscribers = vec![(bob, 2), (alice, 3)];
        assert_eq!(tracks.take_subscribers(7), Some(subscribers.clone()));
        tracks.put_back(7, subscribers);
        tracks.set_muted(&sid, true);
        assert_eq!(
            (tracks.take_subscribers(7), tracks.take_subscribers(8)),
            (None, None)
        );
        tracks.set_muted(&sid, false);
        tracks.unsubscribe(&sid, bob);
        assert_eq!(tracks.take_subscribers(7), Some(vec![(alice, 3)]));
        tracks.unpublish(&sid);
        assert_eq!(tracks.take_subscribers(7), None);
    }

    proptest! {
        #[test]
        fn a_handle_is_replaced_and_all_else_stays(bytes in prop::collection::vec(any::<u8>(), 0..40), new in 1_u16..) {
            let mut replaced = bytes.clone();
            set_handle(&mut replaced, new);
            if handle(&bytes).is_some() {
                prop_assert_eq!(handle(&replaced), Some(new));
                prop_assert_eq!((&replaced[..2], &replaced[4..]), (&bytes[..2], &bytes[4..]));
            }
        }
    }
}
