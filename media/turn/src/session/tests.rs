use std::collections::HashMap;
use std::time::Duration;

use conclave_model::{Clock, MediaAddress, Secret, Timestamp};
use stun_types::attribute::RawAttribute;
use turn_types::attribute::EvenPort;
use turn_types::message::CONNECT;

use super::*;
use crate::admission::RelayAccess;
use crate::credentials::username;
use crate::limits::{MAX_ALLOCATIONS, MAX_PER_PARTICIPANT};
use crate::requests::{
    Requests, binding, channel_data, code, indicated, lifetime, mapped, relayed, send,
};
use crate::shared::TurnSettings;

const SECRET: &str = "hush";
const HOUR: Duration = Duration::from_secs(3_600);

/// Server with a media worker at 192.0.2.1:7882, which is bound to 10.0.0.1.
struct Fixture {
    shared: Arc<SharedState>,
    clock: Clock,
    /// Number of opened sockets.
    opened: u16,
    /// Admitted participants, by name.
    admitted: HashMap<&'static str, RelayAccess>,
}

/// Client with its requests.
struct Client {
    session: TurnSession,
    requests: Requests,
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn worker() -> SocketAddr {
    address("192.0.2.1:7882")
}

fn bound() -> SocketAddr {
    address("10.0.0.1:7882")
}

impl Fixture {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_millis(1_000_000_000));
        let peers = [MediaAddress {
            bound: bound(),
            advertised: worker(),
        }];
        let shared = Arc::new(SharedState::new(TurnSettings {
            secret: Secret::new(SECRET),
            peers: &peers,
            clock: clock.clone(),
            allocation_timeout: HOUR,
            max_allocations: MAX_ALLOCATIONS,
        }));
        let admit = |name| {
            (
                name,
                shared
                    .participants
                    .admit(name, "prj_000000000001".parse().unwrap()),
            )
        };
        let admitted = ["PA_alice", "PA_bob"].map(admit).into();
        Self {
            shared,
            clock,
            opened: 0,
            admitted,
        }
    }

    fn client(&self, client: &str, name: &str) -> Client {
        let username = username(name, self.clock.now().after(HOUR));
        let password = password(&Secret::new(SECRET), &username);
        self.client_with(client, &username, password.reveal())
    }

    fn client_with(&self, client: &str, username: &str, password: &str) -> Client {
        let session = TurnSession::new(
            Arc::clone(&self.shared),
            address(client),
            ClientTransport::Udp,
        );
        Client {
            session,
            requests: Requests::new(username, password),
        }
    }

    /// Sends a message, and returns the response.
    fn ask(&mut self, client: &mut Client, message: &[u8]) -> Option<Vec<u8>> {
        let opened = &mut self.opened;
        let reaction = client.session.receive(message, &mut |_| {
            *opened += 1;
            Ok(*opened)
        });
        match reaction {
            TurnReaction::Reply(response) => Some(response),
            TurnReaction::Nothing => None,
            TurnReaction::Relay { .. } => panic!("a request is not relayed"),
        }
    }

    /// Sends an Allocate request without credentials, to get the challenge.
    fn fetch_challenge(&mut self, client: &mut Client) {
        let allocate = client.requests.allocate();
        let challenge = self.ask(client, &allocate).unwrap();
        assert_eq!(code(&challenge), 401);
        client.requests.take_challenge(&challenge);
    }

    /// Allocates: an Allocate request, and another with credentials.
    fn allocate(&mut self, client: &mut Client) -> Vec<u8> {
        self.fetch_challenge(client);
        let allocate = client.requests.allocate();
        self.ask(client, &allocate).unwrap()
    }

    fn allocated(&mut self) -> Client {
        let mut client = self.client("198.51.100.1:5000", "PA_alice");
        assert_eq!(code(&self.allocate(&mut client)), 0);
        client
    }

    fn code(&mut self, client: &mut Client, message: &[u8]) -> u16 {
        code(&self.ask(client, message).unwrap())
    }

    fn refused(&self, reason: TurnRefusal) -> u64 {
        self.shared.metrics.refused(reason).load(Ordering::Relaxed)
    }
}

