//! Recordings and broadcasts with the embedded media plane.

use std::path::Path;

use conclave_media::embedded::EmbeddedPlane;
use conclave_media::embedded::egress_engine::{
    EgressService, EgressSettings, Priority, RtmpDialler,
};
use conclave_model::address::AddressFilter;

use crate::config::{Config, EgressConfig};
use crate::error::CliError;
use crate::http::metrics::Metrics;

use super::roots;

/// Creates the service that records and broadcasts.
///
/// # Errors
/// If a file with root certificates cannot be used.
pub(super) fn engine(config: &Config, data: &Path) -> Result<EgressService, CliError> {
    Ok(EgressService::new(
        EgressSettings {
            egress: config.egress.clone(),
            recordings: config.recordings.path(data),
        },
        dialler(&config.egress)?,
    ))
}

/// Registers the metrics of recordings and broadcasts, if the media plane has any, and logs which ffmpeg they use.
///
/// # Errors
/// If the metrics are registered already.
pub(super) async fn show(plane: Option<&EmbeddedPlane>, metrics: &Metrics) -> Result<(), CliError> {
    let Some(plane) = plane else { return Ok(()) };
    metrics.egress(plane)?;
    match plane.ffmpeg().await {
        Some(Ok(ffmpeg)) => log::info!("recordings use {ffmpeg}"),
        // Only a warning: calls work without ffmpeg.
        Some(Err(error)) => log::warn!("recording is not possible: {error}"),
        None => {}
    }
    Ok(())
}

/// Returns the priority for recordings, broadcasts, transcoders and uploads.
pub(super) const fn priority(config: &Config) -> Priority {
    Priority::new(config.egress.nice)
}

/// Creates the connector to broadcast destinations.
///
/// # Errors
/// If a file with root certificates cannot be used.
pub(crate) fn dialler(config: &EgressConfig) -> Result<RtmpDialler, CliError> {
    let mut found = roots::read("egress.root_certs", config.root_certs.as_deref())?;
    found.extend(roots::read(
        "egress.rtmps_root",
        config.rtmps_root.as_deref(),
    )?);
    // `TrustedRoots` adds the environment's roots for the HTTP clients; RTMPS has its own list.
    found.extend_from_slice(conclave_outbound::roots::environment().unwrap_or_default());
    let filter = AddressFilter::new(config.allow_networks.clone());
    RtmpDialler::new(filter, &found).map_err(CliError::failed)
}
