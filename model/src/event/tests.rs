use super::*;
use serde_json::json;

fn context() -> EventContext {
    EventContext {
        project_id: "prj_0123456789ab".parse().unwrap(),
        room: "standup".parse().unwrap(),
        occurred_at: Timestamp::from_millis(0),
    }
}

fn participant(role: Option<&str>) -> ParticipantRef {
    ParticipantRef {
        identity: "alice".parse().unwrap(),
        sid: "PA_1".parse().unwrap(),
        role: role.map(|r| r.parse().unwrap()),
    }
}

fn joined(role: Option<&str>) -> Event {
    Event::ParticipantJoined {
        context: context(),
        participant: participant(role),
    }
}

#[test]
fn a_room_event_has_the_four_fields_that_are_always_there_and_no_other() {
    assert_eq!(
        serde_json::to_value(Event::RoomStarted { context: context() }).unwrap(),
        json!({"type": "room.started", "project_id": "prj_0123456789ab", "room": "standup",
               "occurred_at": "1970-01-01T00:00:00.000Z"})
    );
}

#[test]
fn a_role_is_absent_where_none_is_held() {
    let event = serde_json::to_value(joined(None)).unwrap();
    assert!(event.get("role").is_none());
    let event = serde_json::to_value(Event::participant_gone(
        context(),
        participant(Some("host")),
        Departure::Lost,
    ))
    .unwrap();
    assert_eq!(
        (&event["type"], &event["role"]),
        (&json!("participant.connection_aborted"), &json!("host"))
    );
}

#[test]
fn there_are_twenty_event_types_and_each_reads_back() {
    assert_eq!(EventType::ALL.len(), 20);
    for event_type in EventType::ALL {
        assert_eq!(event_type.as_str().parse(), Ok(*event_type));
    }
}

/// Returns an event's own fields, without the common ones.
fn fields(event: &Event) -> serde_json::Value {
    let mut event = serde_json::to_value(event).unwrap();
    event
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !["project_id", "room", "occurred_at"].contains(&name.as_str()));
    event
}

#[test]
fn an_event_of_a_participant_names_it_with_its_sid_and_role() {
    let left = Event::participant_gone(context(), participant(Some("host")), Departure::Left);
    let expected = json!({"type": "participant.left", "participant_identity": "alice", "participant_sid": "PA_1", "role": "host"});
    assert_eq!(fields(&left), expected);
}

#[test]
fn an_event_of_a_track_describes_the_track() {
    let track = TrackSummary {
        sid: "TR_1".parse().unwrap(),
        kind: TrackKind::Video,
        source: TrackSource::ScreenShare,
        muted: true,
    };
    for (change, name) in [
        (TrackChange::Published, "track.published"),
        (TrackChange::Unpublished, "track.unpublished"),
    ] {
        let event = Event::track(context(), participant(None), track.clone(), change);
        let expected = json!({"type": name, "participant_identity": "alice", "participant_sid": "PA_1", "track_sid": "TR_1",
                              "track_kind": "video", "track_source": "screen_share", "track_muted": true});
        assert_eq!(fields(&event), expected);
    }
}

#[test]
fn an_event_of_a_publish_limit_has_the_bitrate_the_limit_and_the_track() {
    for (exceeded, name) in [
        (true, "participant.publish_limit_exceeded"),
        (false, "participant.publish_limit_cleared"),
    ] {
        let limit = PublishLimit {
            exceeded,
            kbps: 900,
            max_kbps: 500,
            track: Some("TR_1".parse().unwrap()),
        };
        let expected = json!({"type": name, "participant_identity": "alice", "participant_sid": "PA_1", "track_sid": "TR_1",
                              "publish_kbps": 900, "publish_max_kbps": 500});
        assert_eq!(
            fields(&Event::publish_limit(context(), participant(None), limit)),
            expected
        );
    }
}

