//! Quality of a session's media: a sample each ten seconds while a participant is connected, and the sum of a session's samples.
//!
//! Media workers measure, the store keeps: a sample is a few dozen bytes ([`QualitySample::encode`]), because there are 360 an hour for each
//! participant; a summary is JSON, because there is one for each session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schema::word_enum;

/// Time that a sample covers, unless the session ends before.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Version of the encoding: the first byte of a sample.
const VERSION: u8 = 1;
/// Numbers in a sample.
const NUMBERS: usize = 7 + 2 * DIRECTION_NUMBERS;
/// Numbers in a direction of a sample.
const DIRECTION_NUMBERS: usize = 10;
/// Codecs that are listed per direction: more than there are.
const MAX_CODECS: usize = 8;

word_enum! {
    /// Way by which media reaches a participant.
    MediaConnection {
        /// UDP between client and server.
        Udp = "udp",
        /// A TCP connection between client and server.
        Tcp = "tcp",
        /// Through this server's TURN server.
        Turn = "turn",
    }
}

/// Program with which a participant joined, as the client states it. Empty texts are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientProgram {
    /// SDK, such as `js`.
    pub sdk: String,
    /// The SDK's version.
    pub version: String,
    /// Browser with its version.
    pub browser: String,
    /// Operating system.
    pub os: String,
}

/// Reason for which a client resumed its session, as the client states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconnectReason {
    /// The WebSocket was lost.
    Signal,
    /// The connection for publishing failed.
    Publisher,
    /// The connection for receiving failed.
    Subscriber,
    /// The client changed its way to the server.
    Candidate,
}

/// Reconnects by their stated reason. Those without one count in the total only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reconnects {
    /// All reconnects.
    pub total: u32,
    /// The WebSocket was lost.
    pub signal: u32,
    /// The connection for publishing failed.
    pub publisher: u32,
    /// The connection for receiving failed.
    pub subscriber: u32,
    /// The client changed its way to the server.
    pub candidate: u32,
}

impl Reconnects {
    /// Counts the reason of a reconnect.
    pub const fn count_reason(&mut self, reason: ReconnectReason) {
        let counter = match reason {
            ReconnectReason::Signal => &mut self.signal,
            ReconnectReason::Publisher => &mut self.publisher,
            ReconnectReason::Subscriber => &mut self.subscriber,
            ReconnectReason::Candidate => &mut self.candidate,
        };
        *counter = counter.saturating_add(1);
    }
}

/// Measurements of a session in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QualitySample {
    /// Length of the interval in milliseconds.
    pub millis: u32,
    /// Mean estimated opinion score in hundredths, 100 to 450; `None` if nothing was measured.
    pub score: Option<u32>,
    /// Mean round-trip time in milliseconds.
    pub round_trip_ms: Option<u32>,
    /// Estimated bandwidth to the client in kbit/s; `None` without an estimate.
    pub estimate_kbps: Option<u32>,
    /// Way of the packets; `None` for encoders whose media arrives otherwise.
    pub connection: Option<MediaConnection>,
    /// Times without a packet from the client for 10 s.
    pub interruptions: u32,
    /// Resumes of the session by its client.
    pub reconnects: u32,
    /// Media from the client.
    pub sent: DirectionSample,
    /// Media to the client.
    pub received: DirectionSample,
}

/// Measurements of a session's media in one direction and one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionSample {
    /// Media packets that the server received or sent.
    pub packets: u32,
    /// Estimated number of packets lost on the way, from the receiving side's feedback.
    pub lost: u32,
    /// Largest jitter of a stream, in milliseconds.
    pub jitter_ms: Option<u32>,
    /// Mean media bitrate in kbit/s.
    pub kbps: u32,
    /// Width in pixels of the largest video; 0 without video, or if the publisher did not state it.
    pub width: u32,
    /// Height in pixels of the largest video.
    pub height: u32,
    /// Frames per second of the largest video.
    pub frame_rate: u32,
    /// Freezes of videos from cameras.
    pub freezes: u32,
    /// Total length of these freezes in milliseconds.
    pub frozen_ms: u32,
    /// Changes of the forwarded layer.
    pub switches: u32,
}

