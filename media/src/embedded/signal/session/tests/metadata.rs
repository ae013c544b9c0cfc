//! The clients' own metadata.

use proto::request_response::Reason;

use super::*;
use crate::embedded::own_metadata::OwnMetadata;

/// Claims that permit a participant to change its own metadata.
fn talkative(identity: &str) -> Claims {
    let grants = Grants {
        can_update_own_metadata: true,
        ..Grants::default()
    };
    Claims {
        name: "of the token".into(),
        grants,
        ..claims(identity, Some("host"))
    }
}

fn update(name: &str, attributes: &[(&str, &str)]) -> Request {
    Request::UpdateMetadata(proto::UpdateParticipantMetadata {
        name: name.to_owned(),
        attributes: pairs(attributes),
        request_id: 7,
        ..Default::default()
    })
}

fn pairs<M: FromIterator<(String, String)>>(attributes: &[(&str, &str)]) -> M {
    attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The last state of a participant that a client received.
fn last_update_of(messages: &[Response], identity: &str) -> Option<proto::ParticipantInfo> {
    let updates = messages.iter().filter_map(|message| match message {
        Response::Update(update) => Some(&update.participants),
        _ => None,
    });
    updates
        .flatten()
        .rfind(|info| info.identity == identity)
        .cloned()
}

fn reasons(messages: &[Response]) -> Vec<(u32, Reason)> {
    let responses = messages.iter().filter_map(|message| match message {
        Response::RequestResponse(response) => Some((response.request_id, response.reason())),
        _ => None,
    });
    responses.collect()
}

impl Fixture {
    fn join_talkative(&mut self, identity: &str) -> ParticipantSid {
        let sid = self.join_with(talkative(identity), &parameters(ConnectionMode::Single));
        self.connect(&sid);
        sid
    }
}

#[test]
fn a_client_that_may_changes_what_all_see_of_it_and_its_token() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.join_talkative("alice"), fixture.joined("bob", None));
    fixture.take_all();
    fixture.request(&alice, update("Al", &[("hand", "up")]));
    let messages = fixture.take(&alice);
    let [
        Response::Update(_),
        Response::RefreshToken(token),
        Response::RequestResponse(response),
    ] = &messages[..]
    else {
        panic!("the update comes before the response: {messages:?}")
    };
    assert_eq!((response.request_id, response.reason()), (7, Reason::Ok));
    let refreshed = fixture.signer.verify(token, START).unwrap();
    assert_eq!(
        (
            refreshed.name.as_str(),
            refreshed.attributes["hand"].as_str()
        ),
        ("Al", "up")
    );
    assert!(refreshed.grants.can_update_own_metadata);
    let told = last_update_of(&fixture.take(&bob), "alice").unwrap();
    assert_eq!(
        (told.name.as_str(), told.attributes["hand"].as_str()),
        ("Al", "up")
    );
    assert_eq!(told.attributes["svc.role"], "host");
    assert!(told.permission.unwrap().can_update_metadata);
    assert_eq!(
        fixture.room_state.participants()[0].attributes["hand"],
        "up",
        "the API shows it"
    );

    let carol = fixture.joined("carol", None);
    let messages = fixture.take(&carol);
    let Response::Join(join) = &messages[0] else {
        panic!("{messages:?}")
    };
    let seen = join
        .other_participants
        .iter()
        .find(|other| other.identity == "alice")
        .unwrap();
    assert_eq!(
        (seen.name.as_str(), seen.attributes["hand"].as_str()),
        ("Al", "up")
    );

    fixture.request(&alice, update("", &[("hand", "")]));
    let told = last_update_of(&fixture.take(&carol), "alice").unwrap();
    assert_eq!(
        (told.name.as_str(), told.attributes.get("hand")),
        ("Al", None)
    );
    assert!(told.version > seen.version);
}

#[test]
fn a_client_without_the_permission_or_with_an_attribute_of_the_server_changes_nothing() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (
        fixture.joined("alice", Some("host")),
        fixture.join_talkative("bob"),
    );
    fixture.take_all();
    fixture.request(&alice, update("Al", &[]));
    fixture.request(
        &bob,
        update("Bobby", &[("hand", "up"), ("svc.role", "owner")]),
    );
    fixture.request(&bob, update("", &[("svc.role", "")]));
    assert_eq!(reasons(&fixture.take(&alice)), [(7, Reason::NotAllowed)]);
    assert_eq!(reasons(&fixture.take(&bob)), [(7, Reason::NotAllowed); 2]);
    let shown = fixture.room_state.participants();
    assert_eq!(
        shown.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["", "of the token"]
    );
    assert!(
        shown
            .iter()
            .all(|p| p.attributes == pairs(&[("svc.role", "host")]))
    );
}

