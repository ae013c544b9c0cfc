//! Permissions for publishing and receiving tracks.

use conclave_model::role::PublishCodec;
use conclave_sfu::PeerCommand;

use super::*;

#[test]
fn a_track_is_admitted_by_the_grants_or_refused_with_a_reason() {
    let mut fixture = Fixture::new();
    let microphones = Grants {
        sources: vec![TrackSource::Microphone],
        ..Grants::default()
    };
    let alice = fixture.join_with(
        Claims {
            grants: microphones,
            ..claims("alice", None)
        },
        &parameters(ConnectionMode::Single),
    );
    fixture.take_all();
    fixture.request(&alice, Request::AddTrack(camera()));
    let messages = fixture.take(&alice);
    let [Response::RequestResponse(refused)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        refused.reason(),
        proto::request_response::Reason::NotAllowed
    );
    assert!(
        fixture.commands.is_empty(),
        "the media worker does not know the track"
    );

    let bob = fixture.join("bob", None);
    let track = fixture.publish(&bob);
    assert!(track.as_str().starts_with("TR_VC"));
    fixture.take_all();
    fixture.request(&bob, Request::AddTrack(camera()));
    let messages = fixture.take(&bob);
    assert!(
        matches!(&messages[..], [Response::RequestResponse(queued)] if queued.reason() == proto::request_response::Reason::Queued)
    );
}

#[test]
fn a_video_with_codecs_that_are_not_forwarded_is_refused_to_a_client_that_insists_on_them() {
    let mut fixture = Fixture::new();
    let codec = proto::SimulcastCodec {
        codec: "theora".to_owned(),
        ..Default::default()
    };
    let other = proto::AddTrackRequest {
        simulcast_codecs: vec![codec],
        ..camera()
    };
    for (identity, insists_on_codec) in [("alice", true), ("bob", false)] {
        let parameters = JoinParameters {
            insists_on_codec,
            ..parameters(ConnectionMode::Single)
        };
        let sid = fixture.join_with(claims(identity, None), &parameters);
        fixture.take_all();
        fixture.request(&sid, Request::AddTrack(other.clone()));
        let reason = fixture
            .take(&sid)
            .into_iter()
            .find_map(|message| match message {
                Response::RequestResponse(refused) => Some(refused.reason()),
                _ => None,
            });
        let expected = insists_on_codec.then_some(proto::request_response::Reason::UnsupportedType);
        assert_eq!(reason, expected, "{identity}");
    }
}

#[test]
fn a_role_with_a_list_of_codecs_publishes_with_these_and_no_others() {
    let mut fixture = Fixture::new();
    let grants = Grants {
        video_codecs: Some(vec![PublishCodec::Av1]),
        ..Grants::default()
    };
    let alice = fixture.join_with(
        Claims {
            grants,
            ..claims("alice", None)
        },
        &parameters(ConnectionMode::Single),
    );
    let messages = fixture.take(&alice);
    let Some(Response::Join(join)) = messages.first() else {
        panic!("{messages:?}")
    };
    let mimes: Vec<_> = join
        .enabled_publish_codecs
        .iter()
        .map(|codec| codec.mime.as_str())
        .collect();
    assert_eq!(mimes, ["video/AV1", "audio/opus"]);
    fixture.connect(&alice);
    let track = fixture.publish(&alice);
    let announced = fixture.commands.iter().find_map(|command| match command {
        Command::Peer {
            command: PeerCommand::PublishTrack(track),
            ..
        } => Some(track.allowed_codecs.clone()),
        _ => None,
    });
    assert_eq!(
        announced,
        Some(vec![Codec::Av1, Codec::Opus]),
        "the offer decides, of these"
    );
    fixture.take_all();
    let none = Grants {
        video_codecs: Some(Vec::new()),
        ..Grants::default()
    };
    fixture.set_role("alice", "viewer", none);
    assert_eq!(fixture.room_state.codec_of(&track), None);
    assert_eq!(
        fixture.event_names()[0],
        "unpublished",
        "a role without codecs ends it"
    );
}

#[test]
fn a_track_that_is_offered_with_other_codecs_is_unpublished_and_can_be_announced_again() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    fixture.take_all();
    fixture.request(&alice, Request::AddTrack(camera()));
    let messages = fixture.take(&alice);
    let Some(Response::TrackPublished(admitted)) = messages.last() else {
        panic!("{messages:?}")
    };
    let track = admitted.track.as_ref().unwrap().sid.clone();
    fixture.media(&alice, PeerEvent::TrackRefused(track.parse().unwrap()));
    let messages = fixture.take(&alice);
    assert!(
        matches!(&messages[..], [Response::TrackUnpublished(ended)] if ended.track_sid == track),
        "{messages:?}"
    );
    assert!(fixture.event_names().is_empty(), "it was never published");
    fixture.publish(&alice);
    assert_eq!(fixture.event_names(), ["published"]);
}