impl Client {
    /// Returns the target and payload of a relayed message.
    fn relays(&mut self, message: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        match self
            .session
            .receive(message, &mut |_| unreachable!("no socket is opened"))
        {
            TurnReaction::Relay { to, payload } => Some((to, payload.to_vec())),
            TurnReaction::Nothing => None,
            TurnReaction::Reply(response) => panic!("an answer: {response:?}"),
        }
    }

    fn relayed(&self, from: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.session
            .push_relayed(from, payload, &mut out)
            .then_some(out)
    }
}

#[test]
fn a_client_with_credentials_gets_an_allocation_and_its_media_is_relayed_both_ways() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.client("198.51.100.1:5000", "PA_alice");
    let response = fixture.allocate(&mut alice);
    assert_eq!(
        // The first socket of the fixture has port 1.
        (relayed(&response), lifetime(&response)),
        (address("10.0.0.1:1"), 600)
    );
    assert_eq!(
        alice.relays(&send(worker(), b"early")),
        None,
        "nothing is permitted yet"
    );
    assert_eq!(alice.relayed(bound(), b"early"), None);

    let permit = alice.requests.permit(&[worker()]);
    assert_eq!(fixture.code(&mut alice, &permit), 0);
    assert_eq!(
        alice.relays(&send(worker(), b"ping")),
        Some((bound(), b"ping".to_vec()))
    );
    assert_eq!(
        indicated(&alice.relayed(bound(), b"pong").unwrap()),
        (worker(), b"pong".to_vec())
    );

    let bind = alice.requests.bind(0x4000, worker());
    assert_eq!(fixture.code(&mut alice, &bind), 0);
    assert_eq!(
        alice.relays(&channel_data(0x4000, b"ping!")),
        Some((bound(), b"ping!".to_vec()))
    );
    assert_eq!(
        alice.relayed(bound(), b"pong!").unwrap(),
        // Without padding, which only streams have.
        channel_data(0x4000, b"pong!")[..9]
    );
    assert_eq!(
        alice.relayed(address("10.0.0.1:7883"), b"other"),
        None,
        "no media worker sends from there"
    );
}

#[test]
fn an_allocation_ends_with_its_time_and_at_once_if_its_client_wants() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    fixture.clock.advance(Duration::from_secs(599));
    // The requested lifetime is ignored.
    let refresh = alice.requests.refresh(3_600);
    let refreshed = fixture.ask(&mut alice, &refresh).unwrap();
    assert_eq!((code(&refreshed), lifetime(&refreshed)), (0, 600));
    fixture.clock.advance(Duration::from_secs(599));
    alice.session.expire();
    assert!(alice.session.has_allocation());
    fixture.clock.advance(Duration::from_secs(1));
    alice.session.expire();
    assert!(!alice.session.has_allocation());
    assert_eq!(fixture.code(&mut alice, &refresh), 437);
    let allocate = alice.requests.allocate();
    assert_eq!(fixture.code(&mut alice, &allocate), 0);
    let end = alice.requests.refresh(0);
    assert_eq!(lifetime(&fixture.ask(&mut alice, &end).unwrap()), 0);
    assert!(!alice.session.has_allocation());
    assert_eq!(
        fixture.code(&mut alice, &end),
        0,
        "an allocation may have ended before"
    );
    assert_eq!(
        (
            fixture.shared.quotas.total(),
            fixture.shared.metrics.allocations.load(Ordering::Relaxed)
        ),
        (0, 0)
    );
}

#[test]
fn an_allocation_ends_when_its_participant_leaves() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    let bind = alice.requests.bind(0x4000, worker());
    assert_eq!(fixture.code(&mut alice, &bind), 0);
    assert!(alice.relays(&channel_data(0x4000, b"ping")).is_some());
    fixture.admitted.remove("PA_alice");
    assert_eq!(
        alice.relays(&channel_data(0x4000, b"ping")),
        None,
        "at once"
    );
    assert_eq!(alice.relays(&send(worker(), b"ping")), None);
    assert_eq!(alice.relayed(bound(), b"pong"), None);
    let refresh = alice.requests.refresh(600);
    assert_eq!(fixture.code(&mut alice, &refresh), 401);
    alice.session.expire();
    assert!(!alice.session.has_allocation());
    assert_eq!(
        (
            fixture.shared.quotas.total(),
            fixture.refused(TurnRefusal::Credentials)
        ),
        (0, 1)
    );
    // Valid credentials are not enough once the participant has left.
    let mut later = fixture.client("198.51.100.1:5001", "PA_alice");
    assert_eq!(code(&fixture.allocate(&mut later)), 401);
}

