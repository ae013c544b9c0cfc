//! Posting events to one receiver (contract "Events"): how a request is signed, which addresses it may go to, and one
//! attempt from the url to its outcome.

pub mod resolver;
pub mod sender;
pub mod signature;