#[test]
fn the_rules_of_roles_hidden_participants_and_the_publishers_own_list_decide_who_receives() {
    let mut fixture = Fixture::new();
    let rules = [(
        "guest".parse().unwrap(),
        RoleSubscribe {
            to_roles: Some(vec!["host".parse().unwrap()]),
            max_kbps: None,
        },
    )]
    .into();
    let (host, guest, other) = (
        fixture.joined("host", Some("host")),
        fixture.joined("guest", Some("guest")),
        fixture.joined("other", Some("guest")),
    );
    fixture.room_state.set_subscription_rules(rules);
    let (of_host, of_other) = (fixture.publish(&host), fixture.publish(&other));
    assert!(fixture.is_subscribed(&guest, &of_host) && fixture.is_subscribed(&host, &of_other));
    assert!(!fixture.is_subscribed(&guest, &of_other));
    let denied = fixture.take(&guest);
    assert!(denied.iter().any(
        |message| matches!(message, Response::SubscriptionPermissionUpdate(update)
        if !update.allowed && update.track_sid == of_other.as_str())
    ));

    let nobody = proto::SubscriptionPermission {
        all_participants: false,
        track_permissions: vec![],
    };
    fixture.request(&host, Request::SubscriptionPermission(nobody));
    assert!(!fixture.is_subscribed(&guest, &of_host) && !fixture.is_subscribed(&other, &of_host));
    let everyone = proto::SubscriptionPermission {
        all_participants: true,
        track_permissions: vec![],
    };
    fixture.request(&host, Request::SubscriptionPermission(everyone));
    assert!(fixture.is_subscribed(&guest, &of_host));

    fixture.take_all();
    fixture.set_role(
        "other",
        "ghost",
        Grants {
            hidden: true,
            ..Grants::default()
        },
    );
    assert!(fixture.commands.iter().any(
        |command| matches!(command, Command::Peer { peer, command: PeerCommand::Unsubscribe(_) } if *peer == host)
    ));
    let left = proto::participant_info::State::Disconnected.into();
    assert_eq!(
        updates(&fixture.take(&host)),
        [("other".to_owned(), left, 0)],
        "a hidden participant is gone for the others"
    );
}

#[test]
fn a_client_receives_what_it_wants() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish(&alice);
    let wish = |subscribe| {
        let track_sids = vec![track.to_string()];
        Request::Subscription(proto::UpdateSubscription {
            track_sids,
            subscribe,
            participant_tracks: vec![],
        })
    };
    fixture.request(&bob, wish(false));
    assert!(!fixture.is_subscribed(&bob, &track));
    fixture.request(&bob, wish(true));
    assert!(fixture.is_subscribed(&bob, &track));
}

#[test]
fn a_role_that_forbids_a_track_ends_it_at_the_media_worker_and_at_the_client() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (
        fixture.joined("alice", Some("host")),
        fixture.joined("bob", None),
    );
    let track = fixture.publish(&alice);
    fixture.take_all();
    fixture.set_role(
        "alice",
        "viewer",
        Grants {
            can_publish: false,
            ..Grants::default()
        },
    );
    assert!(fixture.commands.iter().any(
        |command| matches!(command, Command::Peer { command: PeerCommand::UnpublishTrack(of, ..), .. } if *of == track)
    ));
    let told = fixture.take(&alice);
    assert!(
        matches!(&told[0], Response::TrackUnpublished(ended) if ended.track_sid == track.as_str())
    );
    let Response::RefreshToken(token) = told.last().unwrap() else {
        panic!("{told:?}")
    };
    assert!(
        !fixture
            .signer
            .verify(token, START)
            .unwrap()
            .grants
            .can_publish
    );
    assert_eq!(updates(&fixture.take(&bob)), [("alice".to_owned(), 2, 0)]);
    assert_eq!(fixture.event_names(), ["unpublished"]);
}

