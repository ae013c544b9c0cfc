//! The embedded media plane, with its media workers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use conclave_media::ReportInlet;
use conclave_media::embedded::rtc::{self, BindError};
use conclave_media::embedded::{
    EmbeddedPlane, EmbeddedPlaneBuilder, EncoderStream, RtmpAddress, RtmpListener, RtmpTls,
    TurnServers,
};
use conclave_media::token::TokenSigner;
use conclave_model::address::AddressFilter;
use conclave_model::{Clock, LeaseCheck, Secret};

use super::turn::{self, Reachable};
use super::{descriptors, egress};
use crate::config::{Config, PortRange, RtcConfig, TurnConfig};
use crate::error::CliError;
use crate::http::metrics::Metrics;
use crate::tls::TlsAcceptor;

/// Linux setting for the maximum receive buffer of a socket, in bytes.
const RECEIVE_BUFFER_LIMIT: &str = "/proc/sys/net/core/rmem_max";
/// Receive buffer that holds a burst of packets from many participants, in bytes.
const ENOUGH_BUFFER: u64 = 5_000_000;

/// Dependencies of a media plane.
pub(super) struct PlaneSetup<'a> {
    pub config: &'a Config,
    /// Data directory.
    pub data: &'a Path,
    pub clock: &'a Clock,
    pub signer: &'a Arc<TokenSigner>,
    /// WebSocket URL by which clients reach it.
    pub media_url: &'a str,
    /// Address for RTMP encoders, if they can connect.
    pub rtmp: Option<RtmpAddress>,
    /// Whether the API listener uses TLS.
    pub has_tls: bool,
    /// Secret that signs the credentials for this process's TURN server.
    pub turn_secret: &'a Secret,
    /// Inlet for its reports to the actors.
    pub reports: &'a ReportInlet,
    pub metrics: &'a Metrics,
    /// Whether a media server may be called.
    pub lease: &'a LeaseCheck,
}

/// Builds the embedded media plane. Clients can connect if `media.rtc.enabled`.
///
/// # Errors
/// If a configured port or address cannot be bound, or a file with root certificates cannot be used.
pub(super) fn build_plane(setup: &PlaneSetup<'_>) -> Result<EmbeddedPlane, CliError> {
    let PlaneSetup {
        config,
        data,
        clock,
        signer,
        media_url,
        rtmp,
        reports,
        metrics,
        has_tls,
        turn_secret,
        ..
    } = *setup;
    let media = &config.media;
    let mut builder = EmbeddedPlane::builder(
        clock.clone(),
        Arc::clone(signer),
        media_url,
        Arc::new(reports.clone()),
    );
    builder.max_tracks = usize::try_from(media.max_tracks).unwrap_or(usize::MAX);
    builder.has_sandbox = media.sandbox;
    builder.changes_per_second = media.rtc.changes_per_second;
    builder.turn = turn_servers(&media.rtc.turn).into_iter().collect();
    builder.rtmp = rtmp.unwrap_or_default();
    if media.rtc.enabled {
        let workers = start_workers(&mut builder, &media.rtc).map_err(|error| failed(&error))?;
        // After the workers, whose addresses it relays to.
        turn::start(
            &mut builder,
            config,
            Reachable { media_url, has_tls },
            turn_secret,
        )?;
        builder.metrics = Some(metrics.rtc(workers, builder.own_turn.as_ref())?);
        builder.engine = Some(egress::engine(config, data)?);
    }
    Ok(builder.build())
}

/// Starts the media workers. Configured ports have to be free; for the default ones, free ports are the fallback. A machine without a
/// network listens on its loopback address.
fn start_workers(
    builder: &mut EmbeddedPlaneBuilder,
    settings: &RtcConfig,
) -> Result<Vec<Arc<rtc::WorkerMetrics>>, BindError> {
    let mut wanted = rtc_config(settings);
    let per_worker = descriptors::max_media_connections() / wanted_workers(settings);
    wanted.limits.tcp_connections = wanted.limits.tcp_connections.min(per_worker);
    // Logged at each start, since fewer workers use fewer cores.
    workers_problem(settings)
        .iter()
        .for_each(|problem| log::info!("{problem}"));
    let mut started = builder.start_workers(&wanted);
    // For example a developer's laptop that is offline.
    if matches!(started, Err(BindError::NoAddress)) {
        wanted.addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        started = builder.start_workers(&wanted);
    }
    // For example a second development server on this machine.
    if matches!(started, Err(BindError::Socket { .. })) && settings.udp_ports.is_none() {
        log::warn!("the default ports of media.rtc.udp_ports are in use, so free ones are taken");
        wanted.udp_ports = 0..=0;
        started = builder.start_workers(&wanted);
    }
    started
}

