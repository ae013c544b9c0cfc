//! Webhooks: signed posts of events to the receivers of projects.

mod pool;
mod sender;
mod signature;
mod status;

pub use pool::{DeliveryPool, Lane};
pub use sender::{Delivery, Sender};
pub use signature::generate_secret;