#[test]
fn a_requested_track_that_is_not_published_within_a_minute_is_a_subscription_error() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let late = fixture.publish(&bob);
    fixture.media(&bob, PeerEvent::TrackEnded(late.clone()));
    fixture.take_all();
    let wish = |track: &str, subscribe| {
        let track_sids = vec![track.to_owned()];
        Request::Subscription(proto::UpdateSubscription {
            track_sids,
            subscribe,
            ..proto::UpdateSubscription::default()
        })
    };
    for track in ["TR_VCnone", "TR_VCother"] {
        fixture.request(&alice, wish(track, true));
    }
    fixture.request(&alice, wish("TR_VCother", false));
    let published = fixture.publish(&bob);
    fixture.request(&alice, wish(published.as_str(), true));
    fixture.now = START.after(Duration::from_secs(59));
    fixture.request(&alice, Request::Ping(1));
    fixture.take_all();
    assert_eq!(
        fixture.sessions[&alice].next_deadline(),
        reading(START.after(Duration::from_secs(60)))
    );
    fixture.now = START.after(Duration::from_secs(60));
    fixture.call(&alice, Session::tick);
    let messages = fixture.take(&alice);
    let [Response::SubscriptionResponse(response)] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(
        (response.track_sid.as_str(), response.err()),
        ("TR_VCnone", proto::SubscriptionError::SeTrackNotfound)
    );
    assert_eq!(
        fixture.sessions[&alice].next_deadline(),
        reading(START.after(Duration::from_secs(74))),
        "the failure is reported once"
    );
}

#[test]
fn the_limit_of_a_role_holds_from_the_join_through_changes_of_rules_and_roles() {
    let mut fixture = Fixture::new();
    let limit = |kbps: i64| RoleSubscribe {
        to_roles: None,
        max_kbps: Some(kbps.try_into().unwrap()),
    };
    let guest: RoleName = "guest".parse().unwrap();
    let told = |fixture: &Fixture| {
        let limits = fixture.commands.iter().filter_map(|command| match command {
            Command::AddPeer(peer) => Some(peer.permissions.subscribe_max_kbps),
            Command::Peer {
                command: PeerCommand::SetPermissions(permissions),
                ..
            } => Some(permissions.subscribe_max_kbps),
            _ => None,
        });
        limits.collect::<Vec<_>>()
    };
    fixture
        .room_state
        .set_subscription_rules([(guest.clone(), limit(500))].into());
    fixture.joined("alice", Some("guest"));
    assert_eq!(told(&fixture), [Some(500)]);
    fixture
        .room_state
        .set_subscription_rules([(guest, limit(300))].into());
    fixture.deliver();
    fixture.set_role("alice", "host", Grants::default());
    assert_eq!(told(&fixture), [Some(500), Some(300), None]);
}

#[test]
fn a_client_that_has_not_followed_a_mute_of_the_server_cannot_undo_it() {
    let mut fixture = Fixture::new();
    let alice = fixture.joined("alice", None);
    let track = fixture.publish(&alice);
    fixture.take_all();
    let identity = "alice".parse().unwrap();
    fixture
        .room_state
        .mute_by_server(&identity, &track, true, fixture.now)
        .unwrap();
    fixture.deliver();
    let mute = |muted| {
        Request::Mute(proto::MuteTrackRequest {
            sid: track.to_string(),
            muted,
        })
    };
    let is_muted = |fixture: &Fixture| fixture.room_state.participants()[0].tracks[0].muted;
    assert!(matches!(&fixture.take(&alice)[0], Response::Mute(mute) if mute.muted));
    fixture.request(&alice, mute(false));
    assert!(
        is_muted(&fixture),
        "a client replies to an update with its own state"
    );
    fixture.request(&alice, mute(true));
    fixture.request(&alice, mute(false));
    assert!(
        !is_muted(&fixture),
        "the client has muted the track, and now unmutes it"
    );
    let muted = fixture.commands.iter().filter_map(|command| match command {
        Command::Peer {
            command: PeerCommand::SetMuted { muted, .. },
            ..
        } => Some(*muted),
        _ => None,
    });
    assert_eq!(muted.collect::<Vec<_>>(), [true, false]);
}

/// Proves S-52.
#[test]
fn settings_reach_the_media_worker_once_for_each_track_that_a_client_receives() {
    let mut fixture = Fixture::new();
    let (alice, bob) = (fixture.joined("alice", None), fixture.joined("bob", None));
    let track = fixture.publish(&bob);
    fixture.take_all();
    let unknown = (0..500).map(|number| format!("TR_VC{number:010}"));
    let track_sids: Vec<_> = std::iter::repeat_n(track.to_string(), 400)
        .chain(unknown)
        .collect();
    let settings = proto::UpdateTrackSettings {
        track_sids,
        width: 640,
        ..Default::default()
    };
    fixture.request(&alice, Request::TrackSetting(settings));
    let [
        Command::Peer {
            peer,
            command:
                PeerCommand::SetTrackSettings {
                    track: of,
                    settings,
                },
        },
    ] = &fixture.commands[..]
    else {
        panic!("{:?}", fixture.commands)
    };
    assert_eq!((peer, of, settings.width), (&alice, &track, 640));
}
