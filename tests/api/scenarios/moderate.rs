//! Moderation: by a participant whose role may, over one whose role may not.

use serde_json::{Value, json};

use super::{Participant, Stage, on_both_planes};
use crate::support::{Request, Response};

on_both_planes!(a_moderator_mutes_talks_to_demotes_and_removes_a_participant_and_ends_the_room);

/// A call with a participant's room token.
fn by(stage: &Stage, who: &Participant, method: &str, path: &str, body: Option<Value>) -> Response {
    let request = stage.app.request(method, path).anonymous().header("x-svc-room-token", &who.token);
    body.into_iter().fold(request, Request::json).send()
}

fn a_moderator_mutes_talks_to_demotes_and_removes_a_participant_and_ends_the_room(mut stage: Stage) {
    let may = json!({"end_room": true, "remove_others": true, "mute_others": true, "unmute_others": true,
                     "change_role": true, "send_data": true});
    let roles =
        json!({"moderator": {"permissions": may}, "speaker": {}, "listener": {"publish": {"allowed": ["audio"]}}});
    stage.app.room_with_roles("town-hall", &roles);
    let anna = stage.join("town-hall", "anna", "moderator");
    stage.expect(&["room.started", "participant.joined"]);
    let ben = stage.join("town-hall", "ben", "speaker");
    let (voice, picture) = (stage.publish(&ben, "audio", "microphone"), stage.publish(&ben, "video", "camera"));
    stage.expect(&["participant.joined", "track.published", "track.published"]);

    let path = |what: &str| format!("/v1/rooms/town-hall/participants/ben{what}");
    let mute = |by: &Participant, stage: &Stage, muted: bool| {
        let body = json!({"track_sid": voice, "muted": muted});
        self::by(stage, by, "POST", &path("/mute"), Some(body))
    };
    for muted in [true, true, false] {
        assert_eq!(mute(&anna, &stage, muted).expect(200)["track"]["muted"], muted);
    }
    mute(&ben, &stage, true).expect_error(403, "permission_denied", Some("mute_others"));
    let unknown = Some(json!({"track_sid": "TR_unknown", "muted": true}));
    by(&stage, &anna, "POST", &path("/mute"), unknown).expect_error(404, "track_not_found", None);

    let message = json!({"data": "aGk=", "topic": "note", "destination_identities": ["ben"]});
    let sent = by(&stage, &anna, "POST", "/v1/rooms/town-hall/send-data", Some(message));
    assert_eq!(sent.expect(200)["sent"], true);
    assert_eq!(
        (stage.outside.received_topics(&stage.app, &ben), stage.outside.received_topics(&stage.app, &anna).len()),
        (vec!["note".into()], 0)
    );

    by(&stage, &anna, "POST", &path("/role"), Some(json!({"role": "listener"}))).expect(200);
    let events = stage.expect(&["participant.role_changed", "track.unpublished"]);
    assert!(events.iter().any(|event| event["previous_role"] == "speaker" && event["changed_by_identity"] == "anna"));
    assert!(events.iter().any(|event| event["track_sid"] == picture.as_str()));
    assert_eq!(stage.app.get(&path("")).send().expect(200)["attributes"]["svc.role"], "listener");
    assert_eq!(stage.outside.publish(&stage.app, &ben, "video", "camera"), None);

    by(&stage, &anna, "DELETE", &path(""), None).expect_empty(204);
    stage.expect(&["track.unpublished", "participant.left"]);
    by(&stage, &anna, "DELETE", &path(""), None).expect_error(404, "participant_not_found", None);
    by(&stage, &anna, "DELETE", "/v1/rooms/town-hall", None).expect_empty(204);
    stage.expect(&["participant.left", "room.finished"]);
    stage.end();
}
