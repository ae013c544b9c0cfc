use super::*;
use proptest::prelude::*;
use regex::Regex;

#[test]
fn a_namespaced_room_splits_into_what_it_was_made_of() {
    let (project, room): (ProjectId, RoomName) = (ProjectId::new(), "stand-up_1".parse().unwrap());
    assert_eq!(
        NamespacedRoom::new(&project, &room).split(),
        (project, room)
    );
}

#[test]
fn only_the_hyphenated_form_is_a_uuid() {
    let id = SessionId::new();
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!(id.0.simple().to_string().parse::<SessionId>().is_err());
    assert!(id.0.urn().to_string().parse::<SessionId>().is_err());
}

#[test]
fn a_guest_is_an_identity_with_eight_random_characters() {
    let guest = Identity::guest();
    assert_eq!(guest.as_str().strip_prefix("guest-").unwrap().len(), 8);
    assert_eq!(guest.as_str().parse(), Ok(guest.clone()));
    assert_ne!(guest, Identity::guest());
}

#[test]
fn new_ids_of_projects_parse_and_differ() {
    let (one, another) = (ProjectId::new(), ProjectId::new());
    assert_eq!(one.as_str().parse(), Ok(one.clone()));
    assert_ne!(one, another);
}

#[test]
fn the_characters_and_the_length_of_an_id_are_both_checked() {
    let long = "x".repeat(256);
    for good in ["a.b", "$web", "my-bucket_1", &long[1..]] {
        assert!(good.parse::<BucketName>().is_ok(), "{good}");
    }
    for bad in ["", "a/b", &long] {
        assert!(bad.parse::<BucketName>().is_err(), "{bad}");
    }
    assert!(
        "alice.b@example-1.org_".parse::<Identity>().is_ok()
            && "alice b".parse::<Identity>().is_err()
    );
    assert!("PA_1#".parse::<ParticipantSid>().is_ok() && "PA 1".parse::<ParticipantSid>().is_err());
    assert!(
        long[127..].parse::<ParticipantSid>().is_err() && long[127..].parse::<RoomName>().is_err()
    );
    for bad in [
        "prj_0123456789a",
        "prj_0123456789abc",
        "prj_0123456789ag",
        "tpl_0123456789ab",
        "0123456789ab",
    ] {
        assert!(
            bad.parse::<ProjectId>().is_err()
                && format!("{bad}.room").parse::<NamespacedRoom>().is_err(),
            "{bad}"
        );
    }
    assert!("prj_0123456789ab.".parse::<NamespacedRoom>().is_err());
}

proptest! {
    #[test]
    fn a_room_name_is_exactly_its_pattern(text in "\\PC{0,140}") {
        let fits = (1..=128).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        prop_assert_eq!(text.parse::<RoomName>().is_ok(), fits);
    }

    #[test]
    fn an_identity_is_its_pattern_but_no_step_in_a_path(text in "[ -~é]{0,140}|[.a]{0,3}|[a-zA-Z0-9_.@-]{1,130}") {
        let fits = (1..=128).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.@-".contains(c));
        prop_assert_eq!(text.parse::<Identity>().is_ok(), fits && text != "." && text != "..");
        prop_assert_eq!(Identity::from_record(&text).is_some(), fits);
    }

    #[test]
    fn no_text_makes_an_id_parser_panic(text in any::<String>()) {
        let _ = text.parse::<ProjectId>();
        let _ = text.parse::<TemplateId>();
        let _ = text.parse::<DestinationId>();
        let _ = text.parse::<NamespacedRoom>();
        let _ = text.parse::<SessionId>();
    }
}

/// Texts near the patterns, and texts far from them.
const NEAR: &str = "prj_[0-9a-g]{11,13}|tpl_[0-9a-f]{12}\n?|dst_[0-9a-fA]{12}|prj_[0-9a-f]{12}\\.[a-z]{0,3}|[!-~é ]{0,4}|\\PC{0,140}|[a-z]{63,65}|[0-9a-f]{8}(-[0-9a-fG]{4}){3}-[0-9a-f]{12}";

macro_rules! patterns {
    ($($name:ident)*) => {
        proptest! {
            #[test]
            fn each_pattern_accepts_what_its_parser_accepts(text in NEAR) {
                $({
                    thread_local!(static PATTERN: Regex = Regex::new($name::PATTERN).unwrap());
                    let matches = PATTERN.with(|pattern| pattern.is_match(&text));
                    prop_assert_eq!(text.parse::<$name>().is_ok(), matches, "{}", stringify!($name));
                })*
            }
        }
    };
}

patterns!(
    ProjectId RoomName NamespacedRoom TemplateId TemplateName RoleName DestinationId DestinationName BucketName
    StorageLabel ParticipantSid TrackSid EgressId IngressId RoomId SessionId CodeId EndpointId DeliveryId
);
