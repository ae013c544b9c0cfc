//! The participants of a room, live: tracks, mute state, bitrate, connection quality.

use conclave_actors::debug::ActorView;
use maud::{Markup, html};
use serde_json::Value;

use super::RoomPage;
use crate::http::console::json::Fields;
use crate::http::console::layout;
use crate::http::console::parts::{badge, danger, empty, form, nothing, table, time};
use crate::http::console::visit::encoded;

/// Participants that are shown.
const SHOWN: u32 = 200;

impl RoomPage<'_> {
    /// The table of the participants. While the media plane does not answer, it says so.
    pub(super) async fn participants(&self, actor: Option<&ActorView>) -> Markup {
        if !self.is_open() {
            return Markup::default();
        }
        let call = self.visit.call("list_participants", self.project).path("name", self.name());
        let listed = match call.page(SHOWN, 0).send().await {
            Ok(listed) => listed,
            Err(error) => return layout::problem(&error.problem),
        };
        let media =
            actor.and_then(|actor| actor.media.as_ref()).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let participants = listed.list("participants");
        let row = |participant: &Value| {
            let measured = media.iter().find(|one| one.text("sid") == participant.text("sid"));
            self.row(participant, measured.unwrap_or(&Value::Null))
        };
        html! {
            h2 { "Participants " span.help { "(" (participants.len()) ")" } }
            @if participants.is_empty() {
                (empty("No participant is connected.", "Create a room code below, and open its join link."))
            } @else {
                (table("Participants", &["Participant", "State", "Role", "Tracks", "Connection", "Actions"],
                    &participants.iter().map(row).collect::<Vec<_>>()))
                @if listed.flag("has_more") { p.help { "The first " (SHOWN) " are shown." } }
            }
        }
    }

    fn row(&self, participant: &Value, media: &Value) -> Vec<Markup> {
        let identity = participant.text("identity");
        let path = |action: &str| self.path(&format!("/participants/{}/{action}", encoded(identity)));
        vec![
            html! {
                strong { (identity) }
                @if !participant.text("name").is_empty() { div { (participant.text("name")) } }
                div { small { "since " (time(participant.text("joined_at"))) } }
            },
            html! {
                (badge(participant.text("state")))
                @if participant.text("kind") != "standard" { " " (badge(participant.text("kind"))) }
            },
            self.role(participant, &path("role")),
            self.tracks(participant, media, &path("mute")),
            connection(media),
            danger(self.visit, &path("remove"), "Remove", &format!("Disconnect {identity}?")),
        ]
    }

    fn role(&self, participant: &Value, path: &str) -> Markup {
        let held = participant["attributes"].text("svc.role");
        if self.roles.is_empty() {
            return html! { @if held.is_empty() { (nothing()) } @else { (held) } };
        }
        let identity = participant.text("identity");
        let id = format!("role-{identity}");
        form(
            self.visit,
            path,
            &html! {
                select id=(id) name="role" aria-label={ "Role of " (identity) } {
                    @if held.is_empty() { option value="" selected { "none" } }
                    @for role in &self.roles { option value=(role) selected[role == held] { (role) } }
                }
                button type="submit" id={ "change-" (id) } aria-label={ "Change the role of " (identity) } { "Change" }
            },
        )
    }

    fn tracks(&self, participant: &Value, media: &Value, path: &str) -> Markup {
        let tracks = participant.list("tracks");
        let identity = participant.text("identity");
        html! {
            @if tracks.is_empty() { (nothing()) }
            @for track in tracks {
                @let muted = track.flag("muted");
                @let action = if muted { "Unmute" } else { "Mute" };
                @let name = track.text("source").replace('_', " ");
                div {
                    (name) " " (badge(if muted { "muted" } else { "live" }))
                    @if let Some(kbps) = bitrate(media, track.text("sid")) { " " small { (kbps) " kbit/s" } }
                    " "
                    (form(self.visit, path, &html! {
                        input type="hidden" name="track_sid" value=(track.text("sid"));
                        input type="hidden" name="muted" value=(!muted);
                        button type="submit" id={ "mute-" (track.text("sid")) }
                            aria-label={ (action) " the " (name) " of " (identity) } { (action) }
                    }))
                }
            }
        }
    }
}

/// The bitrate of a track, all its layers together; `None` if it is not measured.
fn bitrate(media: &Value, sid: &str) -> Option<i64> {
    let track = media.list("published").iter().find(|track| track.text("sid") == sid)?;
    Some(track.list("layers").iter().filter(|layer| layer.flag("live")).map(|layer| layer.whole("kbps")).sum())
}

/// The quality of a connection, by its losses and its round trip.
fn connection(media: &Value) -> Markup {
    let transports = media.list("transports");
    if transports.is_empty() {
        return html! { (nothing()) };
    }
    let worst = |name: &str| transports.iter().map(|one| one.real(name)).fold(0.0, f64::max);
    let (loss, round_trip) = (worst("sent_loss").max(worst("received_loss")), worst("round_trip_ms"));
    let quality = match (loss, round_trip) {
        _ if transports.iter().all(|one| !one.flag("connected")) => "disconnected",
        (loss, trip) if loss < 0.02 && trip < 150.0 => "good",
        (loss, trip) if loss < 0.08 && trip < 400.0 => "fair",
        _ => "poor",
    };
    html! {
        (badge(quality))
        div { small { (format!("{round_trip:.0} ms, {:.1} % lost", loss * 100.0)) } }
    }
}
