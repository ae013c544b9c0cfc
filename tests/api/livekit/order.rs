//! Webhooks out of order: LiveKit guarantees no order, repeats some and loses some.

use livekit_double::{Double, Joining, Webhook};
use proto::{DisconnectReason, TrackSource, TrackType};
use serde_json::Value;

use super::{RECONCILE, livekit_app, livekit_webhook, proto};
use crate::support::{Receiver, TestApp, eventually};

/// Returns all permutations of a list.
fn orders<T: Clone>(things: &[T]) -> Vec<Vec<T>> {
    if things.is_empty() {
        return vec![Vec::new()];
    }
    (0..things.len())
        .flat_map(|first| {
            let mut rest = things.to_vec();
            let head = rest.remove(first);
            orders(&rest)
                .into_iter()
                .map(move |tail| [vec![head.clone()], tail].concat())
        })
        .collect()
}

fn hand_over(app: &TestApp, webhook: &Webhook) {
    let answer = livekit_webhook(app)
        .header("authorization", &webhook.authorization)
        .raw(webhook.body.clone())
        .send();
    assert_eq!(answer.status, 200, "{}: {}", webhook.event, answer.text());
}

/// Joins, publishes and leaves as a participant. Returns the webhooks, which the double does not send.
fn short_visit(double: &Double, room: &str) -> Vec<Webhook> {
    double.join(room, &Joining::participant("alice"));
    double.publish(room, "alice", TrackType::Audio, TrackSource::Microphone);
    double.leave(room, "alice", DisconnectReason::ClientInitiated);
    let mut webhooks = double.webhooks();
    // Meanwhile the app checks LiveKit's settings, in a separate room.
    let of_room = |webhook: &Webhook| {
        serde_json::from_slice::<Value>(&webhook.body).unwrap()["room"]["name"] == room
    };
    webhooks.retain(|webhook| of_room(webhook) && webhook.event != "room_started");
    assert_eq!(webhooks.len(), 4);
    webhooks
}

/// Returns the number of start and end events by subject (a join, a track).
fn pairs(app: &TestApp, begun: &str, ended: &[&str], subject: &str) -> Vec<(usize, usize)> {
    let events: Vec<Value> = app
        .deliveries("")
        .iter()
        .map(|delivery| delivery["payload"].clone())
        .collect();
    let of = |types: &[&str], who: &Value| {
        events
            .iter()
            .filter(|event| {
                types.contains(&event["type"].as_str().unwrap()) && event[subject] == *who
            })
            .count()
    };
    let types = [&[begun], ended].concat();
    let about = events
        .iter()
        .filter(|event| types.contains(&event["type"].as_str().unwrap()));
    about
        .map(|event| (of(&[begun], &event[subject]), of(ended, &event[subject])))
        .collect()
}

#[test]
fn a_track_and_a_leave_that_arrive_before_their_join_are_recorded_after_it() {
    let double = Double::start();
    let (app, receiver) = (livekit_app(&double), Receiver::start());
    app.endpoint(&receiver.url);
    app.room("visit");
    let webhooks = short_visit(&double, &format!("{}.visit", app.project));
    webhooks
        .iter()
        .rev()
        .for_each(|webhook| hand_over(&app, webhook));
    // Before any reconciliation.
    assert_eq!(
        app.event_types(&receiver),
        [
            "room.started",
            "participant.joined",
            "track.published",
            "track.unpublished",
            "participant.left"
        ]
    );
    let session = app.get("/v1/sessions").send().expect(200)["sessions"][0].clone();
    assert!(session["left_at"].is_string(), "{session}");
}

/// Proves R-6.
#[test]
fn in_every_order_of_webhooks_each_join_has_one_leave_and_each_track_one_end() {
    let double = Double::start();
    let (app, receiver) = (livekit_app(&double), Receiver::start());
    app.endpoint(&receiver.url);
    for (number, _) in orders(&[0; 4]).iter().enumerate() {
        let name = format!("visit-{number}");
        app.room(&name);
        let webhooks = short_visit(&double, &format!("{}.{name}", app.project));
        let order = &orders(&webhooks)[number];
        order.iter().for_each(|webhook| hand_over(&app, webhook));
        // Each is sent twice, as after a lost response.
        order
            .iter()
            .rev()
            .for_each(|webhook| hand_over(&app, webhook));
    }
    // A participant recorded as present because the leave came first is looked up and not found.
    app.advance(RECONCILE);
    eventually(|| {
        app.advance(std::time::Duration::from_millis(100));
        app.get("/v1/sessions?active=true").send().expect(200)["sessions"]
            .as_array()
            .is_some_and(Vec::is_empty)
    });
    let left = ["participant.left", "participant.connection_aborted"];
    let joins = pairs(&app, "participant.joined", &left, "participant_sid");
    assert!(
        !joins.is_empty() && joins.iter().all(|pair| *pair == (1, 1)),
        "{joins:?}"
    );
    let tracks = pairs(&app, "track.published", &["track.unpublished"], "track_sid");
    assert!(
        !tracks.is_empty() && tracks.iter().all(|pair| *pair == (1, 1)),
        "{tracks:?}"
    );
}
