//! Connections with the client of the same crate, and with bytes that are no RTMP.

use proptest::prelude::*;
use rml_rtmp::sessions::{
    ClientSession, ClientSessionConfig, ClientSessionEvent, ClientSessionResult, PublishRequestType,
};
use rml_rtmp::time::RtmpTimestamp;

use super::*;

/// An encoder and a server, whose bytes are exchanged in memory.
struct World {
    server: RtmpSession,
    client: ClientSession,
    client_events: Vec<ClientSessionEvent>,
}

fn shake_hands() -> RtmpSession {
    let (mut server, mut client) = (RtmpSession::new(), Handshake::new(PeerType::Client));
    let mut sent = client.generate_outbound_p0_and_p1().unwrap();
    loop {
        server.receive(&sent).unwrap();
        match client.process_bytes(&server.take_output()).unwrap() {
            HandshakeProcessResult::InProgress { response_bytes } => sent = response_bytes,
            HandshakeProcessResult::Completed { response_bytes, .. } => {
                server.receive(&response_bytes).unwrap();
                return server;
            }
        }
    }
}

impl World {
    /// Connects an encoder to an application.
    fn connect(application: &str) -> Result<Self, RtmpError> {
        let (client, first) = ClientSession::new(ClientSessionConfig::new()).unwrap();
        let mut world = Self {
            server: shake_hands(),
            client,
            client_events: Vec::new(),
        };
        world.exchange(first)?;
        let request = world.client.request_connection(application.into()).unwrap();
        world.exchange(vec![request])?;
        Ok(world)
    }

    fn request(&mut self, key: &str) -> Result<(), RtmpError> {
        let request = self
            .client
            .request_publishing(key.into(), PublishRequestType::Live)
            .unwrap();
        self.exchange(vec![request])
    }

    /// Sends what the client has to say, and what the server says to that, until both are silent.
    fn exchange(&mut self, results: Vec<ClientSessionResult>) -> Result<(), RtmpError> {
        let mut results = results;
        loop {
            for result in results {
                match result {
                    ClientSessionResult::OutboundResponse(packet) => {
                        self.server.receive(&packet.bytes)?;
                    }
                    ClientSessionResult::RaisedEvent(event) => self.client_events.push(event),
                    ClientSessionResult::UnhandleableMessageReceived(_) => {}
                }
            }
            let output = self.server.take_output();
            if output.is_empty() {
                return Ok(());
            }
            results = self.client.handle_input(&output).unwrap();
        }
    }

    fn accept(&mut self) {
        self.server.accept().unwrap();
        self.exchange(Vec::new()).unwrap();
    }

    fn send_video(&mut self, timestamp: u32, body: Vec<u8>) -> Result<(), RtmpError> {
        let sent = self
            .client
            .publish_video_data(body.into(), RtmpTimestamp::new(timestamp), false)
            .unwrap();
        self.exchange(vec![sent])
    }
}

#[test]
fn an_encoder_publishes_with_its_key_and_its_messages_arrive() {
    let mut world = World::connect("live").unwrap();
    world.request("key?bandwidthtest=true").unwrap();
    assert_eq!(
        world.server.next_event(),
        Some(RtmpEvent::Publish(StreamKeyHash::from_key("key")))
    );
    assert!(
        !world
            .client_events
            .contains(&ClientSessionEvent::PublishRequestAccepted)
    );
    world.accept();
    assert!(
        world
            .client_events
            .contains(&ClientSessionEvent::PublishRequestAccepted)
    );
    world.send_video(40, vec![7; 100_000]).unwrap();
    let sound = world
        .client
        .publish_audio_data(vec![9].into(), RtmpTimestamp::new(60), false)
        .unwrap();
    world.exchange(vec![sound]).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| world.server.next_event()).collect();
    assert_eq!(
        events,
        [
            RtmpEvent::Video(40, vec![7; 100_000]),
            RtmpEvent::Audio(60, vec![9])
        ]
    );
    let stopped = world.client.stop_publishing().unwrap();
    world.exchange(stopped).unwrap();
    assert_eq!(world.server.next_event(), Some(RtmpEvent::Finished));
}

