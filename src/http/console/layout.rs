//! Frame of every page: head, navigation, notes and errors.
//!
//! A note confirms an action. Its name is in the page's URL, its text is here, so that a link cannot show other text.

use actix_web::http::StatusCode;
use conclave_model::Problem;
use conclave_model::project::Project;
use maud::{DOCTYPE, Markup, html};

use super::parts::badge;
use super::visit::{NOTE, Visit};
use crate::http::admin::access::Operator;

/// Settings for htmx: no inline styles, no `eval`, and errors are shown in the page.
// `historyCacheSize` 0 keeps pages with secrets out of the browser's storage.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

/// Main navigation: path, name.
const MAIN: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/projects", "Projects"),
    ("/actors", "Actors"),
    ("/server", "Server"),
    // Outside the console, but on the same listener.
    ("/docs/api", "API"),
    ("/docs/", "Documentation"),
    ("/sdk/", "SDKs"),
];

/// A project's pages: path below the project's, name.
const PROJECT_PAGES: [(&str, &str); 9] = [
    ("", "Rooms"),
    ("/sessions", "Sessions"),
    ("/recordings", "Recordings"),
    ("/broadcasts", "Broadcasts"),
    ("/ingress", "Ingress"),
    ("/templates", "Templates"),
    ("/webhooks", "Webhooks"),
    ("/usage", "Usage"),
    ("/settings", "Settings"),
];

/// Documentation for each page: path of the page, or its path below the project's; title; URL.
const EXPLAINED: [(&str, &str, &str); 11] = [
    ("/", "Monitoring", "/docs/running.html#monitoring"),
    ("/actors", "Actors", "/docs/architecture.html#actors"),
    ("/server", "Configuration", "/docs/configuration.html"),
    ("", "Rooms", "/docs/operations.html#rooms"),
    (
        "/recordings",
        "Recordings",
        "/docs/recordings.html#recordings",
    ),
    (
        "/broadcasts",
        "Broadcasts",
        "/docs/recordings.html#broadcasts",
    ),
    ("/ingress", "Encoders", "/docs/recordings.html#encoders"),
    ("/templates", "Roles", "/docs/operations.html#roles"),
    ("/webhooks", "Webhooks", "/docs/webhooks.html"),
    ("/usage", "Billing", "/docs/billing.html"),
    (
        "/settings",
        "Credentials",
        "/docs/operations.html#credentials",
    ),
];

/// A page's position in the navigation.
#[derive(Clone, Copy)]
pub enum PagePosition<'a> {
    /// Server page, by its path in the main navigation.
    Server(&'static str),
    /// Project page, by its path below the project's.
    Project(&'a Project, &'static str),
}

/// Renders a console page.
pub fn page(visit: &Visit, position: PagePosition<'_>, title: &str, content: &Markup) -> Markup {
    // An unknown name shows no note.
    let note = visit.query(NOTE).and_then(|name| text(&name));
    framed(
        &visit.operator,
        position,
        title,
        &html! {
            // `role="status"` has it read aloud without moving the focus.
            @if let Some(note) = note { p.note.good role="status" { (note) } }
            (content)
        },
    )
}

fn framed(
    operator: &Operator,
    position: PagePosition<'_>,
    title: &str,
    content: &Markup,
) -> Markup {
    let current = match position {
        PagePosition::Server(path) => path,
        // Project pages belong to the entry "Projects".
        PagePosition::Project(..) => "/projects",
    };
    document(
        title,
        &html! {
            (top(Some(operator), &MAIN, current))
            div #page {
                @if let PagePosition::Project(project, tab) = position { (project_head(project, tab)) }
                main #content tabindex="-1" {
                    (explained(position))
                    // htmx puts the failures of actions here.
                    div #notice aria-live="assertive" {}
                    (content)
                }
            }
            (footer())
        },
    )
}

