//! The operations of the API, a file a resource: its wire types, its operations, its handlers.

pub mod broadcasts;
pub mod codes;
pub mod destinations;
pub mod ingress;
mod jobs;
pub mod minting;
pub mod moderation;
pub mod participants;
pub mod recordings;
pub mod role_changes;
pub mod roles;
pub mod rooms;
pub mod sessions;
pub mod templates;
pub mod tokens;
pub mod usage;
pub mod webhook_deliveries;
pub mod webhook_endpoints;
