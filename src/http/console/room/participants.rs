//! The participants of a room, live: tracks, mute state, bitrate, connection quality.

use conclave_actors::debug::ActorView;
use conclave_model::TrackSid;
use conclave_model::participant::{Participant, ParticipantKind, ROLE_ATTRIBUTE};
use maud::{Markup, html};
use serde::Deserialize;

use super::RoomPage;
use crate::http::api::v1::participants;
use crate::http::console::layout;
use crate::http::console::parts::{badge, danger, empty, form, nothing, table, time};
use crate::http::console::visit::encoded;

/// Participants that are shown.
const SHOWN: u32 = 200;

/// What the media plane tells of a participant.
#[derive(Deserialize)]
struct Measured {
    sid: String,
    transports: Vec<Transport>,
    published: Vec<Published>,
}

#[derive(Deserialize)]
struct Transport {
    connected: bool,
    round_trip_ms: Option<f64>,
    sent_loss: Option<f64>,
    received_loss: Option<f64>,
}

#[derive(Deserialize)]
struct Published {
    sid: String,
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    live: bool,
    kbps: u32,
}

impl RoomPage<'_> {
    /// The table of the participants. While the media plane does not answer, it says so.
    pub(super) async fn participants(&self, actor: Option<&ActorView>) -> Markup {
        if !self.is_open() {
            return Markup::default();
        }
        let call = self
            .visit
            .call(participants::list, self.project)
            .path("name", self.name());
        let listed = match call.page(SHOWN, 0).send().await {
            Ok(listed) => listed,
            Err(error) => return layout::problem(&error.problem),
        };
        let media = actor.and_then(|actor| actor.media.as_ref());
        let media = media
            .and_then(|media| Vec::<Measured>::deserialize(media).ok())
            .unwrap_or_default();
        let row = |participant: &Participant| {
            self.row(
                participant,
                media.iter().find(|one| one.sid == participant.sid.as_str()),
            )
        };
        let participants = &listed.items;
        html! {
            h2 { "Participants " span.help { "(" (participants.len()) ")" } }
            @if participants.is_empty() {
                (empty("No participant is connected.", "Create a room code below, and open its join link."))
            } @else {
                (table("Participants", &["Participant", "State", "Role", "Tracks", "Connection", "Actions"],
                    &participants.iter().map(row).collect::<Vec<_>>()))
                @if listed.has_more { p.help { "The first " (SHOWN) " are shown." } }
            }
        }
    }

    fn row(&self, participant: &Participant, media: Option<&Measured>) -> Vec<Markup> {
        let Participant {
            identity,
            name,
            state,
            kind,
            joined_at,
            ..
        } = participant;
        let path = |action: &str| {
            self.path(&format!(
                "/participants/{}/{action}",
                encoded(identity.as_str())
            ))
        };
        vec![
            html! {
                strong { (identity) }
                @if !name.is_empty() { div { (name) } }
                div { small { "since " (time(*joined_at)) } }
            },
            html! {
                (badge(state.as_str()))
                @if *kind != ParticipantKind::Standard { " " (badge(kind.as_str())) }
            },
            self.role(participant, &path("role")),
            self.tracks(participant, media, &path("mute")),
            connection(media),
            danger(
                self.visit,
                &path("remove"),
                "Remove",
                &format!("Disconnect {identity}?"),
            ),
        ]
    }

    fn role(
        &self,
        Participant {
            identity,
            attributes,
            ..
        }: &Participant,
        path: &str,
    ) -> Markup {
        let held = attributes.get(ROLE_ATTRIBUTE).map_or("", String::as_str);
        if self.roles.is_empty() {
            return html! { @if held.is_empty() { (nothing()) } @else { (held) } };
        }
        let id = format!("role-{identity}");
        form(
            self.visit,
            path,
            &html! {
                select id=(id) name="role" aria-label={ "Role of " (identity) } {
                    @if held.is_empty() { option value="" selected { "none" } }
                    @for role in &self.roles { option value=(role) selected[role.as_str() == held] { (role) } }
                }
                button type="submit" id={ "change-" (id) } aria-label={ "Change the role of " (identity) } { "Change" }
            },
        )
    }

    fn tracks(&self, participant: &Participant, media: Option<&Measured>, path: &str) -> Markup {
        let Participant {
            identity, tracks, ..
        } = participant;
        html! {
            @if tracks.is_empty() { (nothing()) }
            @for track in tracks {
                @let action = if track.muted { "Unmute" } else { "Mute" };
                @let name = track.source.as_str().replace('_', " ");
                div {
                    (name) " " (badge(if track.muted { "muted" } else { "live" }))
                    @if let Some(kbps) = bitrate(media, &track.sid) { " " small { (kbps) " kbit/s" } }
                    " "
                    (form(self.visit, path, &html! {
                        input type="hidden" name="track_sid" value=(track.sid);
                        input type="hidden" name="muted" value=(!track.muted);
                        button type="submit" id={ "mute-" (track.sid) }
                            aria-label={ (action) " the " (name) " of " (identity) } { (action) }
                    }))
                }
            }
        }
    }
}

/// The bitrate of a track, all its layers together; `None` if it is not measured.
fn bitrate(media: Option<&Measured>, sid: &TrackSid) -> Option<u32> {
    let track = media?
        .published
        .iter()
        .find(|track| track.sid == sid.as_str())?;
    Some(
        track
            .layers
            .iter()
            .filter(|layer| layer.live)
            .map(|layer| layer.kbps)
            .sum(),
    )
}

/// The quality of a connection, by its losses and its round trip.
fn connection(media: Option<&Measured>) -> Markup {
    let transports = media.map_or(&[][..], |media| &media.transports);
    if transports.is_empty() {
        return nothing();
    }
    let worst = |value: fn(&Transport) -> Option<f64>| {
        transports.iter().filter_map(value).fold(0.0, f64::max)
    };
    let loss = worst(|one| one.sent_loss).max(worst(|one| one.received_loss));
    let round_trip = worst(|one| one.round_trip_ms);
    let quality = match (loss, round_trip) {
        _ if transports.iter().all(|one| !one.connected) => "disconnected",
        (loss, trip) if loss < 0.02 && trip < 150.0 => "good",
        (loss, trip) if loss < 0.08 && trip < 400.0 => "fair",
        _ => "poor",
    };
    html! {
        (badge(quality))
        div { small { (format!("{round_trip:.0} ms, {:.1} % lost", loss * 100.0)) } }
    }
}
