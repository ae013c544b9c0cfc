//! `conclave trigger`: every event happens in a running server's room, or is sent as an example.

use std::process::Output;

use conclave_model::event::EventType;
use serde_json::Value;

use crate::deployment::Deployment;
use crate::listener::Listener;
use crate::support::Receiver;

/// Returns the body printed by a command, which must have succeeded.
#[track_caller]
fn printed(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_event_happens_and_reaches_a_receiver_with_valid_signatures() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    let listener = Listener::start(&deployment, &["--forward", &receiver.url]);
    let secret = listener.secret();
    let labelled = [
        "key",
        "create",
        &running.project,
        "--label",
        "conclave trigger",
        "--json",
    ];
    let mine = printed(&deployment.command(&labelled).output().unwrap());
    for event in EventType::ALL {
        let event = printed(
            &deployment
                .command(&["trigger", event.as_str()])
                .output()
                .unwrap(),
        );
        let request = std::iter::repeat_with(|| receiver.next())
            .find(|request| request.json() == event)
            .unwrap();
        assert_eq!(request.header("x-svc-event"), event["type"]);
        assert!(request.is_signed_with(&secret));
        assert_eq!(
            request.header("webhook-signature"),
            request.standard_signature(&secret)
        );
        let room = event["room"].as_str().unwrap();
        let ended = running.get(&format!("/v1/rooms/{room}")).send().expect(200);
        assert_eq!(ended["status"], "ended", "{event}");
    }
    let keys = deployment
        .command(&["key", "list", &running.project, "--json"])
        .output()
        .unwrap();
    let keys = printed(&keys)["keys"].as_array().unwrap().clone();
    let (of_command, others): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|key| key["label"] == "conclave trigger" && key["prefix"] != mine["prefix"]);
    assert_eq!(
        (of_command.len(), others.len()),
        (1, 2),
        "the command has one key, however often it ran"
    );
    assert!(of_command.iter().all(|key| key["revoked_at"].is_string()));
    assert!(
        others.iter().all(|key| key["revoked_at"].is_null()),
        "another key of that label stays: {others:?}"
    );
    let templates = running.get("/v1/templates").send().expect(200);
    assert_eq!(
        templates["templates"].as_array().unwrap().len(),
        2,
        "the template of the command is created once"
    );
}

#[test]
fn an_event_is_triggered_at_a_server_elsewhere_with_a_key_and_a_token() {
    const TOKEN: &str = "let-me-in-please";
    let deployment = Deployment::new().with("CONCLAVE_ADMIN__TOKEN", TOKEN);
    let (running, elsewhere) = (deployment.start(), Deployment::new());
    let trigger = |key: &str| {
        let arguments = [
            "trigger",
            "track.published",
            "--server",
            &running.admin,
            "--project",
            &running.project,
        ];
        let mut command = elsewhere.command(&arguments);
        command
            .env("CONCLAVE_ADMIN__TOKEN", TOKEN)
            .env("CONCLAVE_URL", &running.api);
        if key.is_empty() {
            command.output().unwrap()
        } else {
            command.env("CONCLAVE_KEY", key).output().unwrap()
        }
    };
    assert_eq!(printed(&trigger(&running.key))["type"], "track.published");
    for (key, problem) in [
        ("", "CONCLAVE_KEY"),
        ("vk_test_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "401"),
    ] {
        let refused = trigger(key);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(1) && message.contains(problem),
            "{message}"
        );
    }
    assert!(
        !elsewhere.data().exists(),
        "a command about a server elsewhere creates nothing"
    );
}

#[test]
fn an_example_of_every_event_is_sent_to_a_receiver_without_a_server() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    for event in EventType::ALL {
        let arguments = [
            "trigger",
            event.as_str(),
            "--sample",
            &receiver.url,
            "--secret",
            secret,
        ];
        let sent = printed(&deployment.command(&arguments).output().unwrap());
        let request = receiver.next();
        assert_eq!(request.json(), sent);
        assert_eq!(
            (&sent["type"], &sent["room"]),
            (&event.as_str().into(), &"example".into())
        );
        assert!(request.is_signed_with(secret));
        assert_eq!(
            request.header("webhook-signature"),
            request.standard_signature(secret)
        );
    }
    receiver.answer_with(400);
    let refused = deployment
        .command(&["trigger", "room.started", "--sample", &receiver.url])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(1) && message.contains("400"),
        "{message}"
    );
    let random = message
        .lines()
        .next()
        .unwrap()
        .rsplit_once(' ')
        .unwrap()
        .1
        .to_owned();
    assert!(receiver.next().is_signed_with(&random), "{message}");
    assert!(!deployment.data().exists());
}
