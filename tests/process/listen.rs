//! `conclave listen`: a local receiver gets each event once, even if the server stops or is killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::deployment::{Deployment, Running};
use crate::listener::Listener;
use crate::support::{Received, Receiver, Request, eventually};

/// Ends a new room, which causes one event.
fn emit(running: &Running, room: &str) {
    running.room(room, 600);
    running
        .delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

/// Ends rooms until the server is killed after about `count`.
fn kill_while_rooms_end(running: Running, round: &str, count: usize) {
    let ended = AtomicUsize::new(0);
    let (api, key) = (running.api.clone(), running.key.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let send = |method: &str, path: &str, body: &str| {
                let request = Request::new(method, format!("{api}{path}")).bearer(&key);
                if body.is_empty() {
                    request.try_send()
                } else {
                    request.raw(body).try_send()
                }
            };
            for number in 0.. {
                let name = format!("{round}-{number}");
                let created = send("POST", "/v1/rooms", &format!(r#"{{"name":"{name}"}}"#));
                if created.is_none() || send("DELETE", &format!("/v1/rooms/{name}"), "").is_none() {
                    return;
                }
                ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        eventually(|| ended.load(Ordering::SeqCst) >= count);
        running.kill();
    });
}

/// Returns all of the project's events on the server.
fn events(running: &Running) -> Vec<Value> {
    let (mut events, mut position) = (Vec::new(), 0);
    let path = format!("/debug/projects/{}/events", running.project);
    let newest = running.admin("GET", &path).send().expect(200)["position"]
        .as_i64()
        .unwrap();
    while position < newest {
        let page = running
            .admin("GET", &format!("{path}?after={position}"))
            .send()
            .expect(200);
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        position = page["position"].as_i64().unwrap();
    }
    events
}

/// Proves R-27.
#[test]
fn each_event_is_forwarded_once_across_a_stop_and_kills_of_the_server() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let mut running = deployment.start();
    let listener = Listener::start(&deployment, &["--forward", &receiver.url]);
    let secret = listener.secret();
    emit(&running, "first");
    for (round, count) in [("a", 3), ("b", 20), ("c", 1)] {
        kill_while_rooms_end(running, round, count);
        running = deployment.start();
        listener.wait_for_note("the server is available again");
    }
    assert_eq!(running.terminate(), Some(0));
    running = deployment.start();
    emit(&running, "last");

    let expected = events(&running);
    assert!(expected.len() > 25, "only {} events", expected.len());
    let received: Vec<Received> = expected.iter().map(|_| receiver.next()).collect();
    let bodies = received
        .iter()
        .map(|request| String::from_utf8(request.body.clone()).unwrap());
    let payloads = expected
        .iter()
        .map(|event| event["payload"].as_str().unwrap().to_owned());
    assert_eq!(bodies.collect::<Vec<_>>(), payloads.collect::<Vec<_>>());
    for request in &received {
        assert!(request.is_signed_with(&secret));
        assert_eq!(
            request.header("webhook-signature"),
            request.standard_signature(&secret)
        );
        assert_eq!(request.header("x-svc-event"), request.json()["type"]);
        assert_eq!(request.header("content-type"), "application/json");
    }
    let ids: BTreeSet<_> = received
        .iter()
        .map(|request| request.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids.len(), received.len());
    assert!(receiver.drain().is_empty());
}

#[test]
fn the_commands_of_the_page_about_webhooks_do_what_it_says() {
    let page = include_str!("../../docs/webhooks.md");
    let commands = page
        .split("```bash\n")
        .nth(1)
        .unwrap()
        .split("\n```")
        .next()
        .unwrap();
    let arguments = |line: &str| -> Vec<String> {
        let words = line.split('#').next().unwrap().split_whitespace();
        words.map(str::to_owned).collect()
    };
    let [listen, trigger, sample] = commands
        .lines()
        .map(arguments)
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let _running = deployment.start();
    let command = |words: &[String], secret: &str| {
        assert_eq!(words[0], "conclave");
        let here = |word: &String| match word.as_str() {
            "http://localhost:3000/hooks" => receiver.url.clone(),
            "whsec_..." => secret.to_owned(),
            word => word.to_owned(),
        };
        let words: Vec<_> = words[1..].iter().map(here).collect();
        deployment.command(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let listener = Listener::spawn(command(&listen, ""));
    let secret = listener.secret();
    for words in [&trigger, &sample] {
        let done = command(words, &secret).output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let of_type = |request: &Received| request.header("x-svc-event") == words[2];
        let received = std::iter::repeat_with(|| receiver.next())
            .find(of_type)
            .unwrap();
        assert!(received.is_signed_with(&secret));
    }
    let shown = std::iter::repeat_with(|| listener.next())
        .find(|line| line.contains("  participant.joined  "));
    assert!(shown.unwrap().contains("  204 in "));
}

#[test]
fn a_receiver_that_fails_is_said_in_its_line_and_the_next_event_follows() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    let listener = Listener::start(&deployment, &["--forward", &receiver.url]);
    for (room, status) in [("a", 204), ("b", 500), ("c", 302), ("d", 200)] {
        receiver.answer_with(status);
        emit(&running, room);
        let line = listener.next();
        assert!(
            line.contains(&format!("  room.finished  {room}  {status} in ")),
            "{line}"
        );
    }
    let unreachable = Listener::start(&deployment, &["--forward", "http://127.0.0.1:9/hook"]);
    emit(&running, "e");
    let line = unreachable.next();
    assert!(
        line.contains("  room.finished  e  connection refused in "),
        "{line}"
    );
}

#[test]
fn events_are_filtered_and_printed_as_json_from_any_number_on() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    for room in ["a", "b"] {
        running.room(room, 600);
        running.join(&running.token(room, "alice", "host"));
        running
            .delete(&format!("/v1/rooms/{room}"))
            .send()
            .expect_empty(204);
    }
    let arguments = [
        "--after",
        "0",
        "--print",
        "json",
        "--event",
        "room.started",
        "--event",
        "room.finished",
    ];
    let all = Listener::start(&deployment, &arguments);
    let read = |listener: &Listener| -> Value { serde_json::from_str(&listener.next()).unwrap() };
    let first = read(&all);
    assert_eq!(
        (&first["event"]["type"], &first["event"]["room"]),
        (&"room.started".into(), &"a".into())
    );
    assert_eq!(
        first.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["event", "id"]
    );
    let rest: Vec<_> = (0..3)
        .map(|_| read(&all)["event"]["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(rest, ["room.finished", "room.started", "room.finished"]);
    let after = first["id"].to_string();
    let arguments = [
        "--after",
        &after,
        "--print",
        "json",
        "--room",
        "b",
        "--forward",
        &receiver.url,
    ];
    let of_room = Listener::start(&deployment, &arguments);
    let shown = read(&of_room);
    assert_eq!(
        (&shown["event"]["room"], &shown["response_status"]),
        (&"b".into(), &204.into())
    );
    assert_eq!(receiver.next().json(), shown["event"]);
}

#[test]
fn earlier_events_are_shown_from_a_number_or_a_time_on() {
    let deployment = Deployment::new();
    let running = deployment.start();
    emit(&running, "a");
    // Both times are recorded in milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let time = conclave_model::Clock::system().now().to_string();
    emit(&running, "b");
    emit(&running, "c");
    let number = events(&running)[1]["id"].to_string();
    for from in [number, time] {
        let listener = Listener::start(&deployment, &["--from", &from]);
        for room in ["b", "c"] {
            let line = listener.next();
            assert!(
                line.ends_with(&format!("  room.finished  {room}")),
                "{line}"
            );
        }
    }
    let refused = deployment
        .command(&["listen", "--from", "yesterday"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("must be an event's number, or a time"),
        "{message}"
    );
}

#[test]
fn a_server_elsewhere_is_followed_with_its_address_and_token() {
    const TOKEN: &str = "let-me-in-please";
    let deployment = Deployment::new().with("CONCLAVE_ADMIN__TOKEN", TOKEN);
    let running = deployment.start();
    let elsewhere = Deployment::new();
    let arguments = [
        "listen",
        "--server",
        &running.admin,
        "--project",
        &running.project,
    ];
    let mut command = elsewhere.command(&arguments);
    let refused = command
        .env("CONCLAVE_ADMIN__TOKEN", "another-token-this")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        message.contains("CONCLAVE_ADMIN__TOKEN") && !message.contains("another-token"),
        "{message}"
    );
    let mut command = elsewhere.command(&arguments);
    command.env("CONCLAVE_ADMIN__TOKEN", TOKEN);
    let listener = Listener::spawn(command);
    listener.wait_for_note("following the events of");
    emit(&running, "a");
    assert!(listener.next().ends_with("  room.finished  a"));
    assert!(
        !elsewhere.data().exists(),
        "a command about a server elsewhere creates nothing"
    );
    let unknown = [
        "listen",
        "--server",
        &running.admin,
        "--project",
        "prj_000000000000",
    ];
    let unknown = elsewhere
        .command(&unknown)
        .env("CONCLAVE_ADMIN__TOKEN", TOKEN)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no project by that id"));
}

#[test]
fn the_command_waits_for_the_server_of_its_data_directory() {
    let deployment = Deployment::new();
    let listener = Listener::spawn(deployment.command(&["listen"]));
    listener.wait_for_note("no server uses the data directory");
    let running = deployment.start();
    listener.wait_for_note("following the events of");
    emit(&running, "a");
    assert!(listener.next().ends_with("  room.finished  a"));
}
