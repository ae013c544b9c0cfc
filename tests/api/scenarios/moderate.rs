//! Moderation: a participant whose role permits it acts on a participant whose role does not.

use serde_json::{Value, json};

use super::{Participant, Stage, on_both_planes};
use crate::support::{Request, Response};

on_both_planes!(
    a_moderator_mutes_talks_to_demotes_and_removes_a_participant_and_ends_the_room,
    a_demoted_participant_does_not_get_its_role_back_by_joining_again_with_its_old_token,
);

/// Returns a call with a participant's room token.
fn by(stage: &Stage, who: &Participant, method: &str, path: &str, body: Option<Value>) -> Response {
    let request = stage
        .app
        .request(method, path)
        .anonymous()
        .header("x-svc-room-token", &who.token);
    body.into_iter().fold(request, Request::json).send()
}

fn a_moderator_mutes_talks_to_demotes_and_removes_a_participant_and_ends_the_room(
    mut stage: Stage,
) {
    let may = json!({"end_room": true, "remove_others": true, "mute_others": true, "unmute_others": true,
                     "change_role": true, "send_data": true});
    let roles = json!({"moderator": {"permissions": may}, "speaker": {}, "listener": {"publish": {"allowed": ["audio"]}}});
    stage.app.room_with_roles("town-hall", &roles);
    let anna = stage.join("town-hall", "anna", "moderator");
    stage.expect(&["room.started", "participant.joined"]);
    let ben = stage.join("town-hall", "ben", "speaker");
    let (voice, picture) = (
        stage.publish(&ben, "audio", "microphone"),
        stage.publish(&ben, "video", "camera"),
    );
    stage.expect(&["participant.joined", "track.published", "track.published"]);

    let path = |what: &str| format!("/v1/rooms/town-hall/participants/ben{what}");
    let mute = |by: &Participant, stage: &Stage, muted: bool| {
        let body = json!({"track_sid": voice, "muted": muted});
        self::by(stage, by, "POST", &path("/mute"), Some(body))
    };
    for muted in [true, true, false] {
        assert_eq!(
            mute(&anna, &stage, muted).expect(200)["track"]["muted"],
            muted
        );
    }
    mute(&ben, &stage, true).expect_error(403, "permission_denied", Some("mute_others"));
    let unknown = Some(json!({"track_sid": "TR_unknown", "muted": true}));
    by(&stage, &anna, "POST", &path("/mute"), unknown).expect_error(404, "track_not_found", None);

    let message = json!({"data": "aGk=", "topic": "note", "destination_identities": ["ben"]});
    let sent = by(
        &stage,
        &anna,
        "POST",
        "/v1/rooms/town-hall/send-data",
        Some(message),
    );
    assert_eq!(sent.expect(200)["sent"], true);
    assert_eq!(
        (
            stage.outside.received_topics(&stage.app, &ben),
            stage.outside.received_topics(&stage.app, &anna).len()
        ),
        (vec!["note".into()], 0)
    );

    by(
        &stage,
        &anna,
        "POST",
        &path("/role"),
        Some(json!({"role": "listener"})),
    )
    .expect(200);
    let events = stage.expect(&["participant.role_changed", "track.unpublished"]);
    assert!(
        events
            .iter()
            .any(|event| event["previous_role"] == "speaker"
                && event["changed_by_identity"] == "anna")
    );
    assert!(
        events
            .iter()
            .any(|event| event["track_sid"] == picture.as_str())
    );
    assert_eq!(
        stage.app.get(&path("")).send().expect(200)["attributes"]["svc.role"],
        "listener"
    );
    assert_eq!(
        stage.outside.publish(&stage.app, &ben, "video", "camera"),
        None
    );

    by(&stage, &anna, "DELETE", &path(""), None).expect_empty(204);
    stage.expect(&["track.unpublished", "participant.left"]);
    by(&stage, &anna, "DELETE", &path(""), None).expect_error(404, "participant_not_found", None);
    by(&stage, &anna, "DELETE", "/v1/rooms/town-hall", None).expect_empty(204);
    stage.expect(&["participant.left", "room.finished"]);
    stage.end();
}

fn a_demoted_participant_does_not_get_its_role_back_by_joining_again_with_its_old_token(
    mut stage: Stage,
) {
    let roles = json!({"host": {"permissions": {"end_room": true}}, "listener": {"publish": {"allowed": ["audio"], "max_kbps": 64}}});
    stage.app.room_with_roles("town-hall", &roles);
    let anna = stage.join("town-hall", "anna", "host");
    stage.expect(&["room.started", "participant.joined"]);
    let path = "/v1/rooms/town-hall/participants/anna";
    stage
        .app
        .post(&format!("{path}/role"))
        .json(json!({"role": "listener"}))
        .send()
        .expect(200);
    stage.expect(&["participant.role_changed"]);
    stage.leave(&anna, true);
    stage.expect(&["participant.left"]);

    let end_room = |by: &Participant, stage: &Stage| {
        self::by(stage, by, "DELETE", "/v1/rooms/town-hall", None)
    };
    end_room(&anna, &stage).expect_error(403, "permission_denied", Some("end_room"));
    let sid = stage.outside.join(&stage.app, &anna.token);
    let again = Participant {
        sid,
        room: anna.room.clone(),
        identity: anna.identity.clone(),
        token: anna.token.clone(),
    };
    let joined = stage.expect(&["participant.joined"]);
    assert_eq!(
        joined
            .iter()
            .filter(|event| event["role"] == "listener")
            .count(),
        1
    );
    let seen = stage.app.get(path).send().expect(200);
    assert_eq!(
        (&seen["sid"], &seen["attributes"]),
        (
            &json!(again.sid),
            &json!({"svc.role": "listener", "svc.publish.max_kbps": "64"})
        )
    );
    assert_eq!(
        stage.outside.publish(&stage.app, &again, "video", "camera"),
        None
    );
    end_room(&again, &stage).expect_error(403, "permission_denied", Some("end_room"));
    let sessions = stage.app.get("/v1/sessions?active=true").send().expect(200);
    assert_eq!(sessions["sessions"][0]["role"], "listener");
    stage.leave(&again, true);
    stage.expect(&["participant.left"]);

    // A token that the API mints later is valid again.
    let newer = stage.join("town-hall", "anna", "host");
    assert_eq!(
        stage
            .expect(&["participant.joined"])
            .iter()
            .filter(|event| event["role"] == "host")
            .count(),
        2
    );
    assert_eq!(
        stage.app.get(path).send().expect(200)["attributes"]["svc.role"],
        "host"
    );
    stage.publish(&newer, "video", "camera");
    stage.expect(&["track.published"]);
    end_room(&newer, &stage).expect_empty(204);
    stage.expect(&["track.unpublished", "participant.left", "room.finished"]);
    stage.end();
}
