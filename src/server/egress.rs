//! What records and broadcasts with the embedded media plane.

use std::path::Path;

use conclave_media::embedded::EmbeddedPlane;
use conclave_media::embedded::egress_engine::{Encoding, Engine, Settings};

use crate::config::Config;
use crate::http::metrics::Metrics;

/// Lets the media plane record with ffmpeg, and logs whether there is one.
///
/// # Errors
/// Its metrics are registered already.
pub(super) async fn start_egress(
    plane: &EmbeddedPlane,
    config: &Config,
    data: &Path,
    metrics: &Metrics,
) -> Result<(), prometheus::Error> {
    // There is one call.
    let _ = plane.set_egress_engine(Engine::new(settings(config, data)));
    metrics.egress(plane)?;
    match plane.ffmpeg().await {
        Some(Ok(ffmpeg)) => log::info!("recordings are made with {ffmpeg}"),
        Some(Err(error)) => log::warn!("nothing can be recorded: {error}"),
        None => {}
    }
    Ok(())
}

fn settings(config: &Config, data: &Path) -> Settings {
    Settings {
        ffmpeg: config.egress.ffmpeg.clone(),
        recordings: config.recordings.path(data),
        longest: config.egress.max_duration,
        composites: usize::try_from(config.egress.max_composites).unwrap_or(usize::MAX),
        encoding: Encoding {
            width: config.egress.width,
            height: config.egress.height,
            frame_rate: config.egress.frame_rate,
            video_kbps: config.egress.video_kbps,
            audio_kbps: config.egress.audio_kbps,
            preset: config.egress.preset.clone(),
        },
    }
}
