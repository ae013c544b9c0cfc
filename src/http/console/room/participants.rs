//! A room's participants, live: tracks, mute state, bitrate, connection quality. Actions: mute, remove, ban, change role, send a message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conclave_actors::debug::ActorView;
use conclave_model::TrackSid;
use conclave_model::participant::{Participant, ParticipantKind, ROLE_ATTRIBUTE};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::{RoomPage, room_path};
use crate::http::api::error::ApiError;
use crate::http::api::ext::bans;
use crate::http::api::input::FromRequest;
use crate::http::api::operation::Handler;
use crate::http::api::v1::participants;
use crate::http::console::layout;
use crate::http::console::parts::{badge, danger, empty, field, form, nothing, table, time};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{OperatorCall, PageResult, Visit, encoded};

/// Maximum participants shown.
const SHOWN: u32 = 200;

/// The media plane's measurements for a participant.
#[derive(Deserialize)]
// A subset of the media workers' snapshot; unknown fields are ignored.
struct ParticipantMeasurements {
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
    /// Renders the participants' table, or the problem while the media plane is unreachable.
    pub(super) async fn participants(&self, actor: Option<&ActorView>) -> Markup {
        if !self.is_open() {
            return Markup::default();
        }
        let call = self
            .visit
            .call(participants::list, self.project)
            .path("name", self.name());
        // Shown in place of the table, so that the room's other parts stay usable.
        let listed = match call.page(SHOWN, 0).send().await {
            Ok(listed) => listed,
            Err(error) => return layout::problem(&error.problem),
        };
        let media = actor.and_then(|actor| actor.media.as_ref());
        // Without measurements, the table shows the rest.
        let media = media
            .and_then(|media| Vec::<ParticipantMeasurements>::deserialize(media).ok())
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

    fn row(
        &self,
        participant: &Participant,
        media: Option<&ParticipantMeasurements>,
    ) -> Vec<Markup> {
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
            html! {
                (danger(self.visit, &path("remove"), "Remove", &format!("Disconnect {identity}?")))
                " "
                (danger(self.visit, &path("ban"), "Remove and ban",
                    &format!("Disconnect {identity}, and refuse its joins until the ban is lifted?")))
            },
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
                    // A participant without a role can get one, and cannot lose it.
                    @if held.is_empty() { option value="" selected { "none" } }
                    @for role in &self.roles { option value=(role) selected[role.as_str() == held] { (role) } }
                }
                button type="submit" id={ "change-" (id) } aria-label={ "Change the role of " (identity) } { "Change" }
            },
        )
    }

    fn tracks(
        &self,
        participant: &Participant,
        media: Option<&ParticipantMeasurements>,
        path: &str,
    ) -> Markup {
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
                        // The state to set, not to toggle: two clicks in a row must not undo each other.
                        input type="hidden" name="muted" value=(!track.muted);
                        button type="submit" id={ "mute-" (track.sid) }
                            aria-label={ (action) " the " (name) " of " (identity) } { (action) }
                    }))
                }
            }
        }
    }
}

/// Returns a track's bitrate over all its layers; `None` if it is not measured.
fn bitrate(media: Option<&ParticipantMeasurements>, sid: &TrackSid) -> Option<u32> {
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

/// Renders a connection's quality, by losses and round-trip time.
fn connection(media: Option<&ParticipantMeasurements>) -> Markup {
    let transports = media.map_or(&[][..], |media| &media.transports);
    if transports.is_empty() {
        return nothing();
    }
    let worst = |value: fn(&Transport) -> Option<f64>| {
        // The worst transport decides: a client may have one for each direction.
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

pub fn routes() -> Vec<Route> {
    vec![
        route::action(
            "/projects/{project}/rooms/{name}/participants/{identity}/mute",
            mute,
        ),
        route::action(
            "/projects/{project}/rooms/{name}/participants/{identity}/role",
            change_role,
        ),
        route::action(
            "/projects/{project}/rooms/{name}/participants/{identity}/remove",
            remove,
        ),
        route::action(
            "/projects/{project}/rooms/{name}/participants/{identity}/ban",
            ban,
        ),
        route::action("/projects/{project}/rooms/{name}/message", send_message),
    ]
}

impl RoomPage<'_> {
    pub(super) fn message_form(&self) -> Markup {
        html! {
            section.card {
                h2 { "Message" }
                (form(self.visit, &self.path("/message"), &html! {
                    div.fields {
                        (field("text", "Text", &html! { input #text name="text" required maxlength="10000"; },
                            "Sent as data to the clients in the room"))
                        (field("to", "To", &html! { input #to name="to" placeholder="everyone"; }, "An identity, or empty for everyone"))
                        (field("topic", "Topic", &html! { input #topic name="topic"; }, "Which clients filter by; may be empty"))
                    }
                    p { button type="submit" { "Send message" } }
                }))
            }
        }
    }
}

/// Starts an operation call for a participant.
fn call_for_participant<H: Handler<I>, I: FromRequest>(
    visit: &Visit,
    handler: H,
) -> Result<OperatorCall<H, I>, ApiError> {
    let call = visit.call(handler, &visit.project_id()?);
    Ok(call
        .path("name", &visit.param("name"))
        .path("identity", &visit.param("identity")))
}

fn done(visit: &Visit, note: &'static str) -> PageResult {
    Ok(visit.done(&room_path(&visit.project_id()?, &visit.param("name")), note))
}

async fn mute(visit: Visit) -> PageResult {
    let body =
        json!({"track_sid": visit.field("track_sid"), "muted": visit.field("muted") == "true"});
    call_for_participant(&visit, participants::mute)?
        .body(body)
        .send()
        .await?;
    done(&visit, "track-muted")
}

async fn change_role(visit: Visit) -> PageResult {
    call_for_participant(&visit, participants::change)?
        .body(json!({"role": visit.field("role")}))
        .send()
        .await?;
    done(&visit, "role-changed")
}

async fn remove(visit: Visit) -> PageResult {
    call_for_participant(&visit, participants::remove)?
        .send()
        .await?;
    done(&visit, "participant-removed")
}

async fn ban(visit: Visit) -> PageResult {
    call_for_participant(&visit, bans::ban)?.send().await?;
    done(&visit, "identity-banned")
}

async fn send_message(visit: Visit) -> PageResult {
    // Base64, as the operation takes bytes.
    let mut body = json!({"data": STANDARD.encode(visit.field("text"))});
    if let Some(topic) = visit.optional("topic") {
        body["topic"] = json!(topic);
    }
    if let Some(identity) = visit.optional("to") {
        body["destination_identities"] = json!([identity]);
    }
    let call = visit
        .call(participants::send_data, &visit.project_id()?)
        .path("name", &visit.param("name"));
    call.body(body).send().await?;
    done(&visit, "message-sent")
}
