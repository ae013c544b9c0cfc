//! Webhook endpoints and their deliveries: payload, attempts and response; retry, and a test event.

use conclave_model::webhook::DeliveryStatus;
use conclave_model::{DeliveryId, EndpointId, ErrorCode, Problem, ProjectId};
use maud::{Markup, html};
use serde_json::json;

use super::layout::{self, PagePosition};
use super::parts::{
    ROWS, badge, button, countdown, danger, empty, facts, field, form, live, nothing, or_nothing,
    pager, pretty, secret, select, table, time,
};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, log_change};
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
    let row = |WebhookEndpointJson {
                   id,
                   url,
                   created_at,
                   ..
               }: &WebhookEndpointJson| {
        let path = format!("/projects/{project}/webhooks/{id}");
        vec![
            html! { (url) div { small { code { (id) } } } },
            time(*created_at),
            html! {
                (button(visit, &format!("{path}/test"), "Send test event", url))
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
        &["Receiver", "Created", "Actions"],
        &endpoints.iter().map(row).collect::<Vec<_>>(),
    )
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
    let not_found = |_| {
        Problem::new(
            ErrorCode::EndpointNotFound,
            "no webhook endpoint by that id in this project",
        )
    };
    let endpoint: EndpointId = visit.param("id").parse().map_err(not_found)?;
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
