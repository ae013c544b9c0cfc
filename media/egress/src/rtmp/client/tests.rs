use conclave_model::rtmp::RtmpUrl;
use proptest::prelude::*;
use rml_rtmp::sessions::ServerSessionEvent;

use super::*;
use crate::rtmp::double::{KEY, Protocol, tag};

fn client() -> Client {
    let url = RtmpUrl::parse(&format!("rtmp://a/live/{KEY}")).unwrap();
    Client::new(Arc::new(Endpoint::from_url(&url))).unwrap()
}

/// Exchanges bytes until both have nothing more to say.
fn exchange(client: &mut Client, receiver: &mut Protocol) -> Result<(), String> {
    loop {
        let sent = client.take_output();
        if sent.is_empty() {
            return Ok(());
        }
        let answer = receiver.receive(&sent);
        client.receive(&answer)?;
    }
}

/// A client whose stream is taken.
fn accepted() -> (Client, Protocol) {
    let (mut client, mut receiver) = (client(), Protocol::new());
    for _ in 0..2 {
        exchange(&mut client, &mut receiver).unwrap();
        assert!(!client.is_accepted());
        let answer = receiver.answer(true).unwrap();
        client.receive(&answer).unwrap();
    }
    assert!(client.is_accepted());
    (client, receiver)
}

#[test]
fn a_stream_is_published_with_its_times_from_the_first_frame_on() {
    let (mut client, mut receiver) = accepted();
    let script = Values::default()
        .string("onMetaData")
        .object(&[("encoder", "test")])
        .into_bytes();
    client.send(&tag(TagKind::Header, (18, 0), &script));
    client.send(&tag(TagKind::Header, (9, 0), &[0x17, 0]));
    client.send(&tag(TagKind::KeyFrame, (9, 0x0123_4567), &[0x17, 1]));
    client.send(&tag(TagKind::Audio, (8, 0x0123_4560), &[0xaf, 1]));
    client.send(&tag(TagKind::Frame, (9, 0x0123_4567 + 40), &[0x27, 1]));
    exchange(&mut client, &mut receiver).unwrap();
    let has_metadata = receiver.events.iter().any(|event| {
        matches!(event, ServerSessionEvent::StreamMetadataChanged { metadata, .. } if metadata.encoder.as_deref() == Some("test"))
    });
    assert!(has_metadata, "{:?}", receiver.events);
    let media = receiver.events.iter().filter_map(|event| match event {
        ServerSessionEvent::VideoDataReceived {
            data, timestamp, ..
        }
        | ServerSessionEvent::AudioDataReceived {
            data, timestamp, ..
        } => Some((timestamp.value, data.to_vec())),
        _ => None,
    });
    let expected = [
        (0, [0x17, 0]),
        (0, [0x17, 1]),
        (0, [0xaf, 1]),
        (40, [0x27, 1]),
    ];
    assert_eq!(
        media.collect::<Vec<_>>(),
        expected.map(|(time, body)| (time, body.to_vec()))
    );
    client.finish();
    exchange(&mut client, &mut receiver).unwrap();
    assert!(
        receiver
            .events
            .iter()
            .any(|event| matches!(event, ServerSessionEvent::PublishStreamFinished { .. }))
    );
}

#[test]
fn a_refusal_is_told_by_its_code_alone() {
    let (mut client, mut receiver) = (client(), Protocol::new());
    exchange(&mut client, &mut receiver).unwrap();
    let answer = receiver.answer(true).unwrap();
    client.receive(&answer).unwrap();
    exchange(&mut client, &mut receiver).unwrap();
    let answer = receiver.answer(false).unwrap();
    let refusal = client.receive(&answer).unwrap_err();
    assert_eq!(
        refusal,
        "the receiver refused the stream: NetStream.Publish.BadName"
    );
}

#[test]
fn a_ping_is_answered_and_an_acknowledgement_is_noted() {
    let (mut client, _) = accepted();
    client.take_output();
    let mut bytes = Vec::new();
    let writer = ChunkWriter::new();
    let ping = Message {
        channel: 2,
        kind: USER_CONTROL,
        stream: 0,
        time: 0,
        body: &[0, 6, 1, 2, 3, 4],
    };
    writer.write(&ping, &mut bytes);
    client.receive(&bytes).unwrap();
    assert!(client.take_output().ends_with(&[0, 7, 1, 2, 3, 4]) && !client.has_acknowledged());
    bytes.clear();
    writer.write(
        &Message {
            kind: ACKNOWLEDGEMENT,
            body: &[0, 0, 1, 0],
            ..ping
        },
        &mut bytes,
    );
    client.receive(&bytes).unwrap();
    assert!(client.has_acknowledged());
}

proptest! {
    #[test]
    fn no_bytes_of_a_receiver_make_it_accepted_or_keep_memory(bytes in prop::collection::vec(any::<u8>(), 0..4_000)) {
        let mut client = client();
        let first: Vec<_> = [&[3][..], &[0; 3_072], &bytes].concat();
        // The crate may panic, which ends the connection.
        let received = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.receive(&first)));
        prop_assert!(received.is_err() || !client.is_accepted());
    }
}