impl DirectionSample {
    fn numbers(&self) -> [u32; DIRECTION_NUMBERS] {
        // Destructured, so that a new field cannot be forgotten.
        let Self {
            packets,
            lost,
            jitter_ms,
            kbps,
            width,
            height,
            frame_rate,
            freezes,
            frozen_ms,
            switches,
        } = *self;
        [
            packets,
            lost,
            optional(jitter_ms),
            kbps,
            width,
            height,
            frame_rate,
            freezes,
            frozen_ms,
            switches,
        ]
    }

    fn from_numbers(numbers: [u32; DIRECTION_NUMBERS]) -> Self {
        let [
            packets,
            lost,
            jitter_ms,
            kbps,
            width,
            height,
            frame_rate,
            freezes,
            frozen_ms,
            switches,
        ] = numbers;
        Self {
            packets,
            lost,
            jitter_ms: jitter_ms.checked_sub(1),
            kbps,
            width,
            height,
            frame_rate,
            freezes,
            frozen_ms,
            switches,
        }
    }
}

impl QualitySample {
    /// Encodes the sample: a version, then its numbers in LEB128. An absent number is 0, any other one is stored as its successor.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let own = [
            self.millis,
            optional(self.score),
            optional(self.round_trip_ms),
            optional(self.estimate_kbps),
            connection_number(self.connection),
            self.interruptions,
            self.reconnects,
        ];
        for number in own
            .into_iter()
            .chain(self.sent.numbers())
            .chain(self.received.numbers())
        {
            push(&mut bytes, number);
        }
        bytes
    }

    /// Decodes a sample; `None` if the bytes are none of this version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, mut rest) = bytes.split_first()?;
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = pull(&mut rest)?;
        }
        if *version != VERSION || !rest.is_empty() {
            return None;
        }
        let (own, directions) = numbers.split_first_chunk::<7>()?;
        let (sent, directions) = directions.split_first_chunk()?;
        let (received, _) = directions.split_first_chunk()?;
        let [
            millis,
            score,
            round_trip_ms,
            estimate_kbps,
            connection,
            interruptions,
            reconnects,
        ] = *own;
        Some(Self {
            millis,
            score: score.checked_sub(1),
            round_trip_ms: round_trip_ms.checked_sub(1),
            estimate_kbps: estimate_kbps.checked_sub(1),
            connection: match connection {
                1 => Some(MediaConnection::Udp),
                2 => Some(MediaConnection::Tcp),
                3 => Some(MediaConnection::Turn),
                _ => None,
            },
            interruptions,
            reconnects,
            sent: DirectionSample::from_numbers(*sent),
            received: DirectionSample::from_numbers(*received),
        })
    }
}

const fn connection_number(connection: Option<MediaConnection>) -> u32 {
    match connection {
        None => 0,
        Some(MediaConnection::Udp) => 1,
        Some(MediaConnection::Tcp) => 2,
        Some(MediaConnection::Turn) => 3,
    }
}

const fn optional(number: Option<u32>) -> u32 {
    match number {
        Some(number) => number.saturating_add(1),
        None => 0,
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u32) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

fn pull(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    // Five groups of seven bits hold 32 bits.
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

/// Mean and maximum of numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Average {
    sum: u64,
    count: u32,
    /// Largest number.
    pub max: u32,
}

impl Average {
    /// Adds a number, if there is one.
    pub fn add(&mut self, number: Option<u32>) {
        let Some(number) = number else {
            return;
        };
        self.sum = self.sum.saturating_add(number.into());
        self.count = self.count.saturating_add(1);
        self.max = self.max.max(number);
    }

    /// Returns the rounded mean; `None` without numbers.
    #[must_use]
    pub fn mean(&self) -> Option<u32> {
        let half = u64::from(self.count / 2);
        let mean = (self.sum + half).checked_div(self.count.into())?;
        u32::try_from(mean).ok()
    }
}

/// Sum of a session's samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QualitySummary {
    /// Measured time in milliseconds.
    pub millis: u64,
    /// Scores of the samples, in hundredths.
    pub score: Average,
    /// Lowest score of a sample, in hundredths.
    pub lowest_score: Option<u32>,
    /// Round-trip times of the samples, in milliseconds.
    pub round_trip_ms: Average,
    /// Last way of the packets.
    pub connection: Option<MediaConnection>,
    /// Times without a packet from the client for 10 s.
    pub interruptions: u32,
    /// Resumes of the session by its client.
    pub reconnects: Reconnects,
    /// Reason why the media failed, if it did.
    pub failure: Option<String>,
    /// The client's program, if it stated one.
    pub client: Option<ClientProgram>,
    /// Media from the client.
    pub sent: DirectionSummary,
    /// Media to the client.
    pub received: DirectionSummary,
}