#[test]
fn an_encoder_that_may_not_publish_is_told_so() {
    let mut world = World::connect("live/").unwrap();
    world.request("key").unwrap();
    world
        .server
        .refuse("no ingress endpoint has this stream key");
    let output = world.server.take_output();
    assert!(String::from_utf8_lossy(&output).contains("NetStream.Publish.BadName"));
}

#[test]
fn other_applications_and_a_second_stream_are_unsupported() {
    assert_eq!(World::connect("vod").err(), Some(RtmpError::Unsupported));
    let mut world = World::connect("live").unwrap();
    world.request("key").unwrap();
    world.accept();
    let State::Open(open) = &mut world.server.state else {
        panic!("it is open")
    };
    open.request = None;
    assert_eq!(
        world.server.request_publishing(9, "other"),
        Err(RtmpError::Unsupported)
    );
}

/// Proves S-79.
#[test]
fn what_an_encoder_sends_before_its_key_is_bounded() {
    let mut world = World::connect("live").unwrap();
    // Sound of a stream that is not published.
    let sound = [&[0x04, 0, 0, 0, 0, 0, 100, 8, 1, 0, 0, 0][..], &[0; 100]].concat();
    let sent: Result<Vec<()>, _> = (0..1_000).map(|_| world.server.receive(&sound)).collect();
    assert_eq!(sent.err(), Some(RtmpError::NotPublishing));
    assert_eq!(world.server.next_event(), None);
}

#[test]
fn a_message_is_bounded_also_for_an_encoder_that_publishes() {
    let mut world = World::connect("live").unwrap();
    world.request("key").unwrap();
    world.accept();
    let result = world.send_video(0, vec![0; MAX_MESSAGE + 1]);
    assert_eq!(result, Err(RtmpError::TooLarge));
    // One that never ends.
    let (mut server, header) = (
        shake_hands(),
        [0x04, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0],
    );
    let State::Open(open) = &mut server.state else {
        panic!("it is open")
    };
    open.is_publishing = true;
    server
        .receive(&[2, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
        .unwrap();
    server.receive(&header).unwrap();
    let sent: Result<Vec<()>, _> = (0..100)
        .map(|_| server.receive(&[0xc4; 64 * 1_024]))
        .collect();
    assert_eq!(sent.err(), Some(RtmpError::TooLarge));
}

#[test]
fn chunks_of_no_size_and_values_that_are_deep_are_refused() {
    let header =
        |kind: u8, length: u8| [&[0x02, 0, 0, 0, 0, 0, length, kind], &[0; 4][..]].concat();
    let mut server = shake_hands();
    assert_eq!(
        server.receive(&[&header(1, 4)[..], &[0, 0, 0, 0]].concat()),
        Err(RtmpError::TooLarge)
    );
    assert_eq!(
        check_values(&[3, 0, 1, b'a'].repeat(MAX_CONTAINERS + 1)),
        Err(RtmpError::TooLarge)
    );
    assert_eq!(
        check_values(&vec![2; MAX_COMMAND + 1]),
        Err(RtmpError::TooLarge)
    );
    assert_eq!(check_values(&[3, 0, 1, b'a'].repeat(16)), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_taken_or_refused(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8)) {
        let mut fresh = RtmpSession::new();
        let mut open = shake_hands();
        for piece in pieces {
            let _ = fresh.receive(&piece);
            if open.receive(&piece).is_err() {
                break;
            }
        }
    }

    #[test]
    fn chunks_with_any_headers_are_taken_or_refused(
        chunks in prop::collection::vec((0_u8..4, 2_u8..6, any::<[u8; 3]>(), 0_u8..3, 1_u8..25, 0_usize..140), 1..20),
    ) {
        let mut open = shake_hands();
        for (format, stream, time, length, kind, bytes) in chunks {
            let header = [&time[..], &[0, length, 0x40, kind], &[1, 0, 0, 0]].concat();
            let size = [11, 7, 3, 0][usize::from(format)];
            let chunk = [&[format << 6 | stream], &header[..size], &vec![3; bytes][..]].concat();
            if open.receive(&chunk).is_err() {
                break;
            }
        }
    }
}