#[test]
fn empty_datagrams_are_dropped() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    let bind = alice.requests.bind(0x4000, worker());
    assert_eq!(fixture.code(&mut alice, &bind), 0);
    assert_eq!(alice.relays(&channel_data(0x4000, b"")), None);
    assert_eq!(alice.relays(&send(worker(), b"")), None);
    assert_eq!(fixture.refused(TurnRefusal::Peer), 0, "they are no offence");
}

#[test]
fn an_ipv4_address_in_ipv6_is_an_ipv4_address() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.client("[::ffff:198.51.100.1]:5000", "PA_alice");
    let response = fixture.allocate(&mut alice);
    assert_eq!(mapped(&response), address("198.51.100.1:5000"));
    assert_eq!(
        mapped(&fixture.ask(&mut alice, &binding()).unwrap()),
        address("198.51.100.1:5000")
    );
}

/// Proves S-29.
#[test]
fn only_media_workers_may_be_sent_to() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    let others = [
        // The bound address of the media worker: clients know the advertised one only.
        "10.0.0.1:7882",
        "127.0.0.1:7882",
        "8.8.8.8:53",
        "[::1]:7882",
        "169.254.169.254:80",
        "192.0.2.2:7882",
    ];
    for other in others.map(address) {
        let (permit, bind) = (
            alice.requests.permit(&[worker(), other]),
            alice.requests.bind(0x4000, other),
        );
        assert_eq!(
            (
                fixture.code(&mut alice, &permit),
                fixture.code(&mut alice, &bind)
            ),
            (403, 403),
            "{other}"
        );
    }
    assert_eq!(
        alice.relays(&send(worker(), b"ping")),
        None,
        "a request that is refused permits nothing"
    );
    // A media worker's address, but not its port.
    let port = address("192.0.2.1:22");
    let (permit, bind) = (
        alice.requests.permit(&[port]),
        alice.requests.bind(0x4000, port),
    );
    assert_eq!(
        (
            fixture.code(&mut alice, &permit),
            fixture.code(&mut alice, &bind)
        ),
        (0, 403),
        "a permission has no port"
    );
    assert_eq!(alice.relays(&send(port, b"ping")), None);
    assert_eq!(alice.relays(&channel_data(0x4000, b"ping")), None);
    // Two requests per address, the early datagram, and three more refusals for the port.
    assert_eq!(fixture.refused(TurnRefusal::Peer), 6 * 2 + 1 + 3);
}

/// Proves S-29.
#[test]
fn credentials_that_are_wrong_or_have_expired_are_refused_and_counted() {
    let mut fixture = Fixture::new();
    let valid = username("PA_alice", fixture.clock.now().after(HOUR));
    let expired = username("PA_alice", fixture.clock.now());
    let of = |name: &str| password(&Secret::new(SECRET), name).reveal().to_owned();
    let other = password(&Secret::new("other"), &valid).reveal().to_owned();
    for (name, password) in [
        (&valid, other),
        (&expired, of(&expired)),
        (&valid, of("1:PA_alice")),
    ] {
        let mut client = fixture.client_with("198.51.100.1:5000", name, &password);
        assert_eq!(code(&fixture.allocate(&mut client)), 401, "{name}");
        assert!(!client.session.has_allocation());
    }
    assert_eq!(fixture.refused(TurnRefusal::Credentials), 3);
    let mut alice = fixture.allocated();
    fixture.clock.advance(HOUR - Duration::from_secs(1));
    let allocate = alice.requests.allocate();
    assert_eq!(fixture.code(&mut alice, &allocate), 0);
    fixture.clock.advance(Duration::from_secs(1));
    let refresh = alice.requests.refresh(600);
    let challenge = fixture.ask(&mut alice, &refresh).unwrap();
    assert_eq!(code(&challenge), 438, "the nonce is older than an hour");
    alice.requests.take_challenge(&challenge);
    let refresh = alice.requests.refresh(600);
    assert_eq!(
        fixture.code(&mut alice, &refresh),
        401,
        "the credentials end meanwhile"
    );
}

