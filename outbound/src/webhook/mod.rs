//! Webhooks: signed posts of events to the receivers of projects.
//!
//! An actor per webhook endpoint decides when a delivery is due. It waits for a permit of the receiver's lane and has the delivery posted
//! on a thread of the pool. The attempt has one outcome, which the actor records: accepted, or when the next attempt is due.
//!
//! In reading order:
//!
//! - `pool`: [`DeliveryPool`], the threads that post, and how many posts of a lane and of a project run at once.
//! - `sender`: [`Sender`], one attempt with its bounds in time and bytes.
//! - `signature`: the two signatures of a delivery.
//! - `status`: the status of a response whose headers the HTTP client refuses.

mod pool;
mod sender;
mod signature;
mod status;

pub use pool::{DeliveryPool, Lane};
pub use sender::{Delivery, Sender};
pub use signature::generate_secret;