fn footer() -> Markup {
    // A script adds the browser's time zone, whose times it shows beside these.
    html! { footer { p #zone { "All times are UTC." } } }
}

/// Renders the link from a page to its documentation.
fn explained(position: PagePosition<'_>) -> Markup {
    let (PagePosition::Server(path) | PagePosition::Project(_, path)) = position;
    let found = EXPLAINED.iter().find(|(page, ..)| *page == path);
    html! {
        @if let Some((_, title, url)) = found { p.explained { a href=(url) { "Documentation: " (title) } } }
    }
}

fn top(operator: Option<&Operator>, pages: &[(&str, &str)], current: &str) -> Markup {
    html! {
        header.top {
            a.brand href="/" { "Conclave" }
            nav aria-label="Main" {
                // `aria-current` marks the page for screen readers, and for the style sheet.
                @for (path, name) in pages {
                    a href=(path) aria-current=[(*path == current).then_some("page")] { (name) }
                }
            }
            // In `dev` there is no session to sign out from.
            @if let Some(operator) = operator.filter(|operator| operator.has_session) {
                // A POST, because a link could be followed by a prefetch or from another site.
                form.sign-out method="post" action="/sign-out" {
                    input type="hidden" name="csrf" value=(operator.csrf);
                    button.plain type="submit" { "Sign out" }
                }
            }
        }
    }
}

/// Renders a page that needs no session; `operator` is set if there is one. `path` is its path in the main navigation.
pub fn open_page(operator: Option<&Operator>, path: &str, title: &str, content: &Markup) -> Markup {
    document(
        title,
        &html! {
            (top(operator, &MAIN, path))
            div #page { main #content tabindex="-1" { (content) } }
        },
    )
}

/// Renders a standby's only page.
pub fn standby_page(operator: &Operator, content: &Markup) -> Markup {
    let page = ("/server", "Server");
    document(
        page.1,
        &html! {
            (top(Some(operator), &[page], page.0))
            div #page { main #content tabindex="-1" { (content) } }
            (footer())
        },
    )
}

fn project_head(project: &Project, tab: &str) -> Markup {
    html! {
        section.project aria-label="Project" {
            p.project-name {
                strong { (project.name) }
                " " code { (project.id) }
                " " (badge(project.env.as_str()))
                // The usual status needs no badge.
                @if project.status.as_str() != "active" { " " (badge(project.status.as_str())) }
            }
            nav.tabs aria-label="Project" {
                @for (path, name) in PROJECT_PAGES {
                    a href={ "/projects/" (project.id) (path) } aria-current=[(path == tab).then_some("page")] { (name) }
                }
            }
        }
    }
}

fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // As a meta element: an inline script would violate the content security policy.
                meta name="htmx-config" content=(HTMX);
                title { (title) " · Conclave" }
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/console.css";
                link rel="stylesheet" href="/assets/components.css";
                // `defer` keeps the order: htmx, its extension, then our scripts.
                script src="/assets/htmx.min.js" defer {}
                script src="/assets/htmx-ext-sse.min.js" defer {}
                script src="/assets/console.js" defer {}
                script src="/assets/local_time.js" defer {}
                script src="/assets/field_problems.js" defer {}
            }
            body {
                // Skips the navigation for keyboard and screen reader users (WCAG 2.4.1).
                a.skip href="#content" { "Skip to the content" }
                (body)
            }
        }
    }
}

/// Renders a problem as a note above a page.
pub fn problem(problem: &Problem) -> Markup {
    html! {
        // `role="alert"`: read aloud at once, because the action has not happened.
        // By the field, a script also shows the message beside the input.
        p.note.bad role="alert" data-field=[problem.field.as_deref()] data-message=(problem.message) {
            strong { "That did not work: " }
            @if let Some(field) = &problem.field { code { (field) } " " }
            (problem.message) " "
            small { "(" (problem.code.as_str()) ")" }
        }
    }
}

/// Renders the page for a failed request.
pub fn failed(operator: &Operator, status: StatusCode, shown: &Problem) -> Markup {
    let title = if status == StatusCode::NOT_FOUND {
        "Not found"
    } else {
        "That did not work"
    };
    framed(
        operator,
        // No navigation entry is marked as current.
        PagePosition::Server("none"),
        title,
        &html! {
            h1 { (title) }
            (problem(shown))
            p { "Go back to change what you entered, or start again at the " a href="/" { "overview" } "." }
        },
    )
}

/// Renders the page for an action whose session has ended.
pub fn signed_out(shown: &Problem) -> Markup {
    document(
        "Signed out",
        &html! {
            main #content.narrow tabindex="-1" {
                h1 { "Signed out" }
                (problem(shown))
                p { a href="/sign-in" { "Sign in" } }
            }
        },
    )
}

