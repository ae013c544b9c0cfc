//! The TURN server at the API's listener and over UDP: connectivity for clients behind a strict firewall, and refusals for all others.

#[allow(
    dead_code,
    reason = "the tests of the TURN server use what these do not"
)]
#[path = "../../../media/turn/tests/support/client.rs"]
pub mod client;
#[allow(
    dead_code,
    reason = "the tests of the TURN server use what these do not"
)]
#[path = "../../../media/turn/tests/support/requests.rs"]
mod requests;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conclave::config::{Config, TurnMode};
use conclave_media::embedded::turn_server::credentials::{password, username};
use conclave_model::Secret;
use livekit_protocol as proto;
use proto::signal_response::Message as Response;

use super::Call;
use super::socket::PacketSocket;
use super::whip;
use crate::support::tls::{Connection, connect};
use crate::support::{TestApp, eventually};
use client::{Link, READ_TIMEOUT, TurnClient};
use requests::{code, relayed};

/// The media plane's API secret, from which the credentials are derived.
const API_SECRET: &str = "the-secret-of-the-media-plane-in-tests";

impl PacketSocket for TurnClient {
    fn send(&mut self, packet: &[u8], destination: SocketAddr) {
        TurnClient::send(self, destination, packet);
    }

    fn receive(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        TurnClient::receive(self)
    }
}

/// Connects to a client's TURN server by a transport and makes an allocation.
pub fn relay(server: &proto::IceServer, transport: &str) -> TurnClient {
    let suffix = format!("?transport={transport}");
    let url = server
        .urls
        .iter()
        .find_map(|url| url.strip_suffix(&suffix))
        .expect("a url with this transport");
    let address: SocketAddr = url.strip_prefix("turn:").unwrap().parse().unwrap();
    let link = if transport == "udp" {
        Link::udp(address)
    } else {
        by_tcp(address)
    };
    let mut client = TurnClient::new(link, &server.username, &server.credential);
    assert_eq!(code(&client.allocate()), 0);
    client
}

fn by_tcp(address: SocketAddr) -> Link {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    Link::Stream(Box::new(stream))
}

fn with_turn(config: &mut Config) {
    config.media.rtc.turn.server = TurnMode::On;
    config.media.rtc.turn.udp_port = 0;
    config.media.api_key = Some("API".to_owned());
    config.media.api_secret = Some(Secret::new(API_SECRET));
}

fn start() -> TestApp {
    TestApp::start_with_webrtc_and(with_turn)
}

/// Joins a participant to a new room. Returns its sid.
fn join(app: &TestApp) -> String {
    app.room("relayed");
    app.join("relayed", "alice", "host")
}

/// Returns a participant's credentials with this lifetime.
fn credentials(app: &TestApp, sid: &str, life: Duration) -> (String, String) {
    let key = blake3::derive_key("conclave 2026 credentials of TURN", API_SECRET.as_bytes());
    let username = username(sid, app.clock.now().after(life));
    let password = password(&Secret::new(STANDARD.encode(key)), &username);
    (username, password.reveal().to_owned())
}

/// Returns a client with a participant's valid credentials.
fn client(app: &TestApp, sid: &str, link: Link) -> TurnClient {
    let (username, password) = credentials(app, sid, Duration::from_secs(3_600));
    TurnClient::new(link, &username, &password)
}

fn api(app: &TestApp) -> SocketAddr {
    ([127, 0, 0, 1], app.port()).into()
}

