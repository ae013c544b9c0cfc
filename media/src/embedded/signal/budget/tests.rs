//! Tests of budgets, and proof that the defaults suffice for LiveKit's clients in large calls.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conclave_model::Timestamp;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as Request;

use super::*;
use crate::embedded::signal::channels::SignalFrame;
use crate::embedded::signal::frames::read;

const MESSAGE: Weight = Weight {
    bytes: 100,
    messages: 1,
    is_offer: false,
};

/// Returns the budget of a newly joined participant.
fn newcomer(budgets: &Budgets, address: Option<ClientAddress>) -> ClientBudget {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let identity = format!("p{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    budgets.client(who(&identity), address)
}

fn who(identity: &str) -> BudgetOwner {
    Arc::new((
        "prj_0123456789ab.room".parse().unwrap(),
        identity.parse().unwrap(),
    ))
}

fn budgets() -> (Clock, Budgets) {
    let clock = Clock::manual(Timestamp::from_millis(0));
    let budgets = Budgets::new(&clock, 20);
    (clock, budgets)
}

fn address(text: &str) -> Option<ClientAddress> {
    Some(text.parse::<IpAddr>().unwrap().into())
}

/// Counts successful calls, up to 100,000.
fn exhaust<E>(take: impl Fn() -> Result<(), E>) -> usize {
    (0..100_000).take_while(|_| take().is_ok()).count()
}

#[test]
fn a_client_that_exceeds_a_rate_is_refused_until_time_has_passed() {
    let (clock, budgets) = budgets();
    let client = newcomer(&budgets, None);
    assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
    assert_eq!(
        client.take_message(&budgets, MESSAGE),
        Err(Excess::Messages)
    );
    assert_eq!(exhaust(|| client.take_change(&budgets)), 200);
    assert_eq!(client.take_change(&budgets), Err(Excess::Changes));
    clock.advance(Duration::from_secs(1));
    assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 200);
    assert_eq!(exhaust(|| client.take_change(&budgets)), 20);
}

/// Proves S-44.
#[test]
fn changes_by_a_participant_with_much_metadata_count_as_several() {
    let (_clock, budgets) = budgets();
    let mut client = newcomer(&budgets, None);
    client.weigh_changes(17);
    assert_eq!(exhaust(|| client.take_change(&budgets)), 11);
    let budgets = Budgets::new(&Clock::manual(Timestamp::from_millis(0)), 1);
    let mut client = newcomer(&budgets, None);
    client.weigh_changes(17);
    assert_eq!(
        exhaust(|| client.take_change(&budgets)),
        2,
        "it can change itself"
    );
}

#[test]
fn offers_that_the_server_has_asked_for_are_no_changes() {
    let (_clock, budgets) = budgets();
    let mut client = newcomer(&budgets, None);
    for _ in 0..1_000 {
        client.ask_for_offer();
        assert_eq!(client.take_offer(&budgets, "v=0"), Ok(()));
    }
    let offers = (0..1_000)
        .take_while(|_| client.take_offer(&budgets, "v=0").is_ok())
        .count();
    assert_eq!(offers, 200, "offers that were not requested");
    (0..1_000).for_each(|_| client.ask_for_offer());
    let offers = (0..1_000)
        .take_while(|_| client.take_offer(&budgets, "v=0").is_ok())
        .count();
    assert_eq!(offers, 100, "a bounded number of requests counts");
}

