//! The overview: live counts, failures, and availability of the server's parts.

use actix_web::web;
use conclave_actors::debug::ActorView;
use conclave_db::{FailingEndpoint, Totals};
use conclave_model::usage;
use maud::{Markup, html};

use super::actors::failing_actors;
use super::history::{SAMPLES, Sample};
use super::layout::{self, PagePosition};
use super::live;
use super::parts;
use super::parts::{badge, empty, grouped, table};
use super::route::{self, Route};
use super::visit::{PageResult, Visit};
use crate::backups::{Backups, Freshness};
use crate::http::admin::health::{Parts, Readiness};
use crate::http::api::error::ApiError;

/// Maximum failing receivers shown.
const SHOWN: u32 = 20;
/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;

pub fn routes() -> Vec<Route> {
    vec![route::page("/", show)]
}

/// The page's data.
struct Overview {
    totals: Totals,
    minutes: f64,
    failing: Vec<FailingEndpoint>,
    actors: Vec<ActorView>,
    parts: Option<Parts>,
    /// Freshness of the last backup, if the server makes backups.
    backups: Option<Freshness>,
    history: Vec<Sample>,
}

async fn show(visit: Visit) -> PageResult {
    let overview = read(&visit).await?;
    let content = html! {
        h1 { "Overview" }
        (parts::live(&visit, "overview", REFRESH_INTERVAL, &content(&overview)))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Server("/"),
        "Overview",
        &content,
    )))
}

async fn read(visit: &Visit) -> Result<Overview, ApiError> {
    let store = &visit.state.store;
    let readiness = visit.request.app_data::<web::Data<Readiness>>();
    let parts = match readiness {
        Some(readiness) => Some(readiness.parts().await),
        None => None,
    };
    Ok(Overview {
        totals: store.projects().totals().await?,
        minutes: usage::minutes(store.usage().month_time_of_all().await?),
        failing: store.webhook_endpoints().failing(SHOWN).await?,
        actors: failing_actors(&visit.state.tree).await,
        parts,
        backups: visit.state.admin.backups.as_ref().map(Backups::freshness),
        history: visit.state.admin.history.samples(),
    })
}

fn content(overview: &Overview) -> Markup {
    let totals = &overview.totals;
    let plot = |name: &str, value: fn(&Totals) -> u32| {
        let values: Vec<u32> = overview
            .history
            .iter()
            .map(|sample| value(&sample.totals))
            // The current count follows the sampled ones.
            .chain([value(totals)])
            .collect();
        parts::line(name, &values, SAMPLES)
    };
    html! {
        @if let Some(parts) = overview.parts { (answering(parts, overview.backups)) }
        div.tiles {
            (tile("Live rooms", live::ROOMS, &grouped(totals.open_rooms.into()), &plot("Live rooms", |t| t.open_rooms)))
            (tile("Live participants", live::PARTICIPANTS, &grouped(totals.participants.into()),
                &plot("Live participants", |t| t.participants)))
            (tile("Recordings and broadcasts", live::EGRESSES, &grouped(totals.running_egresses.into()),
                &plot("Recordings and broadcasts", |t| t.running_egresses)))
            (tile("Minutes this month", "/projects", &format!("{:.0}", overview.minutes), &html! {
                p.help { "Participant minutes of all projects, by UTC days." }
            }))
        }
        @if !overview.actors.is_empty() {
            h2 { "Actors that failed" }
            (super::actors::failures(&overview.actors))
        }
        h2 { "Failing receivers" }
        (receivers(&overview.failing))
        // A fresh server: everything else on the page is empty, too.
        @if totals.projects == 0 {
            (empty("There is no project yet.", "A project owns rooms and API keys. Create the first one under Projects."))
        }
    }
}

fn answering(parts: Parts, backups: Option<Freshness>) -> Markup {
    let part = |name: &str, answers: bool| {
        html! { li { (name) " " (badge(if answers { "ok" } else { "unavailable" })) } }
    };
    html! {
        ul.parts aria-label="Parts of the server" {
            (part("Database", parts.database))
            (part("Media plane", parts.media))
            (part("Actors", parts.actors))
            @if let Some(freshness) = backups {
                li { "Backups " (badge(if freshness == Freshness::Ok { "ok" } else { "old" })) }
            }
        }
    }
}

/// Renders a count, which is a link to the page at `path` that lists the objects.
fn tile(name: &str, path: &str, value: &str, below: &Markup) -> Markup {
    // The style sheet extends the link to the whole tile.
    html! { section.tile { h2 { a href=(path) { (name) } } p.value { (value) } (below) } }
}

fn receivers(failing: &[FailingEndpoint]) -> Markup {
    if failing.is_empty() {
        return empty(
            "Every webhook receiver has accepted its latest delivery.",
            "Failing receivers are listed here.",
        );
    }
    let row = |endpoint: &FailingEndpoint| {
        let path = format!("/projects/{}/webhooks/{}", endpoint.project_id, endpoint.id);
        vec![
            html! { a href=(path) { (endpoint.url) } @if let Some(at) = endpoint.disabled_at { div { small { "Disabled " (parts::time(at)) } } } },
            html! { code { (endpoint.project_id) } },
            badge(if endpoint.disabled_at.is_some() {
                "disabled"
            } else {
                "failing"
            }),
        ]
    };
    let rows: Vec<_> = failing.iter().map(row).collect();
    table(
        "Failing receivers",
        &["Receiver", "Project", "Status"],
        &rows,
    )
}
