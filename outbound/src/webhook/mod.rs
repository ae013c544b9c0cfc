//! Webhooks: signed posts of events to receivers.
//!
//! An actor per webhook endpoint decides when a delivery is due. It waits for a permit from the
//! receiver's class and has the delivery posted on a pool thread. The attempt has one outcome,
//! which the actor records: accepted, or the time of the next attempt.
//!
//! - `pool`: [`DeliveryPool`], the threads for posts and their limits.
//! - `sender`: [`DeliverySender`], one attempt, bounded in time and bytes.
//! - `signature`: the two signatures of a delivery.
//! - `status`: the status of a response whose headers the HTTP client rejects.

mod pool;
mod sender;
mod signature;
mod status;

pub use pool::{DeliveryPool, ReceiverClass};
pub use sender::{Delivery, DeliverySender};
pub use signature::generate_secret;