/// Returns a metric's value.
fn metric(app: &TestApp, name: &str) -> f64 {
    let text = app.admin("GET", "/metrics").send().text();
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Returns a media worker's address.
fn media_worker(app: &TestApp) -> SocketAddr {
    let answer = whip::connected(app).text();
    let candidate = answer
        .lines()
        .find(|line| line.starts_with("a=candidate:") && line.contains(" udp "))
        .unwrap();
    let parts: Vec<_> = candidate.split(' ').collect();
    format!("{}:{}", parts[4], parts[5]).parse().unwrap()
}

#[test]
fn a_client_behind_a_relay_sees_and_hears_the_others_and_they_it() {
    for transport in ["udp", "tcp"] {
        let app = start();
        app.room("standup");
        let mut call = Call::new(app);
        let bob = call.join("bob", "host");
        let alice = call.join_relayed("alice", "host", transport);
        let (said, heard) = (call.speak(alice), call.speak(bob));
        call.assert_receives(bob, &said);
        call.assert_receives(alice, &heard);
        let shown = call
            .app
            .get("/v1/rooms/standup/participants")
            .send()
            .expect(200);
        assert_eq!(shown["participants"].as_array().unwrap().len(), 2);
        assert_eq!(
            metric(&call.app, "conclave_turn_allocations"),
            1.,
            "{transport}"
        );
        assert!(
            metric(
                &call.app,
                "conclave_turn_bytes_total{direction=\"from_clients\"}"
            ) > 1_000.
        );
        assert!(
            metric(
                &call.app,
                "conclave_turn_bytes_total{direction=\"to_clients\"}"
            ) > 1_000.
        );
        assert_eq!(
            metric(&call.app, "conclave_turn_refused_total{reason=\"peer\"}"),
            0.
        );
    }
}

#[test]
fn the_quality_of_a_session_names_the_relay() {
    let app = start();
    app.room("standup");
    let mut call = Call::new(app);
    let (alice, bob) = (
        call.join_relayed("alice", "host", "udp"),
        call.join("bob", "host"),
    );
    // The candidate pair is known with the first statistics.
    call.run(Duration::from_millis(1_500));
    let ids = ["alice", "bob"].map(|identity| super::quality::session(&call.app, identity));
    let [relayed, direct] = call.measure([(alice, &ids[0]), (bob, &ids[1])]);
    assert_eq!(relayed["connection"], "turn", "{relayed}");
    assert_eq!(direct["connection"], "udp", "{direct}");
}

#[test]
fn clients_are_given_the_server_with_credentials_of_their_own_and_encoders_too() {
    let app = start();
    app.room("standup");
    let mut call = Call::new(app);
    let alice = call.join("alice", "host");
    let joined = call.clients[alice]
        .responses
        .iter()
        .find_map(|response| match response {
            Response::Join(join) => Some(join.clone()),
            _ => None,
        });
    let servers = joined.unwrap().ice_servers;
    let [server] = servers.as_slice() else {
        panic!("one server, not {servers:?}")
    };
    assert!(
        server
            .username
            .ends_with(&format!(":{}", call.clients[alice].sid)),
        "{}",
        server.username
    );
    let port = call.app.port();
    assert!(
        server.urls[0].starts_with("turn:127.0.0.1:") && server.urls[0].ends_with("?transport=udp")
    );
    assert_eq!(
        server.urls[1],
        format!("turn:127.0.0.1:{port}?transport=tcp")
    );
    let link = &whip::connected(&start()).headers["link"];
    assert!(
        link.contains("?transport=tcp>; rel=\"ice-server\"; username=\""),
        "{link}"
    );
}

#[test]
fn a_server_has_no_relay_unless_it_is_wanted() {
    let app = TestApp::start_with_webrtc();
    app.room("standup");
    let mut call = Call::new(app);
    let alice = call.join("alice", "host");
    let Response::Join(join) = &call.clients[alice].responses[0] else {
        panic!("a join comes first")
    };
    assert!(join.ice_servers.is_empty());
    let mut stranger = client(&call.app, &call.clients[alice].sid, by_tcp(api(&call.app)));
    let allocate = stranger.requests.allocate();
    stranger.write(&allocate);
    stranger.wait_for_end();
}

/// Proves S-29.
#[test]
fn nothing_but_media_workers_is_relayed_to() {
    let app = start();
    let mut alice = client(&app, &join(&app), by_tcp(api(&app)));
    assert_eq!(relayed(&alice.allocate()).ip().to_string(), "127.0.0.1");
    let worker = media_worker(&app);
    for (peer, permit, bind) in [
        (worker, 0, 0),
        // A permission ignores the port; data sent there is not relayed.
        (api(&app), 0, 403),
        ("192.0.2.1:53".parse().unwrap(), 403, 403),
        ("169.254.169.254:80".parse().unwrap(), 403, 403),
        ("[::1]:53".parse().unwrap(), 403, 403),
    ] {
        let requests = [
            alice.requests.permit(&[peer]),
            alice.requests.bind(0x4000, peer),
        ];
        assert_eq!(
            requests.map(|request| alice.code(&request)),
            [permit, bind],
            "{peer}"
        );
    }
    alice.write(&requests::send(api(&app), b"GET / HTTP/1.1\r\n\r\n"));
    eventually(|| metric(&app, "conclave_turn_refused_total{reason=\"peer\"}") == 8.);
}

/// Proves S-30.
#[test]
fn an_allocation_ends_when_its_participant_leaves_or_its_room_ends() {
    let app = start();
    app.room("other");
    let other = app.join("other", "bob", "host");
    let mut bob = client(&app, &other, by_tcp(api(&app)));
    assert_eq!(code(&bob.allocate()), 0);
    let ends: [fn(&TestApp, &str); 3] = [
        |app, sid| app.leave(sid, true),
        |app, _| {
            app.delete("/v1/rooms/relayed/participants/alice")
                .send()
                .expect_empty(204);
        },
        |app, _| app.delete("/v1/rooms/relayed").send().expect_empty(204),
    ];
    app.room("relayed");
    for end in ends {
        let sid = app.join("relayed", "alice", "host");
        let mut alice = client(&app, &sid, by_tcp(api(&app)));
        assert_eq!(code(&alice.allocate()), 0);
        end(&app, &sid);
        alice.wait_for_end();
        eventually(|| metric(&app, "conclave_turn_allocations") == 1.);
        let mut again = client(&app, &sid, by_tcp(api(&app)));
        assert_eq!(
            code(&again.allocate()),
            401,
            "its credentials are worth nothing"
        );
    }
    let refresh = bob.requests.refresh(600);
    assert_eq!(bob.code(&refresh), 0);
}

/// Proves S-30.
#[test]
fn a_token_that_joins_again_and_again_keeps_the_allocations_of_one_participant() {
    let app = start();
    app.room("relayed");
    let mut clients = Vec::new();
    for _ in 0..3 {
        let sid = app.join("relayed", "alice", "host");
        for _ in 0..24 {
            let mut alice = client(&app, &sid, by_tcp(api(&app)));
            assert_eq!(code(&alice.allocate()), 0);
            clients.push(alice);
        }
    }
    eventually(|| metric(&app, "conclave_turn_allocations") == 24.);
}

/// Proves S-31.
#[test]
fn empty_messages_at_full_speed_hold_up_no_request() {
    let app = start();
    let mut alice = client(&app, &join(&app), by_tcp(api(&app)));
    let worker = media_worker(&app);
    assert_eq!(code(&alice.allocate()), 0);
    let bind = alice.requests.bind(0x4000, worker);
    assert_eq!(alice.code(&bind), 0);
    let mut stream = alice.into_tcp().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(2);
    let flooding = std::thread::spawn(move || {
        let empty = requests::channel_data(0x4000, b"").repeat(4_096);
        stream
            .set_write_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        while std::time::Instant::now() < end {
            // Unsent data is buffered, as for any client.
            let _ = stream.write_all(&empty);
        }
    });
    while !flooding.is_finished() {
        app.get("/v1/rooms").send().expect(200);
    }
    flooding.join().unwrap();
    eventually(|| metric(&app, "conclave_turn_allocations") == 0.);
    assert_eq!(
        metric(
            &app,
            "conclave_turn_bytes_total{direction=\"from_clients\"}"
        ),
        0.,
        "nothing was relayed"
    );
}

#[test]
fn credentials_are_of_this_server_and_expire_and_a_participant_has_a_quota() {
    let app = start();
    let sid = join(&app);
    let (username, password) = credentials(&app, &sid, Duration::from_secs(60));
    let old = format!("1:{sid}");
    for (name, password) in [
        (username.as_str(), "wrong"),
        (&old, &password),
        ("nobody", &password),
    ] {
        let mut stranger = TurnClient::new(by_tcp(api(&app)), name, password);
        assert_eq!(code(&stranger.allocate()), 401, "{name}");
    }
    assert_eq!(
        metric(&app, "conclave_turn_refused_total{reason=\"credentials\"}"),
        3.
    );
    let mut alice = TurnClient::new(by_tcp(api(&app)), &username, &password);
    assert_eq!(code(&alice.allocate()), 0);
    app.clock.advance(Duration::from_secs(60));
    let refresh = alice.requests.refresh(600);
    assert_eq!(alice.code(&refresh), 401, "they have expired");
    drop(alice);
    // The quota applies to all clients of one participant.
    eventually(|| metric(&app, "conclave_turn_allocations") == 0.);
    let mut clients: Vec<_> = (0..25)
        .map(|_| client(&app, &sid, by_tcp(api(&app))))
        .collect();
    let codes: Vec<_> = clients
        .iter_mut()
        .map(|client| code(&client.allocate()))
        .collect();
    assert!(
        codes[..24].iter().all(|code| *code == 0) && codes[24] == 486,
        "{codes:?}"
    );
    drop(clients);
    eventually(|| metric(&app, "conclave_turn_allocations") == 0.);
    let mut again = client(&app, &sid, by_tcp(api(&app)));
    assert_eq!(code(&again.allocate()), 0);
}

/// Starts an app with TLS. Also returns its certificate.
fn start_with_tls(files: &tempfile::TempDir) -> (TestApp, Vec<u8>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&cert, made.cert.pem()).unwrap();
    let app = TestApp::start_with_webrtc_and(|config| {
        with_turn(config);
        config.tls.cert = Some(cert);
        config.tls.key = Some(key);
    });
    (app, made.cert.pem().into_bytes())
}