/// Sum of a session's samples in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionSummary {
    /// Media packets that the server received or sent.
    pub packets: u64,
    /// Estimated number of packets lost on the way.
    pub lost: u64,
    /// Largest jitter of a stream in each sample, in milliseconds.
    pub jitter_ms: Average,
    /// Media in kilobits.
    pub kilobits: u64,
    /// Width in pixels of the largest video.
    pub width: u32,
    /// Height in pixels of the largest video.
    pub height: u32,
    /// Frames per second of the samples with video.
    pub frame_rate: Average,
    /// Freezes of videos from cameras.
    pub freezes: u32,
    /// Total length of these freezes in milliseconds.
    pub frozen_ms: u64,
    /// Changes of the forwarded layer.
    pub switches: u32,
    /// Names of the codecs, in order of their first use.
    pub codecs: Vec<String>,
}

impl QualitySummary {
    /// Adds a sample.
    pub fn add(&mut self, sample: &QualitySample) {
        self.millis = self.millis.saturating_add(sample.millis.into());
        self.score.add(sample.score);
        self.lowest_score = [self.lowest_score, sample.score]
            .into_iter()
            .flatten()
            .min();
        self.round_trip_ms.add(sample.round_trip_ms);
        self.connection = sample.connection.or(self.connection);
        self.interruptions = self.interruptions.saturating_add(sample.interruptions);
        self.reconnects.total = self.reconnects.total.saturating_add(sample.reconnects);
        self.sent.add(&sample.sent, sample.millis);
        self.received.add(&sample.received, sample.millis);
    }
}

impl DirectionSummary {
    fn add(&mut self, sample: &DirectionSample, millis: u32) {
        self.packets = self.packets.saturating_add(sample.packets.into());
        self.lost = self.lost.saturating_add(sample.lost.into());
        self.jitter_ms.add(sample.jitter_ms);
        let kilobits = u64::from(sample.kbps) * u64::from(millis) / 1_000;
        self.kilobits = self.kilobits.saturating_add(kilobits);
        let pixels = |width: u32, height: u32| u64::from(width) * u64::from(height);
        if pixels(sample.width, sample.height) > pixels(self.width, self.height) {
            (self.width, self.height) = (sample.width, sample.height);
        }
        // Without video there is no frame rate, rather than one of 0.
        self.frame_rate
            .add(Some(sample.frame_rate).filter(|rate| *rate > 0));
        self.freezes = self.freezes.saturating_add(sample.freezes);
        self.frozen_ms = self.frozen_ms.saturating_add(sample.frozen_ms.into());
        self.switches = self.switches.saturating_add(sample.switches);
    }

    /// Adds a codec, unless it is known.
    pub fn add_codec(&mut self, name: &str) {
        if self.codecs.len() < MAX_CODECS && self.codecs.iter().all(|known| known != name) {
            self.codecs.push(name.to_owned());
        }
    }

    /// Returns the mean bitrate in kbit/s over the measured time.
    #[must_use]
    pub fn kbps(&self, millis: u64) -> u64 {
        // Multiplied first, since most sessions are shorter than the numbers' range.
        self.kilobits
            .saturating_mul(1_000)
            .checked_div(millis)
            .unwrap_or_default()
    }
}

