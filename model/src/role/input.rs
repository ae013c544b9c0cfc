//! Role as a caller sends it, and the defaults for omitted fields.

use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    AudioCodec, AudioProfile, PublishCodec, PublishKind, Role, RoleAttributes, RolePermissions,
    RolePublish, RoleSubscribe, VideoCodec, VideoProfile,
};
use crate::RoleName;
use crate::bounded::{FrameRate, Kbps, PeerCount, Pixels, Priority};
use crate::non_null::{non_null, non_null_object};

/// A role as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleInput {
    /// If sent, must be the name of the role in the template.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(value_type = Option<RoleName>, nullable = false)]
    pub name: Option<String>,
    /// The media that holders may publish; default everything.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub publish: Option<RolePublishInput>,
    /// The roles whose media holders receive; default all.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub subscribe: Option<RoleSubscribeInput>,
    /// The moderation calls that holders may make; default none.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub permissions: Option<RolePermissions>,
    /// Priority; default 3.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub priority: Option<Priority>,
    /// Maximum number of concurrent holders in a room; default 0, unlimited.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub max_peer_count: Option<PeerCount>,
    /// Whether holders are invisible to other participants; default false.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub hidden: Option<bool>,
    /// Beyond the contract: attributes that participants who join with the role start with; default none.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub attributes: Option<RoleAttributes>,
}

/// RolePublish as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RolePublishInput {
    /// Default all four kinds.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub allowed: Option<Vec<PublishKind>>,
    /// Limit in kilobits a second; default null, unlimited.
    pub max_kbps: Option<Kbps>,
    /// The encoding of microphone audio.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub audio: Option<AudioInput>,
    /// The encoding of camera video.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub video: Option<VideoInput>,
    /// The encoding of a shared screen.
    #[serde(default, deserialize_with = "non_null_object")]
    #[schema(nullable = false)]
    pub screen: Option<VideoInput>,
    /// Whether video is sent in several qualities at once; default true.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub simulcast: Option<bool>,
    /// Beyond the contract and its description: the codecs with which video may be published; default all.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(ignore)]
    pub video_codecs: Option<Vec<PublishCodec>>,
}

/// AudioProfile as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AudioInput {
    /// Bitrate in kilobits a second; default 32.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub max_kbps: Option<Kbps>,
    /// The audio codec; default opus.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub codec: Option<AudioCodec>,
}

/// VideoProfile as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VideoInput {
    /// Default 1200 for the camera, 2500 for the screen.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub max_kbps: Option<Kbps>,
    /// The video codec; default vp8.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub codec: Option<VideoCodec>,
    /// Default 25 for the camera, 10 for the screen.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub frame_rate: Option<FrameRate>,
    /// Default 1280 for the camera, 1920 for the screen.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub width: Option<Pixels>,
    /// Default 720 for the camera, 1080 for the screen.
    #[serde(default, deserialize_with = "non_null")]
    #[schema(nullable = false)]
    pub height: Option<Pixels>,
}

/// RoleSubscribe as a caller sends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleSubscribeInput {
    /// Roles whose media is received; default null, every role.
    pub to_roles: Option<Vec<RoleName>>,
    /// Limit in kilobits a second; default null, unlimited.
    pub max_kbps: Option<Kbps>,
}

/// The input has another name than the role in the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role's name, if sent, must equal its key in roles")]
pub struct RoleNameMismatch;

impl RoleInput {
    /// Returns the complete role, with omitted fields at their defaults.
    ///
    /// # Errors
    /// [`RoleNameMismatch`] if the input contains another name than `name`.
    pub fn with_defaults(self, name: RoleName) -> Result<Role, RoleNameMismatch> {
        // A role's name is the key in the template; a second, different name would be ambiguous.
        if self.name.is_some_and(|sent| sent != name.as_str()) {
            return Err(RoleNameMismatch);
        }
        let subscribe = self.subscribe.unwrap_or_default();
        Ok(Role {
            name,
            publish: self.publish.unwrap_or_default().with_defaults(),
            // For these two, null is a value of its own, and also the default.
            subscribe: RoleSubscribe {
                to_roles: subscribe.to_roles,
                max_kbps: subscribe.max_kbps,
            },
            // All false: moderation has to be granted.
            permissions: self.permissions.unwrap_or_default(),
            // 3 in the contract.
            priority: self.priority.unwrap_or(Priority::known(3)),
            max_peer_count: self.max_peer_count.unwrap_or(PeerCount::known(0)),
            hidden: self.hidden.unwrap_or(false),
            attributes: self.attributes.unwrap_or_default(),
        })
    }
}

impl RolePublishInput {
    fn with_defaults(self) -> RolePublish {
        use PublishKind::{Audio, Data, Screen, Video};
        // The first mention counts, so the order is the caller's.
        let allowed = distinct(
            self.allowed
                .unwrap_or_else(|| vec![Audio, Video, Screen, Data]),
        );
        let audio = self.audio.unwrap_or_default();
        RolePublish {
            allowed,
            max_kbps: self.max_kbps,
            audio: AudioProfile {
                max_kbps: audio.max_kbps.unwrap_or(Kbps::known(32)),
                // The contract's only audio codec.
                codec: audio.codec.unwrap_or(AudioCodec::Opus),
            },
            video: self
                .video
                .unwrap_or_default()
                // These and the screen's are the contract's defaults.
                .with_defaults(1200, 25, (1280, 720)),
            screen: self
                .screen
                .unwrap_or_default()
                .with_defaults(2500, 10, (1920, 1080)),
            simulcast: self.simulcast.unwrap_or(true),
            video_codecs: self.video_codecs.map(distinct),
        }
    }
}

