//! A room's bans: listed, added, lifted.

use conclave_model::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use super::{RoomPage, room_path};
use crate::http::api::error::ApiError;
use crate::http::api::ext::bans::{self, BanJson};
use crate::http::console::parts::{
    ROWS, badge, danger, empty, field, form, or_nothing, section_pager, table, time,
};
use crate::http::console::route::{self, Route};
use crate::http::console::visit::{PageResult, Visit, encoded};

/// Id of the section.
const SECTION: &str = "bans";

pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/rooms/{name}/bans", add),
        route::action(
            "/projects/{project}/rooms/{name}/bans/{identity}/lift",
            lift,
        ),
    ]
}

impl RoomPage<'_> {
    pub(super) async fn bans(&self) -> Result<Markup, ApiError> {
        let call = self
            .visit
            .call(bans::list, self.project)
            .path("name", self.name());
        let offset = self.visit.offset_in(SECTION);
        let listed = call.page(ROWS, offset).send().await?;
        let rows: Vec<_> = listed.items.iter().map(|ban| self.ban(ban)).collect();
        Ok(html! {
            section.card id=(SECTION) {
                h2 { "Bans" }
                @if rows.is_empty() {
                    (empty("Nobody is banned.", "A banned identity is disconnected, and cannot join again."))
                } @else {
                    (table("Bans", &["Identity", "Reason", "Since", "Until", "Status", "Actions"], &rows))
                }
                (section_pager(self.visit, SECTION, listed.has_more))
                @if self.is_open() { (self.ban_form()) }
            }
        })
    }

    fn ban(&self, ban: &BanJson) -> Vec<Markup> {
        let is_over = ban
            .until
            .is_some_and(|until| until <= self.visit.state.clock.now());
        let identity = &ban.identity;
        let lift = self.path(&format!("/bans/{}/lift", encoded(identity.as_str())));
        vec![
            html! { strong { (identity) } },
            or_nothing(ban.reason.as_ref()),
            time(ban.created_at),
            match ban.until {
                Some(until) => time(until),
                None => html! { "it is lifted" },
            },
            badge(if is_over { "over" } else { "banned" }),
            danger(
                self.visit,
                &lift,
                "Lift",
                &format!("Let {identity} join again?"),
            ),
        ]
    }

    fn ban_form(&self) -> Markup {
        html! {
            h3 { "Ban an identity" }
            (form(self.visit, &self.path("/bans"), &html! {
                div.fields {
                    (field("ban-identity", "Identity", &html! {
                        input #ban-identity name="identity" required maxlength="128";
                    }, "Connected or not"))
                    (field("ban-hours", "For (hours)", &html! {
                        input #ban-hours type="number" name="hours" min="1" placeholder="until it is lifted";
                    }, ""))
                    (field("ban-reason", "Reason", &html! {
                        input #ban-reason name="reason" maxlength="500";
                    }, "Participants do not see it"))
                }
                p { button.danger type="submit" { "Ban" } }
            }))
        }
    }
}

async fn add(visit: Visit) -> PageResult {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    let mut terms = json!({});
    if let Some(hours) = visit.number("hours")? {
        terms["until"] = json!(hours_from(visit.state.clock.now(), hours));
    }
    if let Some(reason) = visit.optional("reason") {
        terms["reason"] = json!(reason);
    }
    visit
        .call(bans::ban, &project)
        .path("name", &name)
        .path("identity", visit.field("identity"))
        .body(terms)
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &name), "identity-banned"))
}

/// Returns the time some hours from now. Saturates at a century, and at now for a negative number, which the operation refuses.
fn hours_from(now: Timestamp, hours: i64) -> Timestamp {
    const CENTURY: u64 = 100 * 365 * 24;
    let hours = u64::try_from(hours).unwrap_or(0).min(CENTURY);
    now.after(std::time::Duration::from_secs(hours * 3_600))
}

async fn lift(visit: Visit) -> PageResult {
    let (project, name) = (visit.project_id()?, visit.param("name"));
    visit
        .call(bans::lift, &project)
        .path("name", &name)
        .path("identity", &visit.param("identity"))
        .send()
        .await?;
    Ok(visit.done(&room_path(&project, &name), "ban-lifted"))
}
