//! The shared types and rules of Conclave: ids, statuses, roles, events, error codes, time.
//!
//! Everything here is a value or a pure rule. Nothing opens a file, a socket or a database, so every other crate of the
//! workspace can depend on this one, and each rule is tested in its own file.
//!
//! A value of one of these types is valid because it exists: text from outside is parsed once, at the edge, and travels
//! as a type from there on.

pub mod address;
pub mod bounded;
pub mod client_address;
pub mod clock;
pub mod code;
pub mod counts;
pub mod destination;
pub mod egress;
pub mod error;
pub mod event;
#[cfg(feature = "faults")]
pub mod faults;
pub mod filepath;
pub mod http_url;
pub mod idempotency;
pub mod ids;
pub mod ingress;
pub mod key;
mod lease_check;
mod media_address;
pub mod non_null;
pub mod page;
pub mod participant;
pub mod permits;
pub mod plan;
pub mod project;
pub mod rates;
pub mod role;
pub mod role_change;
pub mod room;
pub mod round_robin;
pub mod rtmp;
pub mod schema;
pub mod secret;
pub mod session;
pub mod template;
pub mod text;
pub mod throttle;
pub mod timestamp;
pub mod usage;
pub mod visible;
pub mod webhook;

pub use client_address::ClientAddress;
pub use clock::{Alarm, Clock};
pub use counts::Counts;
pub use error::{ErrorCode, Problem};
pub use ids::*;
pub use lease_check::LeaseCheck;
pub use media_address::MediaAddress;
pub use rates::{Rate, RateLimit, RateLimits};
pub use round_robin::RoundRobin;
pub use secret::Secret;
pub use text::Text;
pub use throttle::Throttle;
pub use timestamp::Timestamp;
