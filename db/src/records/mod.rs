//! Records: a component per kind, with its SQL texts, types and operations. All of them use [`crate::sql`].

pub(crate) mod api_keys;
pub(crate) mod bans;
pub(crate) mod codes;
pub(crate) mod deliveries;
pub(crate) mod destinations;
pub(crate) mod egresses;
pub(crate) mod erasures;
pub(crate) mod events;
pub(crate) mod exports;
pub(crate) mod idempotency;
pub(crate) mod ingresses;
pub(crate) mod projects;
pub(crate) mod quality;
pub(crate) mod removals;
pub(crate) mod role_changes;
pub(crate) mod rooms;
pub(crate) mod rotation;
pub(crate) mod server;
pub(crate) mod sessions;
pub(crate) mod templates;
pub(crate) mod tracks;
pub(crate) mod usage;
pub(crate) mod webhook_endpoints;
