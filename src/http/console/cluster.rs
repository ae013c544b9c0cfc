//! The servers that share the database: which of them is active, and which could take over.

use conclave_db::lease::{ClusterState, Node};
use maud::{Markup, html};

use super::parts::{badge, facts, or_nothing, table};
use crate::http::lease::LeaseView;

/// The section of a page about them.
pub fn section(lease: &LeaseView) -> Markup {
    let cluster = lease.cluster();
    let active = cluster.as_ref().and_then(ClusterState::active);
    let rows: Vec<_> = cluster
        .iter()
        .flat_map(|cluster| &cluster.nodes)
        .map(row)
        .collect();
    html! {
        h2 { "Servers of the database" }
        (facts(&[
            ("This server", badge(lease.role().as_str())),
            ("Active server", or_nothing(active.map(|node| &node.info.url))),
            ("Epoch", or_nothing(lease.epoch(cluster.as_ref()))),
            ("Last renewal", or_nothing(lease.renewal_age_ms().map(|age| format!("{} s ago", seconds(age))))),
        ]))
        @if let Some(obstacle) = lease.obstacle() {
            p.note.bad { strong { "This server does not take over: " } (obstacle) }
        }
        (table("Servers of the database", &["Server", "Role", "Version", "Schema", "Encryption keys", "Media key", "Last seen"], &rows))
    }
}

fn row(node: &Node) -> Vec<Markup> {
    let age = u64::try_from(node.age.as_millis()).unwrap_or(u64::MAX);
    vec![
        html! { @match &node.info.admin_url {
            Some(console) => a href=(console) { (node.info.url) },
            None => (node.info.url),
        } },
        badge(node.role.as_str()),
        html! { (node.info.version) },
        html! { (node.schema) },
        html! { code { (node.keys.encryption.join(" ")) } },
        html! { code { (node.keys.media) } },
        html! { (seconds(age)) " s ago" },
    ]
}

/// Milliseconds as seconds, to a tenth.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{}", milliseconds / 1_000, milliseconds % 1_000 / 100)
}