fn by_tls(app: &TestApp, certificate: &[u8]) -> Connection {
    connect(app.port(), "localhost", certificate, app.clock.now()).unwrap()
}

/// Joins a participant to a new room. Returns its sid.
fn join_by_tls(app: &TestApp, certificate: &[u8]) -> String {
    let create = |path: &str, body: &str| {
        let mut connection = by_tls(app, certificate);
        write!(
            connection,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            app.key,
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
        serde_json::from_str::<serde_json::Value>(response.split_once("\r\n\r\n").unwrap().1)
            .unwrap()
    };
    create("/v1/rooms", r#"{"name":"relayed"}"#);
    let made = create(
        "/v1/tokens",
        r#"{"room":"relayed","identity":"alice","role":"host"}"#,
    );
    let joined = app.join_with(made["token"].as_str().unwrap()).expect(201);
    joined["sid"].as_str().unwrap().to_owned()
}

/// Returns the response to a request over TLS.
fn http(mut connection: Connection) -> String {
    connection
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

/// Proves S-30.
#[test]
fn one_port_has_the_api_and_the_relay_by_tls_and_garbage_disturbs_neither() {
    let files = tempfile::tempdir().unwrap();
    let (app, certificate) = start_with_tls(&files);
    let sid = join_by_tls(&app, &certificate);
    let relay = || {
        let connection = by_tls(&app, &certificate);
        connection
            .sock
            .set_read_timeout(Some(READ_TIMEOUT))
            .unwrap();
        client(&app, &sid, Link::Stream(Box::new(connection)))
    };
    let mut alice = relay();
    assert_eq!(code(&alice.allocate()), 0);
    assert!(http(by_tls(&app, &certificate)).starts_with("HTTP/1.1 200 "));
    for garbage in [
        &b"\0\x03\0\0GET / HTTP/1.1\r\n\r\n.."[..],
        b"\0\0\xff\xff",
        &[0; 500],
        &[0xff; 500],
        b"\x40\0\0\x01.",
    ] {
        let mut stranger = relay();
        (0..20).for_each(|_| stranger.write(garbage));
        stranger.wait_for_end();
    }
    // Unencrypted bytes never reach the relay.
    let mut plain = client(&app, &sid, by_tcp(api(&app)));
    let allocate = plain.requests.allocate();
    plain.write(&allocate);
    plain.wait_for_end();
    let refresh = alice.requests.refresh(600);
    assert_eq!(alice.code(&refresh), 0);
    assert_eq!(metric(&app, "conclave_turn_allocations"), 1.);
    assert!(http(by_tls(&app, &certificate)).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_connection_of_the_relay_counts_as_one_of_the_listener_and_ends_with_the_server() {
    let app = start();
    let mut alice = client(&app, &join(&app), by_tcp(api(&app)));
    assert_eq!(code(&alice.allocate()), 0);
    drop(app);
    alice.wait_for_end();
}
