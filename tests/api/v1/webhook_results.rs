//! Delivery results are recorded, so that nothing is posted twice: while the database rejects writes, and during a stop.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, WAIT_LIMIT, eventually};

/// Queues exactly one event: creating and ending a room reports only its end.
fn one_event(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

fn endpoint_state(app: &TestApp) -> Value {
    app.actors("?kind=webhook_endpoint")["actors"][0]["state"].clone()
}

/// Proves R-16.
#[test]
fn a_delivery_is_posted_once_while_the_database_cannot_be_written() {
    let app = TestApp::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    app.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    one_event(&app, "standup");
    let (posted, _) = accept(&listener);
    let lock = app.records().lock();
    answer(posted);
    // Until its result cannot be written, and then for two more ticks.
    for _ in 0..3 {
        eventually(|| endpoint_state(&app)["unrecorded"] == 1);
        app.advance(Duration::from_secs(5));
    }
    drop(lock);
    eventually(|| {
        app.advance(Duration::from_secs(5));
        app.deliveries("status=pending").is_empty()
    });
    let delivery = &app.deliveries("")[0];
    assert_eq!(
        (&delivery["status"], &delivery["attempts"]),
        (&json!("delivered"), &json!(1)),
        "{delivery}"
    );
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the delivery was posted again");
    assert_eq!(endpoint_state(&app)["unrecorded"], 0);
}

/// Accepts a connection and reads the POST. Returns the connection and the event's room.
fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut part = [0; 4_096];
        let read = stream.read(&mut part).unwrap();
        text.push_str(std::str::from_utf8(&part[..read]).unwrap());
    }
    let body: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    (stream, body["room"].as_str().unwrap().to_owned())
}

fn answer(mut stream: TcpStream) {
    write!(
        stream,
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
}

/// Proves R-16.
#[test]
fn a_stop_records_every_post_in_flight() {
    let app = TestApp::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    app.endpoint(&format!("http://{}/hook", listener.local_addr().unwrap()));
    // After a success, rooms are posted in parallel.
    one_event(&app, "first");
    answer(accept(&listener).0);
    app.settle();
    let sid = app.join(app.room("a")["name"].as_str().unwrap(), "alice", "");
    app.leave(&sid, true);
    one_event(&app, "b");
    let mut posts = [accept(&listener), accept(&listener)];
    posts.sort_by(|(_, one), (_, other)| one.cmp(other));
    let [(a, _), (b, _)] = posts;
    // "a" has further deliveries, and its response comes after the stop has started; the response for "b" comes later still.
    let (api, records) = (app.api.clone(), Arc::clone(app.records()));
    let answering = std::thread::spawn(move || {
        let delivered = "SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'";
        TestApp::stop_begins(&api);
        answer(a);
        eventually(|| records.value(delivered) == "2");
        answer(b);
    });
    let app = app.restart();
    answering.join().unwrap();
    let recorded: Vec<_> = app.deliveries("status=delivered");
    let rooms: Vec<_> = recorded
        .iter()
        .map(|delivery| delivery["payload"]["room"].as_str().unwrap())
        .collect();
    assert_eq!(rooms, ["b", "a", "first"]);
    assert!(recorded.iter().all(|delivery| delivery["attempts"] == 1));
}
