//! Several servers on one PostgreSQL database, each with requests from clients: a standby forwards them to the active server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use conclave_model::Clock;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use test_postgres::{Cluster, Database, Proxy};

use crate::deployment::{Deployment, Running, Starting};
use crate::standby::{Waiting, until, until_reported, until_role_at};
use crate::support::tls::connect;
use crate::support::{Request, Response, WAIT_LIMIT, eventually};

/// A cluster node that has not been active.
pub struct Standby {
    deployment: Deployment,
    pub starting: Starting,
    pub waiting: Waiting,
}

impl Standby {
    pub fn start(first: &Deployment, url: &str) -> Self {
        Self::start_with(first, url, |deployment| deployment)
    }

    fn start_with(
        first: &Deployment,
        url: &str,
        change: impl FnOnce(Deployment) -> Deployment,
    ) -> Self {
        let deployment = change(node(url));
        deployment.copy_keys(first);
        let starting = deployment.spawn();
        let waiting = Waiting::of(&deployment);
        until_role_at(&waiting.admin, "standby");
        Self {
            deployment,
            starting,
            waiting,
        }
    }

    fn request(&self, key: &str, method: &str, path: &str) -> Request {
        Request::new(method, format!("{}{path}", self.waiting.api)).bearer(key)
    }

    fn address(&self) -> SocketAddr {
        self.waiting
            .api
            .trim_start_matches("http://")
            .parse()
            .unwrap()
    }

    /// Waits until it is active.
    fn ready(self) -> (Deployment, Running) {
        let running = self.starting.ready(&self.deployment);
        (self.deployment, running)
    }
}

/// Returns settings for a node. All nodes are at one address.
fn node(url: &str) -> Deployment {
    let deployment = Deployment::new().sharing(url.to_owned());
    let deployment = deployment.with("CONCLAVE_CLUSTER__URL", "http://127.0.0.1:0");
    deployment.with("CONCLAVE_HTTP__TRUSTED_PROXIES", "127.0.0.1")
}

/// Starts an active server, and a database whose key stays valid when another development server becomes active.
pub fn active(
    database: &Database<'_>,
    change: impl FnOnce(Deployment) -> Deployment,
) -> (Deployment, Running) {
    let first = change(node(&database.url()));
    let active = first.start();
    database.run("UPDATE api_keys SET label = 'kept'");
    (first, active)
}

fn room(name: &str) -> Value {
    json!({"name": name, "empty_timeout_seconds": 600})
}

fn rooms(response: &Response) -> Vec<String> {
    let rooms = response.expect(200)["rooms"].clone();
    rooms
        .as_array()
        .unwrap()
        .iter()
        .map(|room| room["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_standby_passes_on_the_api_and_answers_from_the_active_server_only() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, active) = active(&database, |deployment| deployment);
    let standby = Standby::start(
        &first,
        &format!("{}?application_name=standby", database.url()),
    );
    let call = |method, path| standby.request(&active.key, method, path);
    call("POST", "/v1/rooms").json(room("a")).send().expect(201);
    assert_eq!(rooms(&active.get("/v1/rooms").send()), ["a"]);
    assert_eq!(rooms(&call("GET", "/v1/rooms").send()), ["a"]);
    call("GET", "/v1/rooms")
        .bearer("wrong")
        .send()
        .expect_error(401, "unauthorized", None);
    call("POST", "/v1/rooms")
        .raw(vec![b' '; 70_000])
        .send()
        .expect_error(413, "payload_too_large", None);
    call("POST", "/whip/no-such-key")
        .send()
        .expect_error(404, "ingress_not_found", None);
    // One key, two servers: one of them stores the response.
    let created = call("POST", "/v1/rooms")
        .json(room("b"))
        .idempotency_key("k")
        .send()
        .expect(201);
    let replayed = active
        .post("/v1/rooms")
        .json(room("b"))
        .idempotency_key("k")
        .send();
    assert_eq!(
        (
            replayed.headers["idempotency-replayed"].as_str(),
            replayed.json()
        ),
        ("true", created)
    );
    let sessions =
        database.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'standby'");
    assert_eq!(sessions.trim(), "1", "what passes costs no session");
}

/// Sends a room list request over TLS, and returns the response.
fn rooms_over_tls(standby: &Standby, key: &str, certificate: &[u8]) -> String {
    let port = standby
        .waiting
        .api
        .rsplit_once(':')
        .unwrap()
        .1
        .parse()
        .unwrap();
    let mut connection = connect(port, "127.0.0.1", certificate, Clock::system().now()).unwrap();
    let request = format!(
        "GET /v1/rooms HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn a_standby_passes_requests_on_over_tls_to_a_server_whose_authority_the_system_trusts() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, files) = (cluster.database(), tempfile::tempdir().unwrap());
    let signed = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = signed.cert.pem();
    let [cert, key] =
        ["cert.pem", "key.pem"].map(|name| files.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&cert, &certificate).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let encrypted = |deployment: Deployment| {
        let deployment = deployment
            .with("CONCLAVE_TLS__CERT", &cert)
            .with("CONCLAVE_TLS__KEY", &key);
        deployment.with("CONCLAVE_CLUSTER__URL", "https://127.0.0.1:0")
    };
    let (first, active) = active(&database, encrypted);
    let trusting = Standby::start_with(&first, &database.url(), |deployment| {
        encrypted(deployment).with("SSL_CERT_FILE", &cert)
    });
    let [passed, refused] = std::thread::scope(|scope| {
        let other = Standby::start_with(&first, &database.url(), encrypted);
        let refused = scope.spawn({
            let (key, certificate) = (&active.key, &certificate);
            move || rooms_over_tls(&other, key, certificate.as_bytes())
        });
        [
            rooms_over_tls(&trusting, &active.key, certificate.as_bytes()),
            refused.join().unwrap(),
        ]
    });
    assert!(
        passed.starts_with("HTTP/1.1 200 ") && passed.contains("\"rooms\":[]"),
        "{passed}"
    );
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("database_unavailable"),
        "{refused}"
    );
}

#[test]
fn a_client_joins_through_a_standby() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, active) = active(&database, |deployment| deployment);
    let standby = Standby::start(&first, &database.url());
    active.room("a", 600);
    let url = format!(
        "ws://{}/rtc?access_token={}&protocol=16&sdk=js",
        standby.address(),
        active.token("a", "eve", "host")
    );
    let (mut websocket, response) =
        tungstenite::client(url, TcpStream::connect(standby.address()).unwrap())
            .expect("a websocket");
    assert_eq!(response.status().as_u16(), 101);
    websocket
        .get_ref()
        .set_read_timeout(Some(WAIT_LIMIT))
        .unwrap();
    assert!(
        websocket.read().unwrap().is_binary(),
        "the server's first message"
    );
    active.kill();
    while websocket.read().is_ok() {}
}

