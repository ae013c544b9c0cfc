//! Tracks that clients announce with `AddTrackRequest`.

#![expect(
    deprecated,
    reason = "clients of older versions read and write these fields"
)]

use conclave_model::TrackSid;
use conclave_model::participant::{TrackKind, TrackSource};
use conclave_sfu::{Codec, LayerInfo, NewTrack, Quality, TrackMedium};
use livekit_protocol as proto;
use proto::{
    AddTrackRequest, AudioTrackFeature, BackupCodecPolicy, SimulcastCodecInfo, TrackInfo,
    VideoLayer,
};

use crate::protocol::{source_from_proto, track_kind_from_proto};

/// Maximum length of a client's text, in bytes. Longer ones are truncated.
const MAX_TEXT: usize = 1_024;
/// Maximum number of layers per track.
const MAX_LAYERS: usize = 3;
/// Maximum number of backup codecs per track. LiveKit's clients use one.
const MAX_BACKUPS: usize = 2;

/// A negotiated media section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaSection {
    /// The section's mid in the client's SDP.
    pub mid: String,
    /// The negotiated codec.
    pub codec: Codec,
    /// Simulcast layers.
    pub layers: Vec<Quality>,
}

/// Converts a track's type and source from the protocol's numbers. `None` for a type that clients cannot announce this
/// way.
pub(super) fn kind_and_source(track_type: i32, source: i32) -> Option<(TrackKind, TrackSource)> {
    let kind = track_kind_from_proto(proto::TrackType::try_from(track_type).ok()?);
    // A source that a newer protocol has added is unknown, but no reason to refuse the track.
    let source = proto::TrackSource::try_from(source).unwrap_or_default();
    (kind != TrackKind::Data).then(|| (kind, source_from_proto(source)))
}

/// Returns the prefix of a track's sid, which shows kind and source as LiveKit's does.
pub(super) fn sid_prefix(kind: TrackKind, source: TrackSource) -> &'static str {
    match (kind, source) {
        (TrackKind::Audio, TrackSource::ScreenShareAudio) => "TR_As",
        (TrackKind::Audio, _) => "TR_AM",
        (TrackKind::Video, TrackSource::ScreenShare) => "TR_VS",
        (TrackKind::Video, _) => "TR_VC",
        (TrackKind::Data, _) => "TR_D",
    }
}

/// Returns a requested track for clients and for the media worker. `allowed` are the publisher's permitted codecs, in
/// order of preference.
pub(super) fn accept(
    request: &AddTrackRequest,
    sid: &TrackSid,
    (kind, source): (TrackKind, TrackSource),
    allowed: &[Codec],
) -> (TrackInfo, NewTrack) {
    // In order of quality, whatever order the client lists them in.
    let layers = sorted_layers(&request.layers);
    let medium = if kind == TrackKind::Audio {
        TrackMedium::Audio
    } else {
        TrackMedium::Video
    };
    let codec = wanted_codec(request, medium, allowed);
    let backup_codecs = backup_codecs(request, codec, allowed);
    let has_feature =
        |feature: AudioTrackFeature| request.audio_features.contains(&i32::from(feature));
    // Older clients have a flag for stereo and DTX, newer ones list audio features.
    let is_stereo = request.stereo || has_feature(AudioTrackFeature::TfStereo);
    let media = NewTrack {
        sid: sid.clone(),
        cid: cut(&request.cid),
        medium,
        source,
        codec,
        // The client's offer may still choose another codec, so the media worker gets all that are allowed.
        allowed_codecs: allowed.to_vec(),
        is_stereo,
        uses_dtx: !request.disable_dtx && !has_feature(AudioTrackFeature::TfNoDtx),
        uses_red: !request.disable_red,
        is_muted: request.muted,
        layers: layers.iter().filter_map(layer_info).collect(),
        prefers_backup: request.backup_codec_policy() == BackupCodecPolicy::Regression,
        is_backup: false,
        backup_codecs,
    };
    let first = SimulcastCodecInfo {
        mime_type: codec.map_or("", Codec::mime_type).to_owned(),
        cid: cut(&request.cid),
        layers: layers.clone(),
        ..SimulcastCodecInfo::default()
    };
    let info = TrackInfo {
        sid: sid.to_string(),
        r#type: request.r#type,
        name: cut(&request.name),
        muted: request.muted,
        width: request.width,
        height: request.height,
        disable_dtx: request.disable_dtx,
        source: request.source,
        stereo: is_stereo,
        disable_red: request.disable_red,
        encryption: request.encryption,
        stream: cut(&request.stream),
        // 16 is far above the number of features that exist: a bound for hostile clients.
        audio_features: request.audio_features.iter().copied().take(16).collect(),
        packet_trailer_features: request
            .packet_trailer_features
            .iter()
            .copied()
            .take(16)
            .collect(),
        codecs: [first]
            .into_iter()
            .chain(media.backup_codecs.iter().copied().map(unsent_backup))
            .collect(),
        backup_codec_policy: request.backup_codec_policy,
        layers,
        ..TrackInfo::default()
    };
    (info, media)
}