#[test]
fn an_event_of_a_role_change_says_what_the_role_was_and_who_changed_it() {
    let changed = |by| {
        let previous = Some("guest".parse().unwrap());
        fields(&Event::role_changed(
            context(),
            participant(Some("host")),
            previous,
            &by,
        ))
    };
    let mut expected = json!({"type": "participant.role_changed", "participant_identity": "alice",
                              "participant_sid": "PA_1", "role": "host", "previous_role": "guest"});
    expected["changed_by_identity"] = json!("bob");
    assert_eq!(
        changed(ChangedBy::Identity("bob".parse().unwrap())),
        expected
    );
    expected
        .as_object_mut()
        .unwrap()
        .remove("changed_by_identity");
    expected["changed_by_api_key_prefix"] = json!("vk_live_abcd");
    assert_eq!(
        changed(ChangedBy::ApiKey("vk_live_abcd".parse().unwrap())),
        expected
    );
}

#[test]
fn an_event_of_an_egress_is_named_by_its_kind_and_its_status() {
    let id: EgressId = "EG_1".parse().unwrap();
    for (kind, field) in [
        (EgressKind::Recording, "recording_status"),
        (EgressKind::Broadcast, "broadcast_status"),
    ] {
        let expected = |event: &str, status: &str| json!({"type": format!("{kind}.{event}"), "egress_id": "EG_1", field: status});
        assert_eq!(
            fields(&Event::egress_started(context(), kind, id.clone())),
            expected("started", "starting")
        );
        for (status, event) in [
            (EgressStatus::Active, "updated"),
            (EgressStatus::Ending, "updated"),
            (EgressStatus::Complete, "ended"),
            (EgressStatus::Aborted, "ended"),
            (EgressStatus::LimitReached, "ended"),
            (EgressStatus::Failed, "failed"),
        ] {
            let updated = Event::egress_updated(context(), kind, id.clone(), status);
            assert_eq!(fields(&updated), expected(event, status.as_str()));
        }
    }
}

#[test]
fn an_event_of_an_ingress_names_its_participant_and_its_status() {
    let (id, identity): (IngressId, Identity) =
        ("IN_1".parse().unwrap(), "encoder".parse().unwrap());
    for (status, name) in [
        (IngressStatus::Publishing, "ingress.started"),
        (IngressStatus::Inactive, "ingress.ended"),
        (IngressStatus::Error, "ingress.ended"),
    ] {
        let expected = json!({"type": name, "participant_identity": "encoder", "ingress_id": "IN_1",
                              "ingress_status": status.as_str()});
        assert_eq!(
            fields(&Event::ingress(
                context(),
                id.clone(),
                identity.clone(),
                status
            )),
            expected
        );
    }
}

#[test]
fn every_event_has_a_description_with_an_example_of_it() {
    let docs = docs();
    let names: Vec<_> = docs.iter().map(|doc| doc.name).collect();
    let mut expected: Vec<_> = EventType::ALL.iter().map(|event| event.as_str()).collect();
    expected.extend([TestEvent::NAME, EndpointDisabledEvent::NAME]);
    assert_eq!(names, expected);
    for doc in docs {
        assert!(doc.summary.ends_with('.'), "{}", doc.summary);
        assert_eq!(doc.example["type"], doc.name);
        assert_eq!(doc.schema.required[0], "type", "{}", doc.name);
        let names: Vec<_> = doc.schema.properties.keys().collect();
        for required in &doc.schema.required {
            assert!(names.contains(&required), "{}: {required}", doc.name);
        }
    }
}

#[test]
fn an_event_tells_its_type_and_its_context() {
    for event_type in EventType::ALL {
        let event = Event::example(*event_type, context()).unwrap();
        assert_eq!(
            (event.event_type(), event.context()),
            (*event_type, &context())
        );
    }
}

#[test]
fn the_test_event_is_about_no_room() {
    let event = TestEvent::new(context().project_id, context().occurred_at);
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"occurred_at":"1970-01-01T00:00:00.000Z","project_id":"prj_0123456789ab","type":"webhook.test"}"#
    );
}