/// Returns the list without repetitions.
fn distinct<T: Copy + PartialEq>(list: Vec<T>) -> Vec<T> {
    let mut seen = Vec::new();
    for entry in list {
        // At most five entries, so a linear search is enough.
        if !seen.contains(&entry) {
            seen.push(entry);
        }
    }
    seen
}

impl VideoInput {
    fn with_defaults(
        self,
        kbps: i64,
        frame_rate: i64,
        (width, height): (i64, i64),
    ) -> VideoProfile {
        VideoProfile {
            max_kbps: self.max_kbps.unwrap_or(Kbps::known(kbps)),
            codec: self.codec.unwrap_or(VideoCodec::Vp8),
            frame_rate: self.frame_rate.unwrap_or(FrameRate::known(frame_rate)),
            width: self.width.unwrap_or(Pixels::known(width)),
            height: self.height.unwrap_or(Pixels::known(height)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::participant::TrackSource;

    fn name() -> RoleName {
        "host".parse().unwrap()
    }

    #[test]
    fn an_empty_object_is_a_complete_role() {
        let role = serde_json::from_str::<RoleInput>("{}")
            .unwrap()
            .with_defaults(name())
            .unwrap();
        let json = serde_json::to_value(&role).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "name": "host",
                "publish": {
                    "allowed": ["audio", "video", "screen", "data"], "max_kbps": null,
                    "audio": {"max_kbps": 32, "codec": "opus"},
                    "video": {"max_kbps": 1200, "codec": "vp8", "frame_rate": 25, "width": 1280, "height": 720},
                    "screen": {"max_kbps": 2500, "codec": "vp8", "frame_rate": 10, "width": 1920, "height": 1080},
                    "simulcast": true
                },
                "subscribe": {"to_roles": null, "max_kbps": null},
                "permissions": {"end_room": false, "remove_others": false, "mute_others": false,
                    "unmute_others": false, "change_role": false, "send_data": false, "record": false,
                    "broadcast": false},
                "priority": 3, "max_peer_count": 0, "hidden": false
            })
        );
        assert_eq!(serde_json::from_value::<Role>(json).unwrap(), role);
    }

    #[test]
    fn an_object_sent_in_part_keeps_the_other_defaults() {
        let input = r#"{"publish":{"video":{"width":640}},"permissions":{"end_room":true}}"#;
        let role = serde_json::from_str::<RoleInput>(input)
            .unwrap()
            .with_defaults(name())
            .unwrap();
        assert_eq!(
            (
                role.publish.video.width.get(),
                role.publish.video.height.get()
            ),
            (640, 720)
        );
        assert!(role.permissions.end_room && !role.permissions.record);
    }

    #[test]
    fn a_name_must_be_the_one_it_is_filed_under() {
        let input = RoleInput {
            name: Some("guest".into()),
            ..RoleInput::default()
        };
        assert_eq!(input.with_defaults(name()), Err(RoleNameMismatch));
    }

    #[test]
    fn the_codecs_of_video_are_shown_only_if_they_were_set() {
        let publish = |input: &str| {
            let role = serde_json::from_str::<RoleInput>(input)
                .unwrap()
                .with_defaults(name())
                .unwrap();
            let json = serde_json::to_value(&role).unwrap();
            assert_eq!(serde_json::from_value::<Role>(json.clone()).unwrap(), role);
            json["publish"].get("video_codecs").cloned()
        };
        assert_eq!(publish("{}"), None);
        let input = r#"{"publish":{"video_codecs":["vp9","h265","vp9"]}}"#;
        assert_eq!(publish(input), Some(serde_json::json!(["vp9", "h265"])));
        assert_eq!(
            publish(r#"{"publish":{"video_codecs":[]}}"#),
            Some(serde_json::json!([]))
        );
        for refused in ["null", r#"["theora"]"#] {
            assert!(
                serde_json::from_str::<RoleInput>(&format!(
                    r#"{{"publish":{{"video_codecs":{refused}}}}}"#
                ))
                .is_err()
            );
        }
    }

    #[test]
    fn null_is_refused_but_for_a_bitrate_without_a_limit() {
        assert!(serde_json::from_str::<RoleInput>(r#"{"publish":{"max_kbps":null}}"#).is_ok());
        assert!(serde_json::from_str::<RoleInput>(r#"{"publish":null}"#).is_err());
        assert!(serde_json::from_str::<RoleInput>(r#"{"priority":null}"#).is_err());
        assert!(serde_json::from_str::<RoleInput>(r#"{"publish":[]}"#).is_err());
    }

    #[test]
    fn sources_follow_the_allowed_kinds() {
        let input = r#"{"publish":{"allowed":["screen","data","screen"]}}"#;
        let publish = serde_json::from_str::<RoleInput>(input)
            .unwrap()
            .with_defaults(name())
            .unwrap()
            .publish;
        assert_eq!(publish.allowed, [PublishKind::Screen, PublishKind::Data]);
        assert_eq!(
            publish.sources(),
            [TrackSource::ScreenShare, TrackSource::ScreenShareAudio]
        );
        assert!(publish.allows_media() && publish.allows_data());
        let all = RoleInput::default().with_defaults(name()).unwrap().publish;
        assert!(
            all.allows_media() && all.sources().is_empty(),
            "no list allows tracks without a source too"
        );
        for (allowed, media, data) in [
            ("[]", false, false),
            (r#"["data"]"#, false, true),
            (r#"["audio"]"#, true, false),
        ] {
            let input: RoleInput =
                serde_json::from_str(&format!(r#"{{"publish":{{"allowed":{allowed}}}}}"#)).unwrap();
            let publish = input.with_defaults(name()).unwrap().publish;
            assert_eq!(
                (publish.allows_media(), publish.allows_data()),
                (media, data),
                "{allowed}"
            );
        }
    }
}
