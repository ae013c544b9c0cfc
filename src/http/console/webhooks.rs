//! Webhook endpoints: changes, a new secret, why one was disabled, a test event. Their deliveries: payload, attempts, response and retry.

use conclave_model::event::EventType;
use conclave_model::webhook::DeliveryStatus;
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Problem, ProjectId};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::layout::{self, PagePosition};
use super::parts::{
    ROWS, badge, button, countdown, danger, empty, facts, field, form, live, nothing, or_nothing,
    pager, pretty, secret, select, table, time,
};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, log_change};
use crate::http::api::ext::webhooks as ext;
use crate::http::api::response::Json;
use crate::http::api::v1::webhooks::{self, WebhookDelivery, WebhookEndpointJson};

/// Refresh interval in seconds.
const REFRESH_INTERVAL: u32 = 10;
const STATUSES: [(&str, &str); 4] = [
    ("", "every status"),
    ("pending", "pending"),
    ("delivered", "delivered"),
    ("failed", "failed"),
];

pub fn routes() -> Vec<Route> {
    vec![
        route::page("/projects/{project}/webhooks", list),
        route::action("/projects/{project}/webhooks", create),
        route::page("/projects/{project}/webhooks/{id}", endpoint),
        route::action("/projects/{project}/webhooks/{id}", update),
        route::action("/projects/{project}/webhooks/{id}/enable", enable),
        route::action("/projects/{project}/webhooks/{id}/rotate", rotate),
        route::action("/projects/{project}/webhooks/{id}/delete", delete),
        route::action("/projects/{project}/webhooks/{id}/test", send_test),
        route::page("/projects/{project}/deliveries/{id}", one),
        route::action("/projects/{project}/deliveries/{id}/retry", retry),
    ]
}

async fn list(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let (status, endpoint) = (visit.query("status"), visit.query("endpoint_id"));
    let endpoints = visit
        .call(webhooks::list_endpoints, &project.id)
        // 200 is the API's largest page; further endpoints are missing from the filter.
        .page(200, 0)
        .send()
        .await?
        .items;
    let call = visit
        .call(webhooks::list_deliveries, &project.id)
        .page(ROWS, visit.offset());
    let call = call
        .query("status", status.as_deref())
        .query("endpoint_id", endpoint.as_deref());
    let deliveries = call.send().await?;
    let content = html! {
        h1 { "Webhooks" }
        (endpoint_table(&visit, &project.id, &endpoints))
        (create_form(&visit, &project.id))
        h2 { "Deliveries" }
        (filters(&project.id, &endpoints, status.as_deref(), endpoint.as_deref()))
        (live(&visit, "deliveries", REFRESH_INTERVAL, &html! {
            (delivery_table(&project.id, &deliveries.items))
            (pager(&visit, visit.offset(), deliveries.has_more))
        }))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/webhooks"),
        "Webhooks",
        &content,
    )))
}

fn endpoint_table(visit: &Visit, project: &ProjectId, endpoints: &[WebhookEndpointJson]) -> Markup {
    let row = |endpoint: &WebhookEndpointJson| {
        let WebhookEndpointJson {
            id,
            url,
            created_at,
            description,
            ..
        } = endpoint;
        let path = format!("/projects/{project}/webhooks/{id}");
        vec![
            html! {
                a href=(path) { (url) }
                @if !description.is_empty() { div { (description) } }
                div { small { code { (id) } } }
            },
            badge(status(endpoint)),
            time(*created_at),
            html! {
                // Nothing is posted to an inactive endpoint.
                @if endpoint.active { (button(visit, &format!("{path}/test"), "Send test event", url)) }
                a href={ "/actors/" (project) "/webhook/" (id) } { "Actor" } " "
                (danger(visit, &format!("{path}/delete"), "Delete", &format!("Delete {url}? Its queued deliveries are dropped.")))
            },
        ]
    };
    if endpoints.is_empty() {
        return empty(
            "There is no webhook endpoint.",
            "Add a receiver's URL: it gets every event of the project, signed.",
        );
    }
    table(
        "Webhook endpoints",
        &["Receiver", "Status", "Created", "Actions"],
        &endpoints.iter().map(row).collect::<Vec<_>>(),
    )
}

