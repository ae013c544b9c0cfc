//! Messages of an RTMP encoder.

use conclave_media::embedded::encoders::rtmp::{RtmpEvent, RtmpSession};

/// Type of video messages.
pub const VIDEO: u8 = 9;
/// Type of audio messages.
pub const AUDIO: u8 = 8;
const COMMAND: u8 = 20;
/// Default chunk size in bytes.
const CHUNK: usize = 128;

/// Progress of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing has been sent.
    Connected,
    /// The handshake is complete.
    Open,
    /// The stream key was accepted.
    Publishing,
}

/// Returns an encoder's session at this stage.
#[must_use]
pub fn session(stage: Stage) -> RtmpSession {
    let mut session = RtmpSession::new();
    if stage != Stage::Connected {
        session.receive(&handshake()).unwrap();
    }
    if stage == Stage::Publishing {
        commands()
            .iter()
            .for_each(|command| session.receive(command).unwrap());
        assert!(matches!(session.next_event(), Some(RtmpEvent::Publish(_))));
        session.accept().unwrap();
    }
    session
}

/// Returns an encoder's handshake: its version, its packet, and an echo of the server's packet.
#[must_use]
pub fn handshake() -> Vec<u8> {
    [&[3][..], &[0; 2 * 1_536]].concat()
}

/// Returns an encoder's commands up to its request to publish.
#[must_use]
pub fn commands() -> Vec<Vec<u8>> {
    const NULL: &[u8] = &[5];
    let application = [&[3, 0, 3][..], b"app", &text("live"), &[0, 0, 9]].concat();
    let connect = [text("connect"), number(1.0), application];
    let create = [text("createStream"), number(2.0), NULL.to_vec()];
    let publish = [
        text("publish"),
        number(3.0),
        [NULL, &text("key"), &text("live")].concat(),
    ];
    [connect, create, publish]
        .map(|command| message(COMMAND, 0, &command.concat()))
        .to_vec()
}

/// Returns the chunks of a message in the published stream.
#[must_use]
pub fn message(kind: u8, time: u32, body: &[u8]) -> Vec<u8> {
    let [_, time @ ..] = time.to_be_bytes();
    let [_, length @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
    let header = [&[3][..], &time, &length, &[kind, 1, 0, 0, 0]].concat();
    [header, body.chunks(CHUNK).collect::<Vec<_>>().join(&0xc3)].concat()
}

/// Encodes a text in AMF0.
fn text(value: &str) -> Vec<u8> {
    let [_, _, length @ ..] = u32::try_from(value.len()).unwrap().to_be_bytes();
    [&[2][..], &length, value.as_bytes()].concat()
}

/// Encodes a number in AMF0.
fn number(value: f64) -> Vec<u8> {
    [&[0][..], &value.to_be_bytes()].concat()
}
