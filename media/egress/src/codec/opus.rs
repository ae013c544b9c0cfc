//! Opus: packet durations (RFC 6716, section 3.1) and the header in files.

use std::time::Duration;

use super::Container;

/// Containers for Opus besides Matroska, the default one first.
pub const CONTAINERS: [Container; 3] = [Container::Ogg, Container::Mp4, Container::Webm];

/// Silent packet, 20 ms long: one fullband CELT frame in mono.
pub const SILENCE: [u8; 3] = [0xf8, 0xff, 0xfe];

/// Returns a packet's duration; `None` if it is malformed.
pub fn duration(packet: &[u8]) -> Option<Duration> {
    let toc = packet.first()?;
    let configuration = toc >> 3;
    let frame_micros: u64 = match configuration {
        // RFC 6716, table 2: SILK, hybrid and CELT modes, four frame sizes each but for hybrid.
        0..=11 => [10_000, 20_000, 40_000, 60_000][usize::from(configuration & 3)],
        12..=15 => [10_000, 20_000][usize::from(configuration & 1)],
        _ => [2_500, 5_000, 10_000, 20_000][usize::from(configuration & 3)],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u64::from(packet.get(1)? & 0x3f),
    };
    Some(Duration::from_micros(frame_micros * frames)).filter(|duration| !duration.is_zero())
}

/// Returns a stereo stream's identification header (RFC 7845, section 5.1).
pub fn head() -> Vec<u8> {
    let mut head = b"OpusHead\x01\x02".to_vec();
    head.extend_from_slice(&[0, 0]);
    // After the pre-skip: input sample rate, then output gain and channel mapping family.
    head.extend_from_slice(&48_000_u32.to_le_bytes());
    head.extend_from_slice(&[0, 0, 0]);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_say_how_long_a_packet_is() {
        for (packet, millis) in [
            (&SILENCE[..], 20),
            (&[0x78], 20),
            (&[0x79, 0], 40),
            (&[0x18], 60),
            (&[0x7b, 3, 0], 60),
            (&[0x70], 10),
        ] {
            assert_eq!(
                duration(packet),
                Some(Duration::from_millis(millis)),
                "{packet:?}"
            );
        }
        assert_eq!(duration(&[0x80]), Some(Duration::from_micros(2_500)));
        assert_eq!(
            (duration(&[]), duration(&[0x7b]), duration(&[0x7b, 0])),
            (None, None, None)
        );
    }
}