#[test]
fn requests_wait_while_no_server_is_active_and_go_to_the_next_one() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, active) = active(&database, |deployment| deployment);
    let next = Standby::start(&first, &database.url());
    let third = Standby::start(&first, &database.url());
    let key = active.key.clone();
    active.kill();
    let changes = [&next, &third].map(|standby| {
        let name = format!("of-{}", standby.address().port());
        let request = standby.request(&key, "POST", "/v1/rooms").json(room(&name));
        thread::spawn(move || request.send())
    });
    let reads = [&next, &third].map(|standby| {
        let request = standby.request(&key, "GET", "/v1/rooms");
        thread::spawn(move || request.send())
    });
    changes
        .into_iter()
        .for_each(|change| drop(change.join().unwrap().expect(201)));
    reads
        .into_iter()
        .for_each(|read| drop(rooms(&read.join().unwrap())));
    // One of them took over; the other forwards.
    for standby in [&next, &third] {
        assert_eq!(
            rooms(&standby.request(&key, "GET", "/v1/rooms").send()).len(),
            2
        );
    }
    assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "2");
}

#[test]
fn no_request_fails_when_the_active_server_stops() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut active) = active(&database, |deployment| deployment);
    let standby = Standby::start(&first, &database.url());
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let (is_over, request) = (
                Arc::clone(&is_over),
                standby.request(&active.key, "POST", "/v1/rooms"),
            );
            thread::spawn(move || {
                let mut created = 0;
                while !is_over.load(Ordering::Relaxed) {
                    request
                        .clone()
                        .json(room(&format!("{client}-{created}")))
                        .send()
                        .expect(201);
                    created += 1;
                }
                created
            })
        })
        .collect();
    let before = |count: usize| {
        let listed = database.run("SELECT count(*) FROM rooms");
        listed.trim().parse::<usize>().unwrap() > count
    };
    eventually(|| before(20));
    assert_eq!(active.terminate(), Some(0), "{}", first.log());
    let (_next, running) = standby.ready();
    let taken_over: usize = database
        .run("SELECT count(*) FROM rooms")
        .trim()
        .parse()
        .unwrap();
    eventually(|| before(taken_over + 20));
    is_over.store(true, Ordering::Relaxed);
    let created: usize = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    assert_eq!(
        database.run("SELECT count(*) FROM rooms").trim(),
        created.to_string()
    );
    drop(running);
}