/// Completes a track's information for clients from its media section.
pub(super) fn describe_section(info: &mut TrackInfo, section: MediaSection) {
    // The offer decides, not the announcement: a client may announce layers that it then does not send.
    info.simulcast = section.layers.len() > 1;
    // Clients match tracks and media sections by mid.
    info.mid.clone_from(&section.mid);
    section.codec.mime_type().clone_into(&mut info.mime_type);
    // The first codec is the main one; backups follow.
    if let Some(codec) = info.codecs.first_mut() {
        codec.mid = section.mid;
        section.codec.mime_type().clone_into(&mut codec.mime_type);
    }
    // A client that cannot send the codec that it named first may send one of its backups instead, which is then no
    // backup.
    remove_backup(info, section.codec);
}

/// Removes a codec from a track's backup codecs.
pub(super) fn remove_backup(info: &mut TrackInfo, codec: Codec) {
    let (mut is_first, mime_type) = (true, codec.mime_type());
    // The first one is the main codec, which stays even if it has the same MIME type.
    info.codecs
        .retain(|known| std::mem::take(&mut is_first) || known.mime_type != mime_type);
}

/// Returns the information for clients on a backup codec that is not sent.
pub(super) fn unsent_backup(codec: Codec) -> SimulcastCodecInfo {
    SimulcastCodecInfo {
        mime_type: codec.mime_type().to_owned(),
        ..SimulcastCodecInfo::default()
    }
}

/// Returns the information for clients on a track's backup codec; `None` if the track has no such backup.
pub(super) fn backup_of(info: &mut TrackInfo, codec: Codec) -> Option<&mut SimulcastCodecInfo> {
    info.codecs
        .iter_mut()
        // The first entry is the main codec.
        .skip(1)
        .find(|backup| backup.mime_type == codec.mime_type())
}

/// Returns the backup codec that a client announces for its track: the named one, or the only one if none is named.
pub(super) fn requested_backup(request: &AddTrackRequest, info: &TrackInfo) -> Option<Codec> {
    let mut backups = info
        .codecs
        .iter()
        .skip(1)
        .filter_map(|backup| Codec::from_mime_type(&backup.mime_type));
    match named_codecs(request).next() {
        Some(name) => {
            Codec::from_mime_type(name).filter(|codec| backups.any(|backup| backup == *codec))
        }
        // Without a name, the backup must be unambiguous.
        None => backups.next().filter(|_| backups.next().is_none()),
    }
}

