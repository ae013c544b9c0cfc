//! Room codes: created and shown once, with the join link as a QR code; listed; disabled.

use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::json;

use super::{RoomPage, room_path};
use crate::http::api::error::ApiError;
use crate::http::api::ext;
use crate::http::api::response::Json;
use crate::http::api::v1::codes::{self, RoomCodeJson};
use crate::http::console::layout::{self, PagePosition};
use crate::http::console::parts::{
    ROWS, badge, danger, empty, field, form, nothing, or_nothing, secret, section_pager, select,
    table, time,
};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{PageResult, Visit};

/// Id of the section.
const SECTION: &str = "codes";
/// Quiet zone around a QR code, in modules (ISO/IEC 18004 requires four).
const QUIET_ZONE: i32 = 4;

pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/rooms/{name}/codes", create),
        route::action(
            "/projects/{project}/rooms/{name}/codes/{id}/disable",
            disable,
        ),
    ]
}

impl RoomPage<'_> {
    pub(super) async fn codes(&self) -> Result<Markup, ApiError> {
        let call = self
            .visit
            .call(codes::list, self.project)
            .path("name", self.name());
        let offset = self.visit.offset_in(SECTION);
        let listed = call.page(ROWS, offset).send().await?;
        let rows: Vec<_> = listed.items.iter().map(|code| self.code(code)).collect();
        Ok(html! {
            section.card id=(SECTION) {
                h2 { "Room codes" }
                @if rows.is_empty() {
                    (empty("There is no room code.", "A user with a code joins without your backend."))
                } @else {
                    (table("Room codes", &["Code", "Role", "Identity", "Uses", "Expires", "Status", "Actions"], &rows))
                }
                (section_pager(self.visit, SECTION, listed.has_more))
                @if self.is_open() { (self.create_form()) }
            }
        })
    }

    fn code(&self, code: &RoomCodeJson) -> Vec<Markup> {
        // Computed here: an expired code has no status of its own in the records.
        let is_over = code.expires_at <= self.visit.state.clock.now();
        let status = match (code.disabled, is_over) {
            (true, _) => "disabled",
            (false, true) => "expired",
            (false, false) => "active",
        };
        vec![
            html! { code { (code.code) } },
            html! { (code.role) },
            or_nothing(code.identity.as_ref()),
            html! { (code.uses) @if let Some(cap) = code.max_uses { " of " (cap) } },
            time(code.expires_at),
            badge(status),
            html! {
                @if status == "active" {
                    (danger(self.visit, &self.path(&format!("/codes/{}/disable", code.id)), "Disable",
                        &format!("Disable the code {}?", code.code)))
                } @else {
                    (nothing())
                }
            },
        ]
    }

    fn create_form(&self) -> Markup {
        let roles: Vec<(&str, &str)> = self
            .roles
            .iter()
            .map(|role| (role.as_str(), role.as_str()))
            .collect();
        html! {
            h3 { "Create a join link" }
            @if roles.is_empty() {
                p { "The room has no template with roles, and a code needs a role." }
            } @else {
                (form(self.visit, &self.path("/codes"), &html! {
                    div.fields {
                        (field("code-role", "Role", &select("code-role", "role", &roles, ""), ""))
                        (field("code-identity", "Only for the identity", &html! {
                            input #code-identity name="identity" maxlength="128" placeholder="anyone";
                        }, ""))
                        (field("code-uses", "Uses at most", &html! {
                            input #code-uses type="number" name="max_uses" min="1" placeholder="no limit";
                        }, ""))
                        (field("code-hours", "Valid for (hours)", &html! {
                            input #code-hours type="number" name="hours" min="1" max="720" value="24";
                        }, ""))
                    }
                    p { button type="submit" { "Create room code" } }
                }))
            }
        }
    }
}

async fn create(visit: Visit) -> PageResult {
    let (project, name) = (visit.project().await?, visit.param("name"));
    let mut body = json!({"role": visit.field("role")});
    if let Some(identity) = visit.optional("identity") {
        body["identity"] = json!(identity);
    }
    if let Some(uses) = visit.number("max_uses")? {
        body["max_uses"] = json!(uses);
    }
    if let Some(hours) = visit.number("hours")? {
        // Saturates: the operation refuses a lifetime above 30 days.
        body["ttl_seconds"] = json!(hours.saturating_mul(3_600));
    }
    let call = visit.call(codes::create, &project.id).path("name", &name);
    let Json(RoomCodeJson { code, .. }) = call.body(body).send().await?;
    let link = join_link(&visit, &code);
    let content = html! {
        h1 { "Room code for " (name) }
        // Shown in this response instead of a redirect, since it cannot be read again.
        (secret("The room code", &code))
        @if let Some(link) = &link {
            h2 { "Join link" }
            p { a href=(link) { (link) } }
            div.qr { (qr_code(link).unwrap_or_else(nothing)) }
        } @else {
            p { "This server has no call page (" code { "http.call_page" } "), so that the code has no link. Exchange it with "
                code { "POST /v1/codes/{code}/exchange" } "." }
        }
        p { a href=(room_path(&project.id, &name)) { "Back to the room" } }
    };
    Ok(visit.show(layout::page(
        &visit,
        PagePosition::Project(&project, ""),
        "Room code",
        &content,
    )))
}

async fn disable(visit: Visit) -> PageResult {
    let project = visit.project_id()?;
    visit
        // By id, because the list has only the masked code.
        .call(ext::codes::disable, &project)
        .path("name", &visit.param("name"))
        .path("id", &visit.param("id"))
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &visit.param("name")), "code-disabled"))
}

/// Returns the call page's URL with a code; `None` without a call page. Clients reach it at the same address as signalling.
fn join_link(visit: &Visit, code: &str) -> Option<String> {
    let state = &visit.state;
    state.api.call_page.as_ref()?;
    state
        .planes
        .signalling
        .as_ref()
        .or(state.planes.sandbox.as_ref())?;
    // Replaces `ws` by `http`, which also turns `wss` into `https`. The code is in the fragment, which browsers do not send.
    let address = visit.media_url().replacen("ws", "http", 1);
    Some(format!(
        "{}/call#code={code}",
        address.trim_end_matches('/')
    ))
}

/// Renders a QR code as SVG: dark on light in every colour scheme, since many scanners read no inverted codes.
fn qr_code(text: &str) -> Option<Markup> {
    use std::fmt::Write as _;
    // The medium level survives a smudge of 15 % at little additional size.
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let mut path = String::new();
    for (x, y) in (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y))) {
        if code.get_module(x, y) {
            // Writing into a String cannot fail.
            let _ = write!(path, "M{},{}h1v1h-1z", x + QUIET_ZONE, y + QUIET_ZONE);
        }
    }
    let size = code.size() + 2 * QUIET_ZONE;
    Some(html! {
        svg viewBox={ "0 0 " (size) " " (size) } role="img" aria-label="QR code of the join link" { path d=(path) {} }
    })
}