#[test]
fn a_server_that_stops_is_not_ready_and_passes_its_clients_on_to_the_next_one() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut active) = active(&database, |deployment| deployment);
    active.room("before", 600);
    let standby = Standby::start(&first, &database.url());
    // The active server may not know it yet.
    until_reported(&database, 2);
    let (admin, request) = (
        active.admin.clone(),
        active.post("/v1/rooms").json(room("direct")),
    );
    let read = active.get("/v1/rooms/before");
    kill_process(active.pid(), Signal::TERM).unwrap();
    until(|| {
        let ready = Request::new("GET", format!("{admin}/readyz")).try_send()?;
        (ready.status == 503).then_some(())
    });
    // The stopping server's sockets are open for some seconds only, so both requests are sent at once.
    let answers = [request, read].map(|request| thread::spawn(move || request.send()));
    let [created, read] = answers.map(|answer| answer.join().unwrap());
    created.expect(201);
    assert_eq!(read.expect(200)["name"], "before");
    for passed_on in [&created, &read] {
        assert_eq!(passed_on.headers["connection"], "close");
    }
    assert_eq!(active.wait_for_exit(), Some(0), "{}", first.log());
    let (_next, running) = standby.ready();
    assert_eq!(
        rooms(&running.get("/v1/rooms").bearer(&active.key).send()),
        ["direct", "before"]
    );
    assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "2");
}

#[test]
fn what_was_sent_to_a_server_that_stands_still_is_sent_to_the_next_one_if_it_may_be() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut stopped) = active(&database, |deployment| deployment);
    let third = Standby::start(&first, &database.url());
    let next = Standby::start(&first, &database.url());
    kill_process(stopped.pid(), Signal::STOP).unwrap();
    let request = |method| third.request(&stopped.key, method, "/v1/rooms");
    let sent = [
        request("GET"),
        request("POST").json(room("with-key")).idempotency_key("k"),
        request("POST").json(room("without")),
    ];
    let [read, with_key, without] = sent.map(|request| thread::spawn(move || request.send()));
    rooms(&read.join().unwrap());
    with_key.join().unwrap().expect(201);
    without.join().unwrap().expect_error(503, "node_lost", None);
    kill_process(stopped.pid(), Signal::CONT).unwrap();
    assert_eq!(stopped.wait_for_exit(), Some(1), "{}", first.log());
    assert_eq!(
        rooms(&next.request(&stopped.key, "GET", "/v1/rooms").send()),
        ["with-key"]
    );
}

/// Opens a client's WebSocket. Returns the response status, and the WebSocket if there is one.
fn connect_client(api: &str, token: &str) -> (u16, Option<tungstenite::WebSocket<TcpStream>>) {
    let address: SocketAddr = api.trim_start_matches("http://").parse().unwrap();
    let url = format!("ws://{address}/rtc?access_token={token}&protocol=16&sdk=js");
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    match tungstenite::client(url, stream) {
        Ok((websocket, response)) => (response.status().as_u16(), Some(websocket)),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
            (response.status().as_u16(), None)
        }
        Err(error) => panic!("{error}"),
    }
}

/// Proves R-30.
#[test]
fn a_stop_of_all_servers_ends_the_sessions_before_the_lease_is_given_up() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut active) = active(&database, |deployment| deployment);
    let standby = Standby::start(&first, &database.url());
    until_reported(&database, 2);
    active.room("a", 600);
    for identity in ["alice", "bob", "carol"] {
        active.join(&active.token("a", identity, "host"));
    }
    // The standby is still in the table of running servers when the active one stops.
    drop(standby);
    assert_eq!(active.terminate(), Some(0), "{}", first.log());
    assert_eq!(
        database
            .run("SELECT count(*) FROM sessions WHERE left_at IS NULL")
            .trim(),
        "0"
    );
    assert_eq!(
        database.run("SELECT count(*) FROM heartbeat").trim(),
        "0",
        "no crash"
    );
}

#[test]
fn a_client_that_a_stop_sends_away_does_not_come_back_to_the_server_that_stops() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut active) = active(&database, |deployment| deployment);
    active.room("a", 600);
    let [token, again] = ["eve", "eve"].map(|identity| active.token("a", identity, "host"));
    let (status, websocket) = connect_client(&active.api, &token);
    assert_eq!(status, 101);
    let mut websocket = websocket.unwrap();
    kill_process(active.pid(), Signal::TERM).unwrap();
    while websocket.read().is_ok() {}
    // No other node runs, which the server notices after a moment.
    let (status, _) = connect_client(&active.api, &again);
    assert_eq!(status, 503);
    assert_eq!(active.wait_for_exit(), Some(0), "{}", first.log());
}

