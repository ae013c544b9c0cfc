//! A connection's data channels.

use std::collections::{HashMap, HashSet};

use str0m::channel::{ChannelConfig, ChannelId};

use crate::data::{self, DataKind};

/// Maximum number of a connection's channels whose messages are not protocol packets. Further ones are ignored.
const PLAIN_CHANNELS: usize = 16;

/// Maximum number of open channels per connection. LiveKit's clients have three.
const CHANNELS: usize = 32;

/// Maximum length in bytes of a channel's label and protocol together. str0m keeps both while the channel is open.
const CHANNEL_NAME: usize = 256;

/// A connection's data channels.
#[derive(Debug, Default)]
pub struct Channels {
    /// Channels that the server's next offer creates.
    new: Vec<ChannelConfig>,
    /// Open channels with a known label, by label.
    by_label: HashMap<String, ChannelId>,
    /// All open channels.
    open: HashSet<ChannelId>,
    /// Open channels whose messages are not protocol packets.
    plain: Vec<ChannelId>,
}

/// Use of a channel's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelUse {
    /// Protocol packets of this kind.
    Packets(DataKind),
    /// Opaque messages for all participants.
    Plain,
    /// Packets of data tracks.
    DataTracks,
}

impl Channels {
    /// Sets the channels that the server's next offer creates.
    pub fn create(&mut self, channels: Vec<ChannelConfig>) {
        self.new = channels;
    }

    /// Removes and returns the channels that the server's next offer creates.
    pub fn take_new(&mut self) -> Vec<ChannelConfig> {
        std::mem::take(&mut self.new)
    }

    /// Adds an open channel with a protocol name of `protocol_bytes`. Returns whether the client is allowed to have it,
    /// given the number and the names of its channels.
    pub fn open(&mut self, id: ChannelId, label: String, protocol_bytes: usize) -> bool {
        // Even a refused channel is counted until it closes: str0m keeps its state that long.
        self.open.insert(id);
        if self.open.len() > CHANNELS || label.len() + protocol_bytes > CHANNEL_NAME {
            return false;
        }
        if data::kind_of_channel(&label).is_some() || label == data::DATA_TRACK {
            self.by_label.insert(label, id);
        // Several channels may have the same label if it is the application's own, but a known label belongs to one.
        } else if data::is_plain_channel(&label) && self.plain.len() < PLAIN_CHANNELS {
            self.plain.push(id);
        }
        true
    }

    /// Removes a closed channel.
    pub fn close(&mut self, id: ChannelId) {
        self.open.remove(&id);
        self.by_label.retain(|_, open| *open != id);
        self.plain.retain(|open| *open != id);
    }

    /// Returns the open channel with a known label.
    pub fn by_label(&self, label: &str) -> Option<ChannelId> {
        self.by_label.get(label).copied()
    }

    /// Returns the use of a channel's messages; `None` if the channel is not used.
    pub fn use_of(&self, id: ChannelId) -> Option<ChannelUse> {
        let label = self.by_label.iter().find(|(_, known)| **known == id);
        match label {
            Some((label, _)) if label == data::DATA_TRACK => Some(ChannelUse::DataTracks),
            Some((label, _)) => data::kind_of_channel(label).map(ChannelUse::Packets),
            None => self.plain.contains(&id).then_some(ChannelUse::Plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use conclave_model::address::AddressFilter;
    use str0m::Rtc;

    use super::super::TransportSettings;
    use super::*;

    fn connection() -> Rtc {
        TransportSettings::new(Vec::new(), &AddressFilter::default())
            .config(false)
            .build(Instant::now())
    }

    /// Opens a channel with this label. Returns its id if the client is allowed to have it.
    fn open(channels: &mut Channels, rtc: &mut Rtc, label: &str) -> Option<ChannelId> {
        let id = rtc
            .direct_api()
            .create_data_channel(ChannelConfig::default());
        channels.open(id, label.to_owned(), 0).then_some(id)
    }

    #[test]
    fn the_label_of_a_channel_says_what_its_messages_are() {
        let (mut channels, mut rtc) = (Channels::default(), connection());
        for (label, expected) in [
            ("_reliable", ChannelUse::Packets(DataKind::Reliable)),
            ("_lossy", ChannelUse::Packets(DataKind::Lossy)),
            ("_data_track", ChannelUse::DataTracks),
            ("chat", ChannelUse::Plain),
        ] {
            let id = open(&mut channels, &mut rtc, label).unwrap();
            assert_eq!(channels.use_of(id), Some(expected), "{label}");
            let is_named = channels.by_label(label) == Some(id);
            assert_eq!(is_named, expected != ChannelUse::Plain, "{label}");
            channels.close(id);
            assert_eq!(
                (channels.use_of(id), channels.by_label(label)),
                (None, None)
            );
        }
    }

    #[test]
    fn plain_channels_beyond_some_are_not_used_and_all_beyond_more_are_refused() {
        let (mut channels, mut rtc) = (Channels::default(), connection());
        let opened: Vec<_> = (0..=CHANNELS)
            .map(|_| open(&mut channels, &mut rtc, "chat"))
            .collect();
        assert_eq!(opened.iter().flatten().count(), CHANNELS);
        let used = opened.iter().flatten();
        let used = used.filter(|id| channels.use_of(**id).is_some());
        assert_eq!(used.count(), PLAIN_CHANNELS);
        let (mut channels, id) = (Channels::default(), opened[0].unwrap());
        assert!(channels.open(id, "x".repeat(CHANNEL_NAME), 0));
        assert!(!channels.open(id, "x".repeat(CHANNEL_NAME), 1));
    }
}