/// Returns an endpoint's status as a word.
fn status(endpoint: &WebhookEndpointJson) -> &'static str {
    match (endpoint.active, endpoint.disabled_at) {
        (true, _) => "active",
        (false, Some(_)) => "disabled",
        (false, None) => "inactive",
    }
}

async fn endpoint(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let id = endpoint_id(&visit)?;
    // Read from the store: the API has no operation for a single endpoint.
    let endpoints = visit.state.store.webhook_endpoints();
    let endpoint = WebhookEndpointJson::from(endpoints.get(project.id.clone(), id).await?);
    let path = format!("/projects/{}/webhooks/{id}", project.id);
    let content = html! {
        p { a href={ "/projects/" (project.id) "/webhooks" } { "Webhooks" } }
        h1 { "Webhook endpoint " (badge(status(&endpoint))) }
        @if let (Some(at), Some(reason)) = (endpoint.disabled_at, &endpoint.disabled_reason) {
            p.note.bad { strong { "Disabled by the server, " (time(at)) ": " } (reason) "." }
            p { "Events are not queued for it. Pending deliveries wait until it is enabled." }
        }
        (facts(&[
            ("Receiver", html! { (endpoint.url) }),
            ("Events", html! { @if endpoint.events.is_empty() { "all" } @else { (endpoint.events.len()) } }),
            ("Created", time(endpoint.created_at)),
            ("Previous secret valid until", time(endpoint.previous_secret_expires_at)),
            ("Id", html! { code { (id) } }),
        ]))
        div.actions {
            @if !endpoint.active { (button(&visit, &format!("{path}/enable"), "Enable", &endpoint.url)) }
            a href={ "/projects/" (project.id) "/webhooks?endpoint_id=" (id) } { "Deliveries" }
        }
        (edit_form(&visit, &path, &endpoint))
        (rotate_form(&visit, &path))
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/webhooks"),
        "Webhook endpoint",
        &content,
    )))
}