/// Waits until a server's readiness has this status. Returns the response.
fn until_ready(admin: &str, query: &str, status: u16) -> Value {
    until(|| {
        let ready = Request::new("GET", format!("{admin}/readyz{query}")).try_send()?;
        (ready.status == status).then(|| ready.json())
    })
}

#[test]
fn a_standby_is_ready_while_the_active_server_answers_through_it() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let link = Proxy::start(cluster.address());
    let at_link = format!("http://{}", link.address());
    let (first, active) = active(&database, |deployment| {
        deployment.with("CONCLAVE_CLUSTER__URL", at_link)
    });
    link.lead_to(active.api.trim_start_matches("http://").parse().unwrap());
    let standby = Standby::start(&first, &database.url());
    until_ready(&standby.waiting.admin, "", 200);
    assert_eq!(
        standby
            .request(&active.key, "GET", "/v1/rooms")
            .send()
            .status,
        200
    );
    link.refuse();
    let cut = until_ready(&standby.waiting.admin, "", 503);
    assert_eq!(
        (&cut["parts"]["database"], &cut["parts"]["active"]),
        (&json!("ok"), &json!("unavailable")),
        "{cut}"
    );
    link.accept();
    until_ready(&standby.waiting.admin, "", 200);
}

#[test]
fn a_server_is_ready_as_the_active_one_once_it_serves() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, active) = active(&database, |deployment| deployment);
    let far = Proxy::start(cluster.address());
    far.delay(Duration::from_millis(50));
    let standby = Standby::start(&first, &database.url_at(far.address()));
    until_ready(&standby.waiting.admin, "", 200);
    active.kill();
    let ready = until_ready(&standby.waiting.admin, "?role=active", 200);
    // The standby's listener has no actors to report.
    assert_eq!(ready["parts"]["actors"], "ok", "{ready}");
    drop(standby);
}

/// Proves F-9.
#[test]
fn requests_to_a_server_that_is_cut_off_from_the_database_wait_for_the_next_one() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let link = Proxy::start(cluster.address());
    let first = node(&database.url_at(link.address()));
    let active = first.start();
    database.run("UPDATE api_keys SET label = 'kept'");
    let standby = Standby::start(&first, &database.url());
    active.room("before", 600);
    assert_eq!(
        rooms(&standby.request(&active.key, "GET", "/v1/rooms").send()),
        ["before"]
    );
    link.refuse();
    let calls: Vec<_> = (0..4)
        .map(|number| {
            let read = standby.request(&active.key, "GET", "/v1/rooms/before");
            let change = standby
                .request(&active.key, "POST", "/v1/rooms")
                .json(room(&format!("keyed-{number}")));
            let change = change.idempotency_key(&format!("k{number}"));
            [(read, 200), (change, 201)]
                .map(|(request, status)| (thread::spawn(move || request.send()), status))
        })
        .collect();
    for (sent, status) in calls.into_iter().flatten() {
        sent.join().unwrap().expect(status);
    }
    assert_eq!(database.run("SELECT epoch FROM leadership").trim(), "2");
}

#[test]
fn a_server_that_was_replaced_while_it_stood_still_answers_503_and_never_500() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let (first, mut stopped) = active(&database, |deployment| deployment);
    let standby = Standby::start(&first, &database.url());
    let key = stopped.key.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let (is_over, api, key) = (Arc::clone(&is_over), stopped.api.clone(), key.clone());
            thread::spawn(move || {
                let mut statuses = std::collections::BTreeSet::new();
                for number in 0.. {
                    let (method, body) = if number % 2 == 0 {
                        ("GET", None)
                    } else {
                        ("POST", Some(number))
                    };
                    let request = Request::new(method, format!("{api}/v1/rooms")).bearer(&key);
                    let request = match body {
                        Some(number) => request.json(room(&format!("{client}-{number}"))),
                        None => request,
                    };
                    match request.try_send() {
                        Some(response) => drop(statuses.insert(response.status)),
                        None if is_over.load(Ordering::Relaxed) => return statuses,
                        None => {}
                    }
                }
                statuses
            })
        })
        .collect();
    eventually(|| database.run("SELECT count(*) > 20 FROM rooms").trim() == "t");
    kill_process(stopped.pid(), Signal::STOP).unwrap();
    let (_next, running) = standby.ready();
    kill_process(stopped.pid(), Signal::CONT).unwrap();
    assert_eq!(stopped.wait_for_exit(), Some(1), "{}", first.log());
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        let statuses = client.join().unwrap();
        // 408 is for a request whose head was half read when the server stood still: nothing has been done.
        assert!(
            statuses.is_subset(&[200, 201, 408, 503].into()),
            "{statuses:?}: {}",
            first.log()
        );
    }
    drop(running);
}