#[test]
fn an_allocation_belongs_to_one_participant() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    let mut bob = fixture.client("198.51.100.1:5000", "PA_bob");
    fixture.fetch_challenge(&mut bob);
    for request in [
        bob.requests.allocate(),
        bob.requests.refresh(0),
        bob.requests.permit(&[worker()]),
    ] {
        assert_eq!(fixture.code(&mut alice, &request), 441);
    }
    assert!(alice.session.has_allocation());
}

#[test]
fn an_allocation_that_is_asked_for_twice_is_one() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.client("198.51.100.1:5000", "PA_alice");
    fixture.fetch_challenge(&mut alice);
    let allocate = alice.requests.allocate();
    let answers = [
        fixture.ask(&mut alice, &allocate).unwrap(),
        fixture.ask(&mut alice, &allocate).unwrap(),
    ];
    assert_eq!(
        answers[0], answers[1],
        "the first answer may have been lost"
    );
    let another = alice.requests.allocate();
    assert_eq!(
        (fixture.code(&mut alice, &another), fixture.opened),
        (437, 1)
    );
}

/// Proves S-30.
#[test]
fn a_participant_has_a_quota() {
    let mut fixture = Fixture::new();
    let mut clients: Vec<_> = (0..=MAX_PER_PARTICIPANT)
        .map(|port| fixture.client(&format!("198.51.100.1:{}", 5_000 + port), "PA_alice"))
        .collect();
    let codes: Vec<_> = clients
        .iter_mut()
        .map(|client| code(&fixture.allocate(client)))
        .collect();
    assert!(
        codes[..MAX_PER_PARTICIPANT].iter().all(|code| *code == 0)
            && codes[MAX_PER_PARTICIPANT] == 486,
        "{codes:?}"
    );
    assert_eq!(fixture.refused(TurnRefusal::Quota), 1);
    drop(clients.remove(0));
    let last = clients.last_mut().unwrap();
    let allocate = last.requests.allocate();
    assert_eq!(fixture.code(last, &allocate), 0);
}

#[test]
fn a_server_without_sockets_says_so() {
    let fixture = Fixture::new();
    let mut alice = fixture.client("198.51.100.1:5000", "PA_alice");
    let mut fail = |_| Err(io::ErrorKind::Other.into());
    let allocate = alice.requests.allocate();
    let TurnReaction::Reply(challenge) = alice.session.receive(&allocate, &mut fail) else {
        panic!("no challenge")
    };
    alice.requests.take_challenge(&challenge);
    let allocate = alice.requests.allocate();
    let TurnReaction::Reply(response) = alice.session.receive(&allocate, &mut fail) else {
        panic!("no answer")
    };
    assert_eq!((code(&response), fixture.shared.quotas.total()), (508, 0));
}