/// Returns a track's backup for the media worker, and completes the information for clients.
pub(super) fn accept_backup(
    request: &AddTrackRequest,
    sid: &TrackSid,
    info: &mut TrackInfo,
    codec: Codec,
) -> NewTrack {
    let (is_muted, cid) = (info.muted, cut(&request.cid));
    // A backup's layers are in its codec entry; some clients list them for the whole track only.
    let named = request
        .simulcast_codecs
        .first()
        .map_or(&[][..], |codec| &codec.layers);
    let layers = sorted_layers(if named.is_empty() {
        &request.layers
    } else {
        named
    });
    let media = NewTrack {
        sid: sid.clone(),
        cid: cid.clone(),
        medium: TrackMedium::Video,
        source: kind_and_source(info.r#type, info.source)
            .map_or(TrackSource::Unknown, |(_, source)| source),
        codec: Some(codec),
        allowed_codecs: vec![codec],
        is_stereo: false,
        uses_dtx: false,
        uses_red: false,
        is_muted,
        layers: layers.iter().filter_map(layer_info).collect(),
        backup_codecs: Vec::new(),
        prefers_backup: false,
        is_backup: true,
    };
    if let Some(backup) = backup_of(info, codec) {
        (backup.cid, backup.layers) = (cid, layers);
    }
    media
}

fn sorted_layers(layers: &[VideoLayer]) -> Vec<VideoLayer> {
    let mut layers: Vec<_> = layers.iter().take(MAX_LAYERS).cloned().collect();
    layers.sort_by_key(|layer| layer.quality);
    layers
}

/// Returns whether a client names codecs for a video track, but none that it may use.
pub(super) fn names_other_codecs(request: &AddTrackRequest, allowed: &[Codec]) -> bool {
    let is_forwarded = |name: &str| {
        // Names such as `vp8` are accepted as well as MIME types.
        let codec = Codec::from_mime_type(name).filter(|codec| allowed.contains(codec));
        codec.is_some_and(|codec| codec.medium() == TrackMedium::Video)
    };
    let mut named = named_codecs(request).peekable();
    request.r#type == i32::from(proto::TrackType::Video)
        && named.peek().is_some()
        && !named.any(is_forwarded)
}

/// Returns the names of the codecs that a client offers for a track.
fn named_codecs(request: &AddTrackRequest) -> impl Iterator<Item = &str> {
    request
        .simulcast_codecs
        .iter()
        .map(|codec| codec.codec.as_str())
        .filter(|name| !name.is_empty())
}

/// Returns Opus for audio. For video, returns the first named codec that the client may use, or the preferred allowed
/// codec if it names only others. `None` if it names none; then its offer decides.
fn wanted_codec(
    request: &AddTrackRequest,
    medium: TrackMedium,
    allowed: &[Codec],
) -> Option<Codec> {
    if medium == TrackMedium::Audio {
        // The only audio codec that is forwarded, besides RED, which contains it.
        return Some(Codec::Opus);
    }
    let mut named = named_codecs(request).peekable();
    named.peek()?;
    let is_usable = |codec: &Codec| codec.medium() == medium && allowed.contains(codec);
    let forwarded = named.filter_map(Codec::from_mime_type).find(is_usable);
    // The client's offer may still contain one of these.
    forwarded.or_else(|| allowed.iter().copied().find(is_usable))
}

/// Returns the further codecs that the client names for a video track and may use.
fn backup_codecs(request: &AddTrackRequest, first: Option<Codec>, allowed: &[Codec]) -> Vec<Codec> {
    let Some(first) = first.filter(|first| first.medium() == TrackMedium::Video) else {
        // Audio has no backup codecs, and a video track without a named codec leaves the choice to its offer.
        return Vec::new();
    };
    let named = named_codecs(request)
        .skip(1)
        .filter_map(Codec::from_mime_type);
    let mut found = Vec::new();
    for codec in
        named.filter(|codec| codec.medium() == TrackMedium::Video && allowed.contains(codec))
    {
        if codec != first && !found.contains(&codec) && found.len() < MAX_BACKUPS {
            found.push(codec);
        }
    }
    found
}

fn layer_info(layer: &VideoLayer) -> Option<LayerInfo> {
    // `OFF`, which has no layer, is the number after the three qualities.
    let quality = usize::try_from(layer.quality)
        .ok()
        .and_then(|index| Quality::ALL.get(index).copied())?;
    Some(LayerInfo {
        quality,
        width: layer.width,
        height: layer.height,
        bitrate: layer.bitrate,
    })
}

fn cut(text: &str) -> String {
    let end = (0..=MAX_TEXT.min(text.len()))
        .rev()
        // At most three steps back: a character has at most four bytes.
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default())
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(codec: &str) -> AddTrackRequest {
        let layer = |quality, width| VideoLayer {
            quality,
            width,
            height: width / 2,
            ..VideoLayer::default()
        };
        AddTrackRequest {
            cid: "cid".into(),
            r#type: proto::TrackType::Video.into(),
            source: proto::TrackSource::Camera.into(),
            layers: vec![layer(2, 1280), layer(0, 320), layer(1, 640)],
            simulcast_codecs: vec![proto::SimulcastCodec {
                codec: codec.into(),
                ..proto::SimulcastCodec::default()
            }],
            ..AddTrackRequest::default()
        }
    }

    #[test]
    fn layers_are_sorted_by_quality_an_unsupported_codec_becomes_the_preferred_one_and_the_offer_decides_if_none_is_named()
     {
        let some = [Codec::H264, Codec::Av1, Codec::Opus];
        for (asked, allowed, codec) in [
            // Each row: codec that the client names, codecs that it may use, and the result.
            ("h263", &Codec::ALL[..], Some(Codec::Vp8)),
            ("h264", &Codec::ALL, Some(Codec::H264)),
            ("vp9", &Codec::ALL, Some(Codec::Vp9)),
            ("vp9", &some, Some(Codec::H264)),
            ("av1", &some, Some(Codec::Av1)),
            ("vp9", &[Codec::Opus], None),
            ("", &Codec::ALL, None),
        ] {
            let request = request(asked);
            let what = kind_and_source(request.r#type, request.source).unwrap();
            let (info, media) = accept(&request, &"TR_VC1".parse().unwrap(), what, allowed);
            assert_eq!(media.allowed_codecs, allowed);
            assert_eq!(media.codec, codec);
            assert_eq!(info.codecs[0].mime_type, codec.map_or("", Codec::mime_type));
            assert_eq!(
                info.layers
                    .iter()
                    .map(|layer| layer.width)
                    .collect::<Vec<_>>(),
                [320, 640, 1280]
            );
            assert_eq!(
                media.layers.last().map(|layer| layer.quality),
                Some(Quality::High)
            );
        }
    }

    #[test]
    fn a_videos_packet_trailer_features_are_announced_to_subscribers() {
        let request = AddTrackRequest {
            // Any numbers: the server forwards them without knowing their meaning.
            packet_trailer_features: vec![1, 2],
            ..request("vp8")
        };
        let what = kind_and_source(request.r#type, request.source).unwrap();
        let (info, _) = accept(&request, &"TR_VC1".parse().unwrap(), what, &Codec::ALL);
        assert_eq!(info.packet_trailer_features, [1, 2]);
    }

    #[test]
    fn a_video_without_a_usable_named_codec_is_recognised() {
        let allowed = [Codec::Vp8, Codec::H264, Codec::Opus];
        for (named, is_other) in [
            ("vp9", true),
            ("theora", true),
            // A codec, but not for video.
            ("opus", true),
            ("vp8", false),
            ("H264", false),
            ("", false),
        ] {
            assert_eq!(
                names_other_codecs(&request(named), &allowed),
                is_other,
                "{named}"
            );
        }
        let audio = AddTrackRequest {
            r#type: proto::TrackType::Audio.into(),
            ..request("vp9")
        };
        assert!(!names_other_codecs(&audio, &allowed));
    }

    #[test]
    fn audio_is_opus_whatever_is_named() {
        // RED is not a codec of its own: the client's offer adds it to Opus.
        for named in ["", "audio/red", "vp8"] {
            let what = (TrackKind::Audio, TrackSource::Microphone);
            assert_eq!(
                accept(
                    &request(named),
                    &"TR_AM1".parse().unwrap(),
                    what,
                    &Codec::ALL
                )
                .1
                .codec,
                Some(Codec::Opus)
            );
        }
    }

    #[test]
    fn a_data_track_cannot_be_announced() {
        let request = AddTrackRequest {
            r#type: proto::TrackType::Data.into(),
            ..AddTrackRequest::default()
        };
        assert_eq!(kind_and_source(request.r#type, request.source), None);
    }
}
