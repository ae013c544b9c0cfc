//! Shared types and rules of Conclave: ids, statuses, roles, events, error codes, time.
//!
//! Everything here is a value or a pure rule. Nothing opens a file, a socket or a database, so
//! every other crate can depend on this one, and each rule is tested in its own file. A value of
//! these types is valid because it exists: external text is parsed once, at the edge, and is a type
//! from there on.
//!
//! - Text and time: [`ids`] (every typed id), [`timestamp`], [`clock`]; [`text`], [`display_name`],
//!   [`visible`] and [`secret`].
//! - Tenants: [`project`], [`plan`], [`usage`], [`key`] (API keys); [`error`] (every error code,
//!   and the problem that carries it).
//! - Calls: [`template`] and [`role`], [`room`], [`participant`] (with tracks and sessions),
//!   [`quality`] (of a session's media),
//!   [`role_change`], [`code`] (room codes), [`ban`].
//! - Media in and out: [`egress`] (recordings and broadcasts) with [`destination`], [`filepath`]
//!   and [`rtmp`]; [`ingress`].
//! - [`event`] (what webhooks report) and [`webhook`] (endpoints and deliveries).
//! - Requests: [`page`] and [`idempotency`]; [`bounded`], [`non_null`] and [`schema`] for parsing
//!   and describing bodies.
//! - Limits: [`rates`], [`permits`], [`round_robin`], [`counts`]; [`address`] (IP addresses: public
//!   ones, clients, media workers).
//! - [`settings`]: settings sections that several crates use.
//! - [`LeaseCheck`]: whether this server may act outside its database. `faults`: named points at
//!   which tests inject faults.

// `settings!` names this crate in attributes, where `$crate` does not work, even here.
extern crate self as conclave_model;

pub mod address;
pub mod ban;
pub mod bounded;
pub mod clock;
pub mod code;
pub mod counts;
pub mod destination;
pub mod display_name;
pub mod egress;
pub mod error;
pub mod event;
#[cfg(feature = "faults")]
pub mod faults;
pub mod filepath;
pub mod idempotency;
pub mod ids;
pub mod ingress;
pub mod key;
mod lease_check;
pub mod non_null;
pub mod page;
pub mod participant;
pub mod permits;
pub mod plan;
pub mod project;
pub mod quality;
pub mod rates;
pub mod role;
pub mod role_change;
pub mod room;
pub mod round_robin;
pub mod rtmp;
pub mod schema;
pub mod secret;
pub mod settings;
pub mod template;
pub mod text;
pub mod timestamp;
pub mod usage;
pub mod visible;
pub mod webhook;

pub use address::{ClientAddress, MediaAddress};
pub use clock::{Alarm, Clock};
pub use counts::Counts;
pub use display_name::DisplayName;
pub use error::{ErrorCode, Problem};
pub use ids::*;
pub use lease_check::LeaseCheck;
pub use rates::{Rate, RateLimit, RateLimits, Throttle};
pub use round_robin::RoundRobin;
pub use secret::Secret;
pub use text::Text;
pub use timestamp::Timestamp;
