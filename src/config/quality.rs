//! Section `quality`.

use std::time::Duration;

conclave_model::settings! {
    /// Measured quality of sessions on the embedded media plane.
    pub struct QualityConfig {
        /// Time for which the samples of a session are kept, one for each ten seconds. The summary of a session is kept forever.
        ///
        /// A participant takes about 1 KiB per minute until then.
        pub retention: Duration = Duration::from_secs(7 * 24 * 60 * 60);
    }
}
