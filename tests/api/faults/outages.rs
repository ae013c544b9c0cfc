//! A database server that is temporarily unreachable.

use std::time::Duration;

use conclave_model::Secret;
use serde_json::json;
use test_postgres::{Cluster, Engine, Proxy};

use crate::support::{Request, TestApp, eventually};

/// Starts the app with a proxy in front of its database.
fn start() -> (TestApp, Proxy) {
    let server = Cluster::shared().address();
    let proxy = Proxy::start(server);
    let app = TestApp::start_with(|config| {
        let url = config.database.url.take().unwrap();
        let url = url
            .reveal()
            .replace(&server.to_string(), &proxy.address().to_string());
        config.database.url = Some(Secret::new(url));
    });
    (app, proxy)
}

fn create(app: &TestApp, name: &str) -> Request {
    app.post("/v1/rooms").json(json!({"name": name}))
}

/// Returns the names of all rooms.
fn rooms(app: &TestApp) -> Vec<String> {
    let rooms = app.get("/v1/rooms").send().expect(200);
    let rooms = rooms["rooms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|room| room["name"].as_str().unwrap().to_owned());
    rooms.collect()
}

#[test]
fn while_the_database_server_is_away_requests_are_503_calls_go_on_and_all_is_as_before_once_it_is_back()
 {
    if Engine::Postgres.is_not_chosen("there is no connection to a file") {
        return;
    }
    let (app, proxy) = start();
    app.room("a");
    let alice = app.join("a", "alice", "host");
    proxy.refuse();
    for name in ["b", "c", "d"] {
        let refused = create(&app, name).send();
        refused.expect_error(503, "database_unavailable", None);
        assert_eq!(refused.headers["retry-after"], "1");
    }
    app.get("/v1/rooms")
        .send()
        .expect_error(503, "database_unavailable", None);
    app.admin("GET", "/healthz").send().expect(200);
    eventually(|| {
        app.advance(Duration::from_secs(1));
        app.admin("GET", "/readyz").send().status == 503
    });
    assert_eq!(app.view(&alice)["participant"]["state"], "active");
    proxy.accept();
    eventually(|| create(&app, "e").send().status == 201);
    eventually(|| app.get("/v1/rooms").send().status == 200);
    assert_eq!(rooms(&app), ["e", "a"]);
    let participants = app.get("/v1/rooms/a/participants").send().expect(200);
    assert_eq!(participants["participants"][0]["identity"], "alice");
    app.leave(&alice, true);
    app.delete("/v1/rooms/a").send().expect_empty(204);
}