#[test]
fn requests_that_ask_for_what_there_is_not_fail_with_the_code_of_the_standard() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.client("198.51.100.1:5000", "PA_alice");
    fixture.fetch_challenge(&mut alice);
    let (udp, tcp) = (RequestedTransport::new(17), RequestedTransport::new(6));
    let (ipv4, ipv6) = (
        RequestedAddressFamily::new(AddressFamily::IPV4),
        RequestedAddressFamily::new(AddressFamily::IPV6),
    );
    let requests = alice.requests.clone();
    let of = |method, attributes: &[&dyn stun_types::prelude::AttributeWrite]| {
        requests.request(method, &[], attributes)
    };
    for (request, expected) in [
        (requests.permit(&[worker()]), 437),
        (requests.bind(0x4000, worker()), 437),
        (requests.refresh(600), 437),
        (of(ALLOCATE, &[]), 400),
        (of(ALLOCATE, &[&tcp]), 442),
        (of(ALLOCATE, &[&udp, &ipv6]), 440),
        (of(ALLOCATE, &[&udp, &EvenPort::new(true)]), 420),
        (
            of(ALLOCATE, &[&udp, &RawAttribute::new(0x7fff.into(), b"?")]),
            420,
        ),
        // A method of TURN over TCP (RFC 6062).
        (of(CONNECT, &[]), 400),
        (
            of(
                ALLOCATE,
                &[&udp, &ipv4, &RawAttribute::new(0x8fff.into(), b"?")],
            ),
            0,
        ),
        (requests.permit(&[]), 400),
        (requests.bind(0x3fff, worker()), 400),
        (requests.request(CHANNEL_BIND, &[worker()], &[]), 400),
        (
            requests.request(
                CHANNEL_BIND,
                &[worker(), worker()],
                &[&ChannelNumber::new(0x4000)],
            ),
            400,
        ),
    ] {
        assert_eq!(fixture.code(&mut alice, &request), expected);
    }
}

/// Proves S-30.
#[test]
fn an_unauthenticated_client_gets_few_short_responses_and_leaves_no_state() {
    let mut fixture = Fixture::new();
    let mut stranger = fixture.client("203.0.113.1:5000", "PA_nobody");
    let allocate = stranger.requests.allocate();
    let bytes = |response: Vec<u8>| response.len();
    // Including the IPv4 and UDP headers, which are sent either way.
    let factor = |answer: usize, request: usize| (answer + 28) as f64 / (request + 28) as f64;
    let challenge = fixture.ask(&mut stranger, &allocate).map(bytes).unwrap();
    assert!(
        factor(challenge, allocate.len()) < 2.,
        "{challenge} bytes for {}",
        allocate.len()
    );
    let bound = fixture.ask(&mut stranger, &binding()).map(bytes).unwrap();
    assert!(factor(bound, binding().len()) < 1.5, "{bound}");
    let answers = (0..1_000)
        .filter(|_| fixture.ask(&mut stranger, &allocate).is_some())
        .count();
    // The burst of 500, less the challenge and the Binding response.
    assert_eq!(answers, 498);
    assert_eq!(
        (
            fixture.refused(TurnRefusal::Rate),
            fixture.shared.quotas.total()
        ),
        (502, 0)
    );
    assert!(!stranger.session.has_allocation());
}

#[test]
fn only_requests_get_a_response() {
    let mut fixture = Fixture::new();
    let mut alice = fixture.allocated();
    let request = alice.requests.refresh(600);
    // Longer than its header announces.
    let longer = [&request[..], &[0; 4]].concat();
    let response = fixture.ask(&mut alice, &request).unwrap();
    for bytes in [
        &b""[..],
        b"\0",
        &request[..request.len() - 4],
        &longer,
        &response,
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 40],
    ] {
        assert_eq!(fixture.ask(&mut alice, bytes), None, "{bytes:?}");
    }
    for bytes in [
        &[0x40_u8][..],
        &[0x40, 0, 0, 9, 1],
        &channel_data(0x4000, b"no channel"),
    ] {
        assert_eq!(alice.relays(bytes), None, "{bytes:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_unauthenticated_bytes_allocate_or_are_relayed(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), is_stun in proptest::bool::ANY,
    ) {
        let fixture = Fixture::new();
        let mut client = fixture.client("203.0.113.1:5000", "PA_nobody");
        let mut bytes = bytes;
        if is_stun && bytes.len() >= 20 {
            let length = u16::try_from(bytes.len() / 4 * 4 - 20).unwrap();
            bytes.truncate(20 + usize::from(length));
            bytes[0] &= 0x3f;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[4..8].copy_from_slice(&[0x21, 0x12, 0xa4, 0x42]);
        }
        let reaction = client.session.receive(&bytes, &mut |_| panic!("a socket"));
        let is_relayed = matches!(reaction, TurnReaction::Relay { .. });
        proptest::prop_assert!(!is_relayed);
        proptest::prop_assert!(!client.session.has_allocation());
    }
}
