//! Actions on the participants of a room: mute, remove, change role, message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use serde_json::json;

use super::{RoomPage, room_path};
use crate::http::api::endpoint::Handler;
use crate::http::api::error::ApiError;
use crate::http::api::input::FromRequest;
use crate::http::api::v1::{moderation, role_changes};
use crate::http::console::operator_call::OperatorCall;
use crate::http::console::parts::{field, form};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{Answer, Visit};

/// The routes of the actions.
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

/// A call of the handler of an operation on a participant.
fn on_participant<H: Handler<I>, I: FromRequest>(
    visit: &Visit,
    handler: H,
) -> Result<OperatorCall<H::Success>, ApiError> {
    let call = visit.call(handler, &visit.project_id()?);
    Ok(call
        .path("name", &visit.param("name"))
        .path("identity", &visit.param("identity")))
}

fn done(visit: &Visit, note: &'static str) -> Answer {
    Ok(visit.done(&room_path(&visit.project_id()?, &visit.param("name")), note))
}

async fn mute(visit: Visit) -> Answer {
    let body =
        json!({"track_sid": visit.field("track_sid"), "muted": visit.field("muted") == "true"});
    on_participant(&visit, moderation::mute)?
        .body(body)
        .send()
        .await?;
    done(&visit, "track-muted")
}

async fn change_role(visit: Visit) -> Answer {
    on_participant(&visit, role_changes::change)?
        .body(json!({"role": visit.field("role")}))
        .send()
        .await?;
    done(&visit, "role-changed")
}

async fn remove(visit: Visit) -> Answer {
    on_participant(&visit, moderation::remove)?.send().await?;
    done(&visit, "participant-removed")
}

async fn send_message(visit: Visit) -> Answer {
    let mut body = json!({"data": STANDARD.encode(visit.field("text"))});
    if let Some(topic) = visit.optional("topic") {
        body["topic"] = json!(topic);
    }
    if let Some(identity) = visit.optional("to") {
        body["destination_identities"] = json!([identity]);
    }
    let call = visit
        .call(moderation::send_data, &visit.project_id()?)
        .path("name", &visit.param("name"));
    call.body(body).send().await?;
    done(&visit, "message-sent")
}