fn edit_form(visit: &Visit, path: &str, endpoint: &WebhookEndpointJson) -> Markup {
    html! {
        section.card {
            h2 { "Change" }
            (form(visit, path, &html! {
                input type="hidden" name="shown_url" value=(endpoint.url);
                input type="hidden" name="shown_active" value=(endpoint.active);
                (field("url", "URL", &html! { input #url type="url" name="url" required value=(endpoint.url); }, ""))
                (field("description", "Description", &html! {
                    input #description name="description" maxlength=(ext::MAX_DESCRIPTION) value=(endpoint.description);
                }, ""))
                fieldset {
                    legend { "Events; none ticked means all" }
                    @for event in EventType::ALL {
                        label {
                            input type="checkbox" name=(event_field(*event)) checked[endpoint.events.contains(event)];
                            " " (event.as_str()) " "
                        }
                    }
                }
                p {
                    label { input type="checkbox" name="active" checked[endpoint.active]; " Active" }
                }
                p { button type="submit" { "Save" } }
            }))
        }
    }
}

/// Returns the name of an event's checkbox.
fn event_field(event: EventType) -> String {
    format!("event-{event}")
}

fn rotate_form(visit: &Visit, path: &str) -> Markup {
    const HOUR: u32 = 3_600;
    html! {
        section.card {
            h2 { "New signing secret" }
            (form(visit, &format!("{path}/rotate"), &html! {
                (field("hours", "Hours with both secrets", &html! {
                    input #hours type="number" name="hours" min="0" max=(ext::MAX_OVERLAP / HOUR) required value=(ext::DEFAULT_OVERLAP / HOUR);
                }, "Deliveries carry signatures by both, so that receivers can change in the meantime"))
                p { button type="submit" { "Replace the secret" } }
            }))
        }
    }
}

fn create_form(visit: &Visit, project: &ProjectId) -> Markup {
    html! {
        section.card {
            h2 { "Add a webhook endpoint" }
            (form(visit, &format!("/projects/{project}/webhooks"), &html! {
                (field("url", "URL", &html! { input #url type="url" name="url" required placeholder="https://example.org/hooks"; },
                    "http or https, at a public address or in webhooks.allow_networks"))
                p { button type="submit" { "Add webhook endpoint" } }
            }))
        }
    }
}

fn filters(
    project: &ProjectId,
    endpoints: &[WebhookEndpointJson],
    status: Option<&str>,
    endpoint: Option<&str>,
) -> Markup {
    let known: Vec<_> = endpoints
        .iter()
        .map(|endpoint| (endpoint.id.to_string(), &endpoint.url))
        .collect();
    let mut receivers = vec![("", "every receiver")];
    receivers.extend(known.iter().map(|(id, url)| (id.as_str(), url.as_str())));
    html! {
        form.filters method="get" action={ "/projects/" (project) "/webhooks" } {
            (field("status", "Status", &select("status", "status", &STATUSES, status.unwrap_or_default()), ""))
            (field("endpoint", "Receiver", &select("endpoint", "endpoint_id", &receivers, endpoint.unwrap_or_default()), ""))
            button type="submit" { "Filter" }
        }
    }
}

fn delivery_table(project: &ProjectId, deliveries: &[WebhookDelivery]) -> Markup {
    let row = |delivery: &WebhookDelivery| {
        vec![
            html! { a href={ "/projects/" (project) "/deliveries/" (delivery.id) } { (delivery.event_type) } },
            badge(delivery.status.as_str()),
            html! { (delivery.endpoint_url) },
            html! { (delivery.attempts) },
            answer(delivery),
            time(delivery.created_at),
            next_attempt(delivery),
        ]
    };
    if deliveries.is_empty() {
        return empty(
            "There is no delivery here.",
            "Each event of the project becomes a delivery to each webhook endpoint.",
        );
    }
    let rows: Vec<_> = deliveries.iter().map(row).collect();
    table(
        "Deliveries",
        &[
            "Event",
            "Status",
            "Receiver",
            "Attempts",
            "Response",
            "Created",
            "Next attempt",
        ],
        &rows,
    )
}

/// Renders the receiver's response status, or the reason why there is none.
fn answer(delivery: &WebhookDelivery) -> Markup {
    match (delivery.response_status, delivery.last_error.as_str()) {
        (Some(status), _) => html! { (status) },
        (None, "") => nothing(),
        (None, error) => html! { (error) },
    }
}

fn next_attempt(delivery: &WebhookDelivery) -> Markup {
    delivery.next_attempt_at.map_or_else(nothing, countdown)
}

async fn one(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let id = delivery_id(&visit)?;
    // Read from the store: the API has no operation for a single delivery.
    let delivery = WebhookDelivery::from(
        visit
            .state
            .store
            .deliveries()
            .get(project.id.clone(), id)
            .await?,
    );
    let path = format!("/projects/{}/deliveries/{id}/retry", project.id);
    let content = html! {
        p { a href={ "/projects/" (project.id) "/webhooks" } { "Webhooks" } }
        h1 { (delivery.event_type) " " (badge(delivery.status.as_str())) }
        (facts(&[
            ("Receiver", html! { (delivery.endpoint_url) }),
            ("Attempts", html! { (delivery.attempts) }),
            ("Response status", or_nothing(delivery.response_status)),
            ("Created", time(delivery.created_at)),
            ("Delivered", time(delivery.delivered_at)),
            ("Next attempt", next_attempt(&delivery)),
            ("Id", html! { code { (id) } }),
        ]))
        @if !delivery.last_error.is_empty() {
            p.note.bad { strong { "The last attempt failed: " } (delivery.last_error) }
        }
        // The API retries failed deliveries only.
        @if delivery.status == DeliveryStatus::Failed {
            div.actions { (button(&visit, &path, "Retry", "the delivery")) }
        }
        h2 { "Payload" }
        pre tabindex="0" aria-label="Payload" { (delivery.payload.as_deref().map(pretty).unwrap_or_default()) }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/webhooks"),
        "Delivery",
        &content,
    )))
}

fn delivery_id(visit: &Visit) -> Result<DeliveryId, Problem> {
    let not_found = |_| {
        Problem::new(
            ErrorCode::DeliveryNotFound,
            "no webhook delivery by that id in this project",
        )
    };
    visit.param("id").parse().map_err(not_found)
}

fn endpoint_id(visit: &Visit) -> Result<EndpointId, Problem> {
    let not_found = |_| {
        Problem::new(
            ErrorCode::EndpointNotFound,
            "no webhook endpoint by that id in this project",
        )
    };
    visit.param("id").parse().map_err(not_found)
}

fn done(visit: &Visit, project: &ProjectId, note: &'static str) -> PageResult {
    Ok(visit.done(&format!("/projects/{project}/webhooks"), note))
}

async fn create(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let body = json!({"url": visit.field("url")});
    let Json(created) = visit
        .call(webhooks::create, &project.id)
        .body(body)
        .send()
        .await?;
    let content = html! {
        h1 { "Webhook endpoint" }
        // Shown in this response instead of a redirect, since it cannot be read again.
        (secret("The signing secret", created.secret.reveal()))
        p { "Your receiver checks the signature of each delivery to " code { (created.url) } " with it." }
        p { a href={ "/projects/" (project.id) "/webhooks" } { "Back to the webhooks" } }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/webhooks"),
        "Webhook endpoint",
        &content,
    )))
}