/// Renders the page of a server without `admin.token`, which accepts no sign-in.
pub fn closed() -> Markup {
    document(
        "Console",
        &html! {
            main #content.narrow tabindex="-1" {
                h1 { "The console needs a token" }
                p {
                    "Set " code { "admin.token" } " in the settings file, or " code { "CONCLAVE_ADMIN__TOKEN" }
                    " in the environment, and restart the server. Operators sign in with it."
                }
            }
        },
    )
}

/// Renders the sign-in form.
pub fn sign_in(csrf: &str, next: &str, wrong: Option<&Problem>) -> Markup {
    document(
        "Sign in",
        &html! {
            main #content.narrow tabindex="-1" {
                h1 { "Sign in to Conclave" }
                @if let Some(wrong) = wrong { (problem(wrong)) }
                form.card method="post" action="/sign-in" {
                    input type="hidden" name="csrf" value=(csrf);
                    // Returns to the page that required the sign-in; checked again when the form is sent (S-33).
                    input type="hidden" name="next" value=(next);
                    p.field {
                        label for="token" { "Admin token" }
                        // `current-password` lets password managers fill it in.
                        input #token type="password" name="token" autocomplete="current-password" required autofocus
                            aria-describedby="token-help";
                        small #token-help { "The value of " code { "admin.token" } ". The session lasts 12 hours." }
                    }
                    p { button type="submit" { "Sign in" } }
                }
            }
        },
    )
}

/// Confirmations: name, text.
const NOTES: [(&str, &str); 36] = [
    (
        "project-created",
        "The project was created. Create an API key for it below.",
    ),
    (
        "project-suspended",
        "The project is suspended: it can start no new work.",
    ),
    ("project-resumed", "The project is active again."),
    ("plan-changed", "The project has moved to the plan."),
    ("credited", "The amount was added to the wallet."),
    (
        "default-template-set",
        "New rooms without a template use this one from now on.",
    ),
    (
        "key-revoked",
        "The API key is revoked. Requests with it fail from now on.",
    ),
    ("room-created", "The room is open."),
    (
        "room-ended",
        "The room has ended, and its participants were disconnected.",
    ),
    (
        "participant-removed",
        "The participant was disconnected. Its token stays valid.",
    ),
    (
        "identity-banned",
        "The identity is banned from the room, and disconnected.",
    ),
    (
        "ban-lifted",
        "The ban is lifted. The identity may join again.",
    ),
    ("track-muted", "The track was muted or unmuted."),
    ("role-changed", "The participant has its new role."),
    ("message-sent", "The message was sent."),
    ("recording-started", "The recording is starting."),
    (
        "recording-stopped",
        "The recording is being stopped. Its file is final shortly after.",
    ),
    (
        "recording-deleted",
        "The recording's file was deleted. Its record stays.",
    ),
    ("broadcast-started", "The broadcast is starting."),
    ("broadcast-stopped", "The broadcast is being stopped."),
    (
        "code-disabled",
        "The room code is disabled. Tokens from earlier exchanges stay valid.",
    ),
    (
        "ingress-deleted",
        "The ingress endpoint was deleted. Its stream key is invalid.",
    ),
    (
        "template-created",
        "The template was created. Add roles to it below.",
    ),
    ("template-changed", "The template was changed."),
    ("template-deleted", "The template was deleted."),
    ("role-saved", "The role was saved."),
    ("role-deleted", "The role was deleted."),
    (
        "permissions-saved",
        "The permissions were saved. They hold at once, also in open rooms.",
    ),
    ("destination-created", "The destination was created."),
    ("destination-changed", "The destination was changed."),
    ("destination-deleted", "The destination was deleted."),
    (
        "endpoint-deleted",
        "The webhook endpoint and its queued deliveries were deleted.",
    ),
    (
        "test-sent",
        "A test event is queued. It is the newest delivery below.",
    ),
    ("delivery-retried", "The delivery is queued again."),
    ("endpoint-changed", "The webhook endpoint was changed."),
    (
        "endpoint-enabled",
        "The webhook endpoint is active. Its pending deliveries leave at the next tick.",
    ),
];

// By name only: a text in the URL could imitate a message of the server (S-33).
/// Returns a note's text; `None` for an unknown name.
pub fn text(name: &str) -> Option<&'static str> {
    NOTES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