/// Starts the listener for RTMP encoders if it has a socket, with TLS if the API uses TLS.
///
/// # Errors
/// If the socket cannot be used.
pub(super) fn serve_rtmp(
    plane: Option<&EmbeddedPlane>,
    socket: Option<TcpListener>,
    acceptor: Option<TlsAcceptor>,
) -> Result<Option<RtmpListener>, CliError> {
    let Some((plane, socket)) = plane.zip(socket) else {
        return Ok(None);
    };
    let tls = acceptor.map(|acceptor| -> RtmpTls {
        Arc::new(move |stream| {
            let acceptor = acceptor.clone();
            Box::pin(async move {
                Ok(Box::new(acceptor.accept(stream).await?) as Box<dyn EncoderStream>)
            })
        })
    });
    let served = plane.serve_rtmp(socket, tls);
    served
        .map(Some)
        .map_err(|error| CliError::failed(format!("media.rtmp_listen: {error}")))
}

/// Returns the other TURN servers for clients, if configured.
fn turn_servers(settings: &TurnConfig) -> Option<TurnServers> {
    let TurnConfig {
        urls, secret, ttl, ..
    } = settings.clone();
    Some(TurnServers {
        urls,
        // Validation requires both a secret and URLs, or neither.
        secret: secret?,
        ttl,
    })
}

fn failed(error: &BindError) -> CliError {
    let cause = std::error::Error::source(error)
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    CliError::failed(format!("media.rtc: {error}{cause}"))
}

/// Returns the media addresses for clients, without ports, since a running server may use them.
///
/// # Errors
/// If a configured address cannot be bound.
pub(crate) fn client_addresses(settings: &RtcConfig) -> Result<BTreeSet<IpAddr>, CliError> {
    // Starting a worker applies the same rules to addresses as a server's start does.
    let probe = rtc::Config {
        udp_ports: 0..=0,
        workers: 1,
        tcp: false,
        ..rtc_config(settings)
    };
    let workers = rtc::Workers::start(&probe, Arc::new(|_| {})).map_err(|error| failed(&error))?;
    Ok(workers
        .addresses()
        .into_iter()
        .map(|(_, address)| address.ip())
        .collect())
}

/// Returns a warning if the system's maximum for receive buffers is too small; `None` if it is large enough or unknown.
pub(crate) fn buffer_problem() -> Option<String> {
    let granted: u64 = std::fs::read_to_string(RECEIVE_BUFFER_LIMIT)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // The kernel caps larger requests without an error.
    (granted < ENOUGH_BUFFER).then(|| {
        format!(
            "net.core.rmem_max is {granted} bytes: packets may be lost under load, raise it to {ENOUGH_BUFFER} or more"
        )
    })
}

/// Returns a warning if there are fewer media workers than configured; `None` otherwise.
pub(crate) fn workers_problem(settings: &RtcConfig) -> Option<String> {
    let PortRange(ports) = settings
        .udp_ports
        .as_ref()
        .filter(|PortRange(ports)| *ports.start() > 0)?;
    let wanted = wanted_workers(settings);
    (ports.len() < wanted).then(|| {
        format!(
            "media.rtc.udp_ports has {} of the ports that {wanted} media workers need, one each",
            ports.len()
        )
    })
}

/// Returns the configured number of media workers, regardless of ports.
fn wanted_workers(settings: &RtcConfig) -> usize {
    let cores = || available_parallelism().map_or(1, NonZeroUsize::get);
    if settings.workers == 0 {
        cores()
    } else {
        settings.workers
    }
}

/// Returns the media workers' settings.
fn rtc_config(settings: &RtcConfig) -> rtc::Config {
    let defaults = rtc::Config::default();
    rtc::Config {
        udp_ports: settings
            .udp_ports
            .clone()
            .map_or(defaults.udp_ports.clone(), |PortRange(ports)| ports),
        tcp: settings.tcp,
        addresses: settings.addresses.clone(),
        loopback: settings.loopback,
        external_addresses: settings.external_addresses.clone(),
        contactable: AddressFilter::new(settings.allow_networks.clone()),
        workers: settings.workers,
        ..defaults
    }
}
