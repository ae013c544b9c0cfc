//! A client's received packets.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use str0m::media::Rid;
use str0m::rtp::{RtpPacket, Ssrc};

use super::source::read_stamp;

/// Packets and requests that a client received.
pub struct Received {
    joined: Instant,
    /// Time from the join until the end of the first frame.
    pub first_frame: Option<Duration>,
    /// Layers whose key frames were requested since this list was emptied.
    pub key_frame_requests: Vec<Option<Rid>>,
    count: Count,
    streams: HashMap<Ssrc, Stream>,
}

/// Media packets over a time.
#[derive(Default, Clone)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
    /// Transit time of each in microseconds: from the publisher to the receiver's socket.
    pub delays: Vec<u32>,
    /// Packets that never came, even as retransmissions.
    pub missing: u64,
    /// Longest time between two microphone packets.
    pub longest_silence: Duration,
}

/// A stream's sequence numbers.
struct Stream {
    first: u64,
    last: u64,
    packets: u64,
    /// Number of missing packets at the last count.
    missing: u64,
    /// The last packet's arrival, in nanoseconds of wall-clock time.
    arrived: u64,
}

impl Received {
    pub fn new(joined: Instant) -> Self {
        Self {
            joined,
            first_frame: None,
            key_frame_requests: Vec::new(),
            count: Count::default(),
            streams: HashMap::new(),
        }
    }

    /// Records a packet with its arrival in nanoseconds of wall-clock time.
    pub fn note(&mut self, packet: &RtpPacket, arrived: u64) {
        let Some((is_video, sent)) = read_stamp(&packet.payload) else {
            return;
        };
        self.count.packets += 1;
        self.count.bytes += packet.payload.len() as u64;
        self.count
            .delays
            .push(u32::try_from(arrived.saturating_sub(sent) / 1_000).unwrap_or(u32::MAX));
        let stream = self
            .streams
            .entry(packet.header.ssrc)
            .or_insert_with(|| Stream::new(*packet.seq_no, arrived));
        let since_last = Duration::from_nanos(stream.note(*packet.seq_no, arrived));
        if !is_video {
            self.count.longest_silence = self.count.longest_silence.max(since_last);
        }
        if is_video && packet.header.marker && self.first_frame.is_none() {
            self.first_frame = Some(self.joined.elapsed());
        }
    }

    /// Returns the number of streams with received media.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the counts since the last call.
    pub fn take(&mut self) -> Count {
        let missing = self.streams.values_mut().map(Stream::take_missing).sum();
        Count {
            missing,
            ..std::mem::take(&mut self.count)
        }
    }
}

impl Count {
    pub fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.missing += other.missing;
        self.longest_silence = self.longest_silence.max(other.longest_silence);
        self.delays.extend(other.delays);
    }
}

impl Stream {
    fn new(first: u64, arrived: u64) -> Self {
        Self {
            first,
            last: first,
            packets: 0,
            missing: 0,
            arrived,
        }
    }

    /// Records a packet. Returns the nanoseconds since the previous packet.
    fn note(&mut self, sequence: u64, arrived: u64) -> u64 {
        self.packets += 1;
        self.first = self.first.min(sequence);
        self.last = self.last.max(sequence);
        arrived.saturating_sub(std::mem::replace(&mut self.arrived, arrived))
    }

    /// Returns how many more are missing than at the last call. A late packet makes up for a missing one.
    fn take_missing(&mut self) -> u64 {
        let missing = (self.last - self.first + 1).saturating_sub(self.packets);
        missing.saturating_sub(std::mem::replace(&mut self.missing, missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_once() {
        let mut stream = Stream::new(7, 0);
        let gaps =
            [(7, 0), (8, 20), (11, 50), (10, 55)].map(|(sequence, at)| stream.note(sequence, at));
        assert_eq!(gaps, [0, 20, 30, 5]);
        assert_eq!([stream.take_missing(), stream.take_missing()], [1, 0]);
        stream.note(14, 60);
        assert_eq!(stream.take_missing(), 2);
    }
}
