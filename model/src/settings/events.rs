//! Section `events`.

use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

crate::settings! {
    /// History of events, which the API lists and `conclave listen --from` reads.
    pub struct EventsConfig {
        /// Time for which events are kept, at least `webhooks.retention`.
        pub retention: Duration = Duration::from_secs(30 * DAY);
    }
}