#[test]
fn a_text_that_is_too_long_is_refused_as_such_and_much_of_it_makes_changes_heavier() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_talkative("alice");
    fixture.take_all();
    fixture.request(&alice, update(&"n".repeat(257), &[]));
    assert_eq!(reasons(&fixture.take(&alice)), [(7, Reason::LimitExceeded)]);
    assert_eq!(fixture.sessions[&alice].change_weight(), 1);
    fixture.request(&alice, update("", &[("text", &"t".repeat(60_000))]));
    let messages = fixture.take(&alice);
    assert_eq!(reasons(&messages), [(7, Reason::Ok)]);
    assert_eq!(fixture.sessions[&alice].change_weight(), 8);
    let Some(Response::RefreshToken(token)) = messages.iter().rev().nth(1) else {
        panic!("{messages:?}")
    };
    assert!(token.len() < 1_000, "a token goes into a url");
    assert_eq!(
        fixture.signer.verify(token, START).unwrap().attributes,
        pairs(&[("svc.role", "host")])
    );
}

#[test]
fn own_metadata_in_a_join_is_in_its_report_and_is_dropped_if_the_role_does_not_permit_it() {
    let mut fixture = Fixture::new();
    let own_metadata = OwnMetadata {
        metadata: "{}".into(),
        attributes: pairs(&[("hand", "up")]),
        ..Default::default()
    };
    let client = || Client {
        own_metadata: own_metadata.clone(),
        ..Client::default()
    };
    let sid = fixture
        .room_state
        .request_join(talkative("alice"), client(), START)
        .unwrap();
    let reported = |fixture: &mut Fixture| match fixture.room_state.take_reports().remove(0).event {
        MediaEvent::JoinRequested { participant, .. } => participant,
        other => panic!("{other:?}"),
    };
    let participant = reported(&mut fixture);
    assert_eq!(
        (
            participant.metadata.as_str(),
            participant.attributes["hand"].as_str()
        ),
        ("{}", "up")
    );
    let permits = |permits| RoleGrant {
        role: "guest".parse().unwrap(),
        grants: Grants {
            can_update_own_metadata: permits,
            ..Grants::default()
        },
        max_kbps: None,
    };
    let kept = fixture
        .room_state
        .set_role_of_join(&sid, permits(true), START)
        .unwrap();
    assert_eq!(
        (kept.metadata.as_str(), kept.attributes["svc.role"].as_str()),
        ("{}", "guest")
    );
    let dropped = fixture
        .room_state
        .set_role_of_join(&sid, permits(false), START)
        .unwrap();
    assert_eq!(
        (dropped.metadata.as_str(), dropped.name.as_str()),
        ("", "of the token")
    );
    assert_eq!(dropped.attributes, pairs(&[("svc.role", "guest")]));

    fixture
        .room_state
        .request_join(claims("bob", None), client(), START)
        .unwrap();
    assert_eq!(
        reported(&mut fixture).metadata,
        "",
        "its token does not permit it"
    );
}

#[test]
fn a_client_that_resumes_gets_what_others_have_said_meanwhile() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.join_talkative("alice"), fixture.joined("bob", None));
    fixture.call(&bob, Session::detach);
    fixture.request(&alice, update("Al", &[("hand", "up")]));
    fixture.call(&bob, |session, context| {
        session.resume(context, parameters(ConnectionMode::Single));
    });
    fixture.media(
        &bob,
        PeerEvent::Resumed {
            last_message_seq: 0,
        },
    );
    let told = last_update_of(&fixture.take(&bob), "alice").unwrap();
    assert_eq!(
        (told.name.as_str(), told.attributes["hand"].as_str()),
        ("Al", "up")
    );
}

#[test]
fn a_client_of_an_older_protocol_gets_no_response_of_success() {
    let mut fixture = Fixture::new();
    let join = JoinParameters {
        protocol: 14,
        ..parameters(ConnectionMode::Single)
    };
    let alice = fixture.join_with(talkative("alice"), &join);
    fixture.connect(&alice);
    fixture.take_all();
    fixture.request(&alice, update("Al", &[]));
    let messages = fixture.take(&alice);
    assert_eq!(
        (
            last_update_of(&messages, "alice").unwrap().name.as_str(),
            reasons(&messages).len()
        ),
        ("Al", 0)
    );
}
