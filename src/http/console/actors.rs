//! The actors: the current tree, and one actor with its timers, recent messages and snapshot.

use conclave_actors::debug::{ActorFilter, ActorList, ActorView};
use conclave_actors::{ActorKind, Tree};
use conclave_model::page::PageRequest;
use conclave_model::{ErrorCode, Problem};
use maud::{Markup, html};

use super::layout::{self, PagePosition};
use super::parts::{
    ROWS, badge, countdown, empty, facts, field, grouped, live, nothing, or_nothing, pager, select,
    table, time,
};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded};

/// Maximum failed actors shown above the tree.
const SHOWN: u32 = 20;
/// Refresh intervals in seconds: normally, and for a tree with at least `MANY_ACTORS` actors, since each refresh visits all of them.
const REFRESH_INTERVAL: u32 = 5;
const LONG_INTERVAL: u32 = 20;
const MANY_ACTORS: usize = 10_000;

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/actors", tree),
        // An id contains slashes.
        route::page("/actors/{id:.+}", one),
    ]
}

/// Returns the actors that have failed or are being rebuilt.
pub async fn failing_actors(tree: &Tree) -> Vec<ActorView> {
    let filter = ActorFilter {
        failed: true,
        ..ActorFilter::default()
    };
    tree.actors(
        &filter,
        PageRequest {
            limit: SHOWN,
            offset: 0,
        },
    )
    .await
    .page
    .items
}

/// Renders a table with failed actors.
pub fn failures(actors: &[ActorView]) -> Markup {
    let row = |actor: &ActorView| {
        let failure = actor.last_failure.as_ref();
        vec![
            link(actor),
            badge(actor.status),
            html! { (actor.restarts) },
            time(failure.map(|failure| failure.at)),
            html! { (failure.map_or("", |failure| failure.reason.as_str())) },
        ]
    };
    let rows: Vec<_> = actors.iter().map(row).collect();
    table(
        "Actors that failed",
        &["Actor", "Status", "Restarts", "Last failure", "Reason"],
        &rows,
    )
}

async fn tree(visit: Visit) -> PageResult {
    // An unknown kind is no filter: the list is chosen in a form.
    let kind = visit.query("kind");
    let filter = ActorFilter {
        kind: ActorKind::ALL
            .into_iter()
            .find(|known| Some(known.as_str()) == kind.as_deref()),
        project: None,
        q: visit.query("q"),
        failed: false,
    };
    let page = PageRequest {
        limit: ROWS,
        offset: visit.offset(),
    };
    let list = visit.state.tree.actors(&filter, page).await;
    // Read apart: the tree's filter and page do not apply to failed actors.
    let failed = failing_actors(&visit.state.tree).await;
    let every = if list.totals.values().sum::<usize>() < MANY_ACTORS {
        REFRESH_INTERVAL
    } else {
        LONG_INTERVAL
    };
    let content = html! {
        h1 { "Actors" }
        (filters(&filter))
        (live(&visit, "tree", every, &html! {
            @if !failed.is_empty() { h2 { "Failed" } (failures(&failed)) h2 { "The tree" } }
            (totals(&list))
            @if list.page.items.is_empty() {
                (empty("No actor matches.", "Active projects, open rooms, running jobs and webhook endpoints have actors."))
            } @else {
                (table("Actors", &["Actor", "Status", "Mailbox", "Handled", "Restarts", "Timers"],
                    &list.page.items.iter().map(row).collect::<Vec<_>>()))
            }
            (pager(&visit, page.offset, list.page.has_more))
        }))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Server("/actors"),
        "Actors",
        &content,
    )))
}

