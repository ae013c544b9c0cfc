//! The tables of the records and their rows, as an import copies them.

mod content;

pub(crate) use content::{Cell, Content};

/// The tables of the records, each after those that its rows refer to.
pub(crate) const TABLES: [&str; 19] = [
    "projects",
    "api_keys",
    "templates",
    "roles",
    "rooms",
    "sessions",
    "tracks",
    "webhook_endpoints",
    "events",
    "webhook_deliveries",
    "role_changes",
    "codes",
    "usage_days",
    "destinations",
    "egresses",
    "ingresses",
    "idempotency",
    "heartbeat",
    "uploads",
];