/// Proves S-52.
#[test]
fn a_participant_that_joins_again_and_again_has_the_rates_of_three() {
    let (clock, budgets) = budgets();
    let join = || budgets.client(who("alice"), None);
    assert_eq!(exhaust(|| join().take_message(&budgets, MESSAGE)), 12_000);
    assert_eq!(exhaust(|| join().take_change(&budgets)), 600);
    assert_eq!(
        budgets
            .client(who("bob"), None)
            .take_message(&budgets, MESSAGE),
        Ok(())
    );
    let elsewhere = Arc::new((
        "prj_0123456789ab.other".parse().unwrap(),
        "alice".parse().unwrap(),
    ));
    assert_eq!(
        budgets.client(elsewhere, None).take_change(&budgets),
        Ok(())
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(exhaust(|| join().take_change(&budgets)), 60);
}

/// Proves S-52.
#[test]
fn an_offer_of_many_sections_or_lines_counts_as_several_changes() {
    assert_eq!(weight_of_offer(&"m=video 9\r\na=x\r\n".repeat(100)), 1);
    assert_eq!(weight_of_offer(&"m=video 9\r\na=x\r\n".repeat(1_000)), 19);
    assert_eq!(weight_of_offer(&"a=candidate:1\n".repeat(5_000)), 1);
    assert_eq!(weight_of_offer(&"a=candidate:1\n".repeat(16_000)), 23);
    let (_clock, budgets) = budgets();
    let mut client = newcomer(&budgets, None);
    let offer = "m=audio 9\r\n".repeat(1_000);
    let offers = (0..1_000)
        .take_while(|_| client.take_offer(&budgets, &offer).is_ok())
        .count();
    assert_eq!(offers, 10);
    let huge = "m=audio 9\r\n".repeat(100_000);
    let mut client = newcomer(&budgets, None);
    assert_eq!(
        (0..1_000)
            .take_while(|_| client.take_offer(&budgets, &huge).is_ok())
            .count(),
        2
    );
}

#[test]
fn bytes_and_long_lists_count_and_so_does_a_step_of_the_clock_not() {
    let (clock, budgets) = budgets();
    let client = newcomer(&budgets, None);
    assert_eq!(
        exhaust(|| client.take_message(&budgets, Weight::new(1024 * 1024, 0))),
        16
    );
    clock.step(3_600_000);
    assert_eq!(
        client.take_message(&budgets, Weight::new(1024 * 1024, 0)),
        Err(Excess::Bytes)
    );
    let client = newcomer(&budgets, None);
    assert_eq!(
        exhaust(|| client.take_message(&budgets, Weight::new(1, 6_400))),
        4_000 / 101
    );
}

/// Proves S-52.
#[test]
fn clients_of_an_address_share_its_budget_and_those_elsewhere_have_their_own() {
    let (clock, budgets) = budgets();
    let here = address("203.0.113.1");
    for _ in 0..ADDRESS_SHARE {
        let client = newcomer(&budgets, here);
        assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
    }
    assert_eq!(
        newcomer(&budgets, here).take_message(&budgets, MESSAGE),
        Err(Excess::Messages)
    );
    let elsewhere = address("203.0.113.2");
    assert_eq!(
        newcomer(&budgets, elsewhere).take_message(&budgets, MESSAGE),
        Ok(())
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        newcomer(&budgets, here).take_message(&budgets, MESSAGE),
        Ok(())
    );
    let changes =
        (0..=ADDRESS_CHANGES).map(|_| exhaust(|| newcomer(&budgets, here).take_change(&budgets)));
    assert_eq!(changes.sum::<usize>(), 20_000);
}

#[test]
fn clients_of_an_ipv6_network_share_the_budget_of_one_address() {
    let (_clock, budgets) = budgets();
    for host in 1..=ADDRESS_SHARE {
        let client = newcomer(&budgets, address(&format!("2001:db8::{host}")));
        assert_eq!(exhaust(|| client.take_message(&budgets, MESSAGE)), 4_000);
    }
    let client = newcomer(&budgets, address("2001:db8::ffff"));
    assert_eq!(
        client.take_message(&budgets, MESSAGE),
        Err(Excess::Messages)
    );
    assert_eq!(
        newcomer(&budgets, address("2001:db8:0:1::1")).take_message(&budgets, MESSAGE),
        Ok(())
    );
}

/// Bytes per section in an offer from Chromium 156, and bytes of everything else in the offer.
const RECEIVED_VIDEO: usize = 5_250;
const RECEIVED_AUDIO: usize = 980;
const SENT_VIDEO: usize = 4_000;
const OTHER: usize = 1_500;

/// Clients behind one address, and their clock.
struct Office {
    clock: Clock,
    budgets: Budgets,
    clients: Vec<ClientBudget>,
}

impl Office {
    fn new(clients: usize) -> Self {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let budgets = Budgets::new(&clock, DEFAULT_CHANGES);
        let address = Some("203.0.113.1".parse::<std::net::IpAddr>().unwrap().into());
        let clients = (0..clients).map(|_| newcomer(&budgets, address)).collect();
        Self {
            clock,
            budgets,
            clients,
        }
    }

    /// Sends a client's message as a WebSocket frame.
    #[track_caller]
    fn send(&mut self, client: usize, message: Request) {
        let request = proto::SignalRequest {
            message: Some(message),
        };
        let frame = SignalFrame::Binary(request.encode_to_vec());
        let read = read(&frame, &mut self.clients[client], &self.budgets);
        assert_eq!(
            read.as_ref(),
            Ok(&request),
            "client {client} at {:?}",
            self.clock.monotonic()
        );
    }

    /// Requests an offer from a client and sends it.
    #[track_caller]
    fn answer_request(&mut self, client: usize, bytes: usize) {
        self.clients[client].ask_for_offer();
        self.send(client, offer(bytes));
    }

    /// Sends the messages that a client sends every five seconds.
    #[track_caller]
    fn ping(&mut self, client: usize) {
        self.send(client, Request::Ping(1));
        self.send(
            client,
            Request::PingReq(proto::Ping {
                timestamp: 1,
                rtt: 1,
            }),
        );
    }
}

fn offer(bytes: usize) -> Request {
    Request::Offer(proto::SessionDescription {
        r#type: "offer".into(),
        sdp: "v".repeat(bytes),
        ..Default::default()
    })
}

fn announcement(number: usize) -> Request {
    let layer = proto::VideoLayer {
        width: 1_280,
        height: 720,
        bitrate: 1_700_000,
        ..Default::default()
    };
    Request::AddTrack(proto::AddTrackRequest {
        cid: format!("0b3d2f4e-9f6a-4a53-8a0f-{number:012}"),
        name: format!("camera {number}"),
        r#type: proto::TrackType::Video.into(),
        source: proto::TrackSource::Camera.into(),
        layers: vec![layer; 3],
        ..Default::default()
    })
}

/// Returns the settings that a client sends when a received track's element becomes visible or is resized.
fn settings(track: usize) -> Request {
    let track_sids = vec![format!("TR_VC{track:010}")];
    Request::TrackSetting(proto::UpdateTrackSettings {
        track_sids,
        width: 640,
        height: 360,
        ..Default::default()
    })
}

fn subscription(track: usize) -> Request {
    let track_sids = vec![format!("TR_VC{track:010}")];
    Request::Subscription(proto::UpdateSubscription {
        track_sids,
        subscribe: true,
        ..Default::default()
    })
}

fn mute(muted: bool) -> Request {
    Request::Mute(proto::MuteTrackRequest {
        sid: "TR_AMabcdefghijkl".into(),
        muted,
    })
}

#[test]
fn a_client_publishes_50_tracks_at_once_and_another_receives_them() {
    let mut office = Office::new(2);
    let (publisher, receiver) = (0, 1);
    for number in 0..50 {
        office.send(publisher, announcement(number));
    }
    for number in 1..=50 {
        office.send(publisher, offer(OTHER + number * SENT_VIDEO));
        office.answer_request(receiver, OTHER + number * RECEIVED_VIDEO);
        office.send(receiver, settings(number));
        office.send(receiver, settings(number));
    }
    // The publisher mutes and unmutes all tracks at once, twice.
    for number in 0..100 {
        office.send(publisher, mute(number < 50));
    }
    office.ping(publisher);
    office.ping(receiver);
}

#[test]
fn a_client_with_two_connections_answers_the_offers_of_50_tracks() {
    let mut office = Office::new(1);
    for number in 1..=50 {
        let sdp = "v".repeat(OTHER + number * 1_500);
        office.send(
            0,
            Request::Answer(proto::SessionDescription {
                r#type: "answer".into(),
                sdp,
                ..Default::default()
            }),
        );
        office.send(0, settings(number));
    }
}

#[test]
fn twenty_clients_behind_one_address_mute_and_unmute_as_fast_as_a_person_can() {
    let mut office = Office::new(20);
    for step in 0..30 * 5 {
        for client in 0..20 {
            office.send(client, mute(step % 2 == 0));
            if step % 25 == 0 {
                office.ping(client);
            }
        }
        office.clock.advance(Duration::from_millis(200));
    }
}

/// Returns the size of a client's offer in a room with this many senders, half of them with video.
fn offer_of_room(senders: usize) -> usize {
    OTHER + senders * RECEIVED_AUDIO + senders / 2 * RECEIVED_VIDEO
}

#[test]
fn a_room_of_500_behind_one_address_fills_within_ten_seconds() {
    const CLIENTS: usize = 500;
    // One in ten clients sends audio, and every second one of these also sends video.
    const SENDS: usize = 10;
    let mut office = Office::new(CLIENTS);
    for newcomer in 0..CLIENTS {
        let senders = newcomer.div_ceil(SENDS);
        office.send(newcomer, offer(offer_of_room(0)));
        if newcomer % SENDS == 0 {
            office.send(newcomer, announcement(0));
            office.send(newcomer, offer(offer_of_room(senders) + SENT_VIDEO));
            for client in 0..newcomer {
                office.answer_request(client, offer_of_room(senders + 1));
                office.send(client, settings(senders));
                office.send(client, subscription(senders));
            }
        }
        if senders > 0 {
            office.answer_request(newcomer, offer_of_room(senders));
        }
        (0..senders).for_each(|track| office.send(newcomer, settings(track)));
        office.clock.advance(Duration::from_millis(20));
        if newcomer % 250 == 249 {
            (0..=newcomer).for_each(|client| office.ping(client));
        }
    }
    // A role change subscribes the client to all tracks again.
    for client in 0..CLIENTS {
        (0..CLIENTS / SENDS).for_each(|track| office.send(client, subscription(track)));
    }
}

/// Proves S-52.
#[test]
fn offers_that_the_server_has_asked_for_are_bounded_too() {
    let mut office = Office::new(1);
    let frame = |bytes| {
        SignalFrame::Binary(
            proto::SignalRequest {
                message: Some(offer(bytes)),
            }
            .encode_to_vec(),
        )
    };
    let read_asked = |office: &mut Office| {
        office.clients[0].ask_for_offer();
        read(&frame(2_000_000), &mut office.clients[0], &office.budgets).is_ok()
    };
    let at_once = (0..100).take_while(|_| read_asked(&mut office)).count();
    assert_eq!(at_once, (64 << 20) / 2_000_020 + (16 << 20) / 2_000_020);
    office.clock.advance(Duration::from_secs(10));
    let after = (0..100).take_while(|_| read_asked(&mut office)).count();
    assert!((25..=27).contains(&after), "{after} in 10 s");
}
