//! Leaving clients: however their connection ends right after their `leave`, they have left.

use std::net::Shutdown;
use std::time::Duration;

use livekit_protocol as proto;
use proto::signal_request::Message as Request;
use proto::signal_response::Message as Response;
use rustix::net::sockopt::{set_socket_linger, set_tcp_cork};

use super::Call;
use super::client::Client;
use crate::support::{Receiver, TestApp, eventually};

/// How a client closes its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// One segment: `leave`, the Close frame and the FIN.
    OneSegment,
    /// The same without a Close frame.
    WithoutClose,
    /// The client closes its sending side and keeps reading.
    HalfClosed,
    /// The connection is reset.
    Reset,
    /// The client requests many responses and does not read them: the server's writes fail before it has read everything.
    RefusedResponses,
}

const ENDINGS: [Ending; 5] = [
    Ending::OneSegment,
    Ending::WithoutClose,
    Ending::HalfClosed,
    Ending::Reset,
    Ending::RefusedResponses,
];

/// More requests than a session buffers.
const REQUESTS: u32 = 300;

impl Client {
    /// Leaves and closes the connection at once.
    fn leave_by(&mut self, ending: Ending) {
        set_tcp_cork(self.tcp(), true).unwrap();
        if ending == Ending::RefusedResponses {
            (0..REQUESTS).for_each(|_| {
                self.write(Request::PingReq(proto::Ping {
                    timestamp: 7,
                    rtt: 0,
                }));
            });
        }
        self.write(Request::Leave(proto::LeaveRequest::default()));
        match ending {
            Ending::OneSegment => self.write_close(),
            Ending::WithoutClose
            | Ending::HalfClosed
            | Ending::Reset
            | Ending::RefusedResponses => self.flush(),
        }
        match ending {
            Ending::OneSegment | Ending::WithoutClose | Ending::HalfClosed => {
                self.tcp().shutdown(Shutdown::Write).unwrap();
            }
            Ending::Reset | Ending::RefusedResponses => {
                set_tcp_cork(self.tcp(), false).unwrap();
                set_socket_linger(self.tcp(), Some(Duration::ZERO)).unwrap();
            }
        }
    }
}

/// Proves S-58.
#[test]
fn a_client_that_leaves_has_left_whatever_ends_its_connection() {
    let (app, receiver) = (TestApp::start_with_webrtc(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room("standup");
    let mut call = Call::new(app);
    // The outcome depends on a race, so each is tried several times.
    for ending in ENDINGS.repeat(4) {
        let alice = call.join("alice", "host");
        let mut client = call.clients.remove(alice);
        client.leave_by(ending);
        if ending != Ending::HalfClosed {
            drop(client);
        }
        call.wait("it is gone", Call::left_at_all);
        let types = call.app.event_types(&receiver);
        assert!(
            types.contains(&"participant.left".to_owned()),
            "{ending:?}: {types:?}"
        );
    }
}

/// Proves S-58.
#[test]
fn a_client_that_leaves_as_soon_as_it_is_connected_has_left() {
    let (app, receiver) = (TestApp::start_with_webrtc(), Receiver::start());
    app.endpoint(&receiver.url);
    app.room("standup");
    let mut call = Call::new(app);
    for count in 1..=10 {
        let token = call.app.token("standup", "alice", "host");
        call.clients
            .push(Client::join(&call.app.api, &token).unwrap());
        call.wait("its media is connected", |call| {
            call.clients[0].transport.connection.is_connected
        });
        call.clients.remove(0).leave_by(Ending::OneSegment);
        call.app.wait_for_event("participant.left", count);
    }
    assert!(
        call.app
            .deliveries("event_type=participant.connection_aborted")
            .is_empty()
    );
}

#[test]
fn a_stop_ends_the_sessions_of_clients_and_asks_them_to_connect_anew() {
    let mut call = Call::start();
    call.join("alice", "host");
    call.join("bob", "guest");
    call.speak(0);
    // str0m treats the end of an unopened channel as a client error.
    call.wait("all have connected", |call| {
        call.clients.iter().all(Client::has_channel)
    });
    let Call {
        app, mut clients, ..
    } = call;
    let stopped = app.now();
    let app = app.restart_after(Duration::from_secs(3_600));
    let sessions = app.get("/v1/sessions").send().expect(200)["sessions"].clone();
    let left: Vec<_> = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["left_at"].clone())
        .collect();
    assert_eq!(left, [stopped.clone(), stopped]);
    for client in &mut clients {
        eventually(|| {
            client.drive();
            client.is_closed
        });
        let Some(Response::Leave(leave)) = client.responses.last() else {
            panic!("{:?}", client.responses)
        };
        assert_eq!(leave.reason(), proto::DisconnectReason::ServerShutdown);
        assert_eq!(leave.action(), proto::leave_request::Action::Reconnect);
    }
}

impl Call {
    fn left_at_all(&self) -> bool {
        let sessions = self.app.get("/v1/sessions?limit=100").send().expect(200);
        sessions["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|session| session.get("left_at").is_some())
    }
}
