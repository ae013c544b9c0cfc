//! The server: its version, its parts, those that share its database, and the effective settings with where each came from.

use conclave_media::embedded::EmbeddedPlane;
use maud::{Markup, html};

use super::cluster;
use super::layout::{self, Place};
use super::parts::{facts, or_nothing, table};
use super::route::{self, Route};
use super::visit::{Answer, Visit};
use crate::backups::Backups;
use crate::config::EffectiveSetting;

/// The routes of the page.
pub fn routes() -> Vec<Route> {
    vec![route::page("/server", show)]
}

async fn show(visit: Visit) -> Answer {
    let state = &visit.state;
    let changed = state
        .admin
        .settings
        .iter()
        .filter(|setting| setting.origin.is_some())
        .count();
    let content = html! {
        h1 { "Server" }
        (facts(&[
            ("Version", html! { (env!("CARGO_PKG_VERSION")) }),
            ("Records", html! { (state.store.location()) }),
            ("Media plane", html! { (if state.planes.livekit.is_some() { "LiveKit" } else { "embedded" }) }),
            ("Clients connect to", html! { (visit.media_url()) }),
            ("TURN server", html! { (turn(state.planes.signalling.as_ref())) }),
            ("Certificate", html! { (state.api.tls.as_ref().map_or_else(|| "none: plain HTTP".to_owned(), ToString::to_string)) }),
            ("Recordings", html! { (state.admin.recordings.display()) }),
            ("Backups", html! { (backups(state.admin.backups.as_ref())) }),
            ("Settings that are not defaults", html! { (changed) }),
        ]))
        @if let Some(lease) = &state.lease { (cluster::section(lease)) }
        h2 { "Effective settings" }
        p.help { "Secrets are shown as ***. A later source overrides an earlier one: default, file, environment, option." }
        (table("Effective settings", &["Setting", "Value", "From"], &state.admin.settings.iter().map(row).collect::<Vec<_>>()))
    };
    Ok(visit.show(layout::page(
        &visit,
        Place::Server("/server"),
        "Server",
        &content,
    )))
}

fn turn(plane: Option<&EmbeddedPlane>) -> String {
    let urls = plane.map(EmbeddedPlane::own_turn_urls).unwrap_or_default();
    if urls.is_empty() {
        "none: media.rtc.turn.server is off".to_owned()
    } else {
        urls.join(", ")
    }
}

fn backups(backups: Option<&Backups>) -> String {
    backups.map_or_else(
        || "none: backup.directory is not set".to_owned(),
        |backups| format!("{backups}, in {}", backups.directory().path().display()),
    )
}

fn row(setting: &EffectiveSetting) -> Vec<Markup> {
    vec![
        html! { code { (setting.name) } },
        or_nothing(Some(setting.text()).filter(|text| !text.is_empty())),
        setting.origin.as_ref().map_or_else(
            || html! { span.none { "default" } },
            |origin| html! { strong { (origin) } },
        ),
    ]
}