fn filters(filter: &ActorFilter) -> Markup {
    let kinds = [
        ("", "every kind"),
        ("system", "system"),
        ("project", "project"),
        ("room", "room"),
        ("egress", "egress"),
        ("ingress", "ingress"),
        ("webhook_endpoint", "webhook endpoint"),
    ];
    html! {
        form.filters method="get" action="/actors" {
            (field("kind", "Kind", &select("kind", "kind", &kinds, filter.kind.map_or("", ActorKind::as_str)), ""))
            (field("q", "Path contains", &html! { input #q name="q" value=(filter.q.as_deref().unwrap_or("")); }, ""))
            button type="submit" { "Filter" }
        }
    }
}

fn totals(list: &ActorList) -> Markup {
    html! {
        ul.parts aria-label="Actors by kind" {
            @for (kind, count) in &list.totals { li { (grouped(i64::try_from(*count).unwrap_or(i64::MAX))) " " (counted(*kind, *count)) } }
        }
    }
}

/// Returns the kind's name, in the plural if needed.
fn counted(kind: ActorKind, count: usize) -> String {
    let name = kind.as_str().replace('_', " ");
    match (kind, count) {
        (_, 1) => name,
        (ActorKind::Egress | ActorKind::Ingress, _) => name + "es",
        _ => name + "s",
    }
}

fn link(actor: &ActorView) -> Markup {
    // Encoded per segment: the slashes of an id separate segments of the path.
    let path: Vec<_> = actor.id.split('/').map(encoded).collect();
    html! { a href={ "/actors/" (path.join("/")) } { (actor.id) } }
}

fn row(actor: &ActorView) -> Vec<Markup> {
    vec![
        link(actor),
        badge(actor.status),
        html! { (actor.mailbox) },
        html! { (grouped(i64::try_from(actor.handled).unwrap_or(i64::MAX))) },
        html! { (actor.restarts) },
        timers(actor),
    ]
}

fn timers(actor: &ActorView) -> Markup {
    if actor.timers.is_empty() {
        return nothing();
    }
    html! { @for timer in &actor.timers { div { (timer.name) " " (countdown(timer.fires_at)) } } }
}

async fn one(visit: Visit) -> PageResult {
    let id = visit.param("id");
    let not_found = || {
        // Usual, not a fault: rooms end, and idle ones hibernate while the page is open.
        Problem::new(
            ErrorCode::NotFound,
            "no actor by that path; it may have ended",
        )
    };
    let actor = visit.state.tree.actor(&id).await.ok_or_else(not_found)?;
    let content = html! {
        p { a href="/actors" { "Actors" } }
        h1 { (actor.id) }
        (live(&visit, "actor", REFRESH_INTERVAL, &details(&actor)))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Server("/actors"),
        &actor.id,
        &content,
    )))
}

fn details(actor: &ActorView) -> Markup {
    // A JSON value always has a text.
    let snapshot = serde_json::to_string_pretty(&actor.state).unwrap_or_default();
    html! {
        @if let Some(failure) = &actor.last_failure {
            p.note.bad { strong { "Failed " (time(failure.at)) ": " } (failure.reason) }
        }
        (facts(&[
            ("Kind", html! { (actor.kind.as_str().replace('_', " ")) }),
            ("Status", badge(actor.status)),
            ("Supervisor", or_nothing(actor.parent.as_ref())),
            ("Started", time(actor.started_at)),
            ("Restarts", html! { (actor.restarts) }),
            ("Mailbox", html! { (actor.mailbox) " waiting" }),
            ("Handled", html! { (actor.handled) }),
            ("Timers", timers(actor)),
        ]))
        h2 { "Snapshot" }
        pre tabindex="0" aria-label="Snapshot" { (snapshot) }
        @if let Some(media) = &actor.media {
            h2 { "Media" }
            pre tabindex="0" aria-label="Media" { (serde_json::to_string_pretty(media).unwrap_or_default()) }
        }
        h2 { "Recent messages" }
        (messages(actor))
    }
}

fn messages(actor: &ActorView) -> Markup {
    let history = actor.history.as_deref().unwrap_or_default();
    if history.is_empty() {
        return empty(
            "It has handled no message yet.",
            // The registry keeps that many per actor.
            "The last 16 are shown here.",
        );
    }
    let row = |handled: &conclave_actors::info::HandledMessage| {
        vec![time(handled.at), html! { code { (handled.message) } }]
    };
    let rows: Vec<_> = history.iter().rev().map(row).collect();
    table("Recent messages", &["Handled", "Message"], &rows)
}