async fn update(visit: Visit) -> PageResult {
    let chosen = |event: &&EventType| visit.has(&event_field(**event));
    let mut body = json!({
        "description": visit.field("description"),
        "events": EventType::ALL.iter().filter(chosen).collect::<Vec<_>>(),
    });
    // Left out if they are as shown: the server may have disabled the endpoint meanwhile, and an endpoint whose address is refused today can
    // still be switched off.
    if visit.field("url") != visit.field("shown_url") {
        body["url"] = json!(visit.field("url"));
    }
    let active = visit.has("active");
    if active.to_string() != visit.field("shown_active") {
        body["active"] = json!(active);
    }
    change(&visit, body, "endpoint-changed").await
}

async fn enable(visit: Visit) -> PageResult {
    change(&visit, json!({"active": true}), "endpoint-enabled").await
}

async fn change(visit: &Visit, body: Value, note: &'static str) -> PageResult {
    let (project, id) = (visit.project_id()?, endpoint_id(visit)?);
    visit
        .call(ext::update, &project)
        .path("id", &id.to_string())
        .body(body)
        .send()
        .await?;
    Ok(visit.done(&format!("/projects/{project}/webhooks/{id}"), note))
}

async fn rotate(visit: Visit) -> PageResult {
    let project = visit.project().await?;
    let hours = visit.number("hours")?.unwrap_or_default();
    let Json(rotated) = visit
        .call(ext::rotate_secret, &project.id)
        .path("id", &visit.param("id"))
        // Out of range for an absurd number, which the operation refuses.
        .body(json!({"overlap_seconds": hours.saturating_mul(3_600)}))
        .send()
        .await?;
    let content = html! {
        h1 { "Webhook endpoint" }
        // Shown in this response instead of a redirect, since it cannot be read again.
        (secret("The new signing secret", rotated.secret.reveal()))
        @if let Some(until) = rotated.previous_secret_expires_at {
            p { "Deliveries are also signed with the previous secret until " (time(until)) "." }
        }
        p { a href={ "/projects/" (project.id) "/webhooks/" (rotated.id) } { "Back to the webhook endpoint" } }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, "/webhooks"),
        "Webhook endpoint",
        &content,
    )))
}

async fn delete(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    visit
        .call(webhooks::delete, &project)
        .path("id", &visit.param("id"))
        .send()
        .await?;
    done(&visit, &project, "endpoint-deleted")
}

async fn send_test(visit: Visit) -> PageResult {
    let project = visit.project().await?.id;
    let endpoint = endpoint_id(&visit)?;
    visit
        .state
        .store
        .webhook_endpoints()
        .send_test_event(project.clone(), endpoint)
        .await?;
    // Not an API operation, so `OperatorCall` does not log it.
    log_change("send_test_event", &project);
    done(&visit, &project, "test-sent")
}

async fn retry(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    visit
        .call(webhooks::retry, &project)
        .path("id", &visit.param("id"))
        .send()
        .await?;
    done(&visit, &project, "delivery-retried")
}
