//! Settings of recordings and broadcasts.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::text;

/// Section `egress`: recordings and broadcasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressConfig {
    /// Networks that destinations may be in although they are not public.
    #[serde(with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// The ffmpeg program: a path, or a name that is looked up in `PATH`. Embedded media plane only, as all that follows.
    pub ffmpeg: String,
    /// The longest recording or broadcast.
    #[serde(with = "text::required")]
    pub max_duration: Duration,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self { allow_networks: Vec::new(), ffmpeg: "ffmpeg".into(), max_duration: Duration::from_secs(6 * 60 * 60) }
    }
}
