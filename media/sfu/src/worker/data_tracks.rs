//! Data tracks of participants, and the header of their packets. Only that is read: the payload is the publisher's, and perhaps encrypted.
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

/// The bytes of a packet before its extensions and its payload.
const HEADER: usize = 12;
/// Where the handle is.
const HANDLE: std::ops::Range<usize> = 2..4;
/// The bits of the version in the first byte. It is 0.
const VERSION: u8 = 0b1110_0000;

/// Returns the handle by which a publisher names the track of a packet; `None` if it is no packet that is known.
pub fn handle(packet: &[u8]) -> Option<u16> {
    let header = packet.get(..HEADER)?;
    let handle = u16::from_be_bytes(header[HANDLE].try_into().ok()?);
    (header[0] & VERSION == 0 && handle != 0).then_some(handle)
}

/// Sets the handle by which a subscriber knows the track of a packet that has one.
pub fn set_handle(packet: &mut [u8], handle: u16) {
    if let Some(field) = packet.get_mut(HANDLE) {
        field.copy_from_slice(&handle.to_be_bytes());
    }
}

/// The data tracks of a participant.
#[derive(Debug, Default)]
pub struct DataTracks(Vec<DataTrack>);

/// A data track of a participant.
#[derive(Debug)]
struct DataTrack {
    sid: TrackSid,
    /// How its publisher names it in packets.
    handle: u16,
    /// Whether nothing of it is forwarded.
    is_muted: bool,
    subscribers: Subscribers,
}

/// The participants that receive a data track, each by a handle of its own.
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

    /// Ends a track.
    pub fn unpublish(&mut self, sid: &TrackSid) {
        self.0.retain(|track| track.sid != *sid);
    }

    /// Returns the tracks, with their handles and whether they are muted.
    pub fn iter(&self) -> impl Iterator<Item = (&TrackSid, u16, bool)> {
        self.0
            .iter()
            .map(|track| (&track.sid, track.handle, track.is_muted))
    }

    /// Stops or resumes the forwarding of a track.
    pub fn set_muted(&mut self, sid: &TrackSid, is_muted: bool) {
        if let Some(track) = self.by_sid(sid) {
            track.is_muted = is_muted;
        }
    }

    /// Forwards a track to a participant, by this handle.
    pub fn subscribe(&mut self, sid: &TrackSid, subscriber: PeerKey, handle: u16) {
        self.unsubscribe(sid, subscriber);
        if let Some(track) = self.by_sid(sid) {
            track.subscribers.push((subscriber, handle));
        }
    }

    /// Ends the forwarding of a track to a participant.
    pub fn unsubscribe(&mut self, sid: &TrackSid, subscriber: PeerKey) {
        if let Some(track) = self.by_sid(sid) {
            track.subscribers.retain(|(other, _)| *other != subscriber);
        }
    }

    /// Takes the subscribers of the track that its publisher names so in packets, to be put back with [`DataTracks::put_back`]; `None`
    /// if nothing of it is forwarded.
    pub fn take_subscribers(&mut self, handle: u16) -> Option<Subscribers> {
        let track = self.by_handle(handle).filter(|track| !track.is_muted)?;
        Some(std::mem::take(&mut track.subscribers))
    }

    /// Puts the subscribers of a track back, without those that are gone.
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