/// Returns the share of lost packets among the sent packets, 0 to 1. `packets` counts the packets that the server received or sent.
#[must_use]
pub fn loss(packets: u64, lost: u64, is_to_client: bool) -> f64 {
    // The server counts arrivals in one direction, and departures in the other.
    let total = if is_to_client {
        packets
    } else {
        packets.saturating_add(lost)
    };
    if total == 0 {
        return 0.0;
    }
    (lost as f64 / total as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sample of a usual call: a camera, a few receivers' videos.
    fn usual() -> QualitySample {
        QualitySample {
            millis: 10_021,
            score: Some(431),
            round_trip_ms: Some(48),
            estimate_kbps: Some(5_400),
            connection: Some(MediaConnection::Udp),
            interruptions: 0,
            reconnects: 0,
            sent: DirectionSample {
                packets: 2_310,
                lost: 4,
                jitter_ms: Some(6),
                kbps: 1_740,
                width: 1_280,
                height: 720,
                frame_rate: 30,
                ..DirectionSample::default()
            },
            received: DirectionSample {
                packets: 6_120,
                lost: 31,
                jitter_ms: Some(9),
                kbps: 4_410,
                width: 1_280,
                height: 720,
                frame_rate: 29,
                freezes: 1,
                frozen_ms: 412,
                switches: 2,
            },
        }
    }

    #[test]
    fn a_usual_sample_takes_less_than_fifty_bytes() {
        let bytes = usual().encode();
        assert!(bytes.len() < 50, "{} bytes", bytes.len());
        assert_eq!(QualitySample::decode(&bytes), Some(usual()));
    }

    #[test]
    fn other_bytes_are_no_sample() {
        let bytes = usual().encode();
        for other in [
            &[][..],
            &bytes[..bytes.len() - 1],
            &[bytes.as_slice(), &[0]].concat(),
            &[2; 60],
        ] {
            assert_eq!(QualitySample::decode(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_summary_weighs_bitrates_by_time_and_keeps_the_extremes() {
        let mut summary = QualitySummary::default();
        summary.add(&usual());
        let later = QualitySample {
            millis: 2_000,
            score: Some(211),
            round_trip_ms: Some(152),
            connection: Some(MediaConnection::Turn),
            reconnects: 1,
            ..QualitySample::default()
        };
        summary.add(&later);
        assert_eq!(
            (summary.score.mean(), summary.lowest_score),
            (Some(321), Some(211))
        );
        assert_eq!(
            (summary.round_trip_ms.mean(), summary.round_trip_ms.max),
            (Some(100), 152)
        );
        assert_eq!(summary.connection, Some(MediaConnection::Turn));
        assert_eq!(summary.sent.kbps(summary.millis), 17_436 * 1_000 / 12_021);
        assert_eq!(
            (summary.sent.width, summary.sent.frame_rate.mean()),
            (1_280, Some(30))
        );
        let text = serde_json::to_string(&summary).unwrap();
        assert!(text.len() < 1_024, "{} bytes", text.len());
        assert_eq!(
            serde_json::from_str::<QualitySummary>(&text).unwrap(),
            summary
        );
    }

    #[test]
    fn loss_is_a_share_of_the_packets_that_were_sent() {
        assert!((loss(90, 10, false) - 0.1).abs() < 1e-9);
        assert!((loss(100, 10, true) - 0.1).abs() < 1e-9);
        assert!(loss(0, 0, true).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn every_number_survives(number in any::<u32>(), other in any::<u32>()) {
            let sample = QualitySample {
                millis: number,
                score: Some(other / 2),
                sent: DirectionSample { frozen_ms: other, ..DirectionSample::default() },
                received: DirectionSample { switches: number, ..DirectionSample::default() },
                ..QualitySample::default()
            };
            prop_assert_eq!(QualitySample::decode(&sample.encode()), Some(sample));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = QualitySample::decode(&bytes);
        }
    }
}
