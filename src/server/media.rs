//! The start of the media workers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;

use conclave_media::embedded::rtc::{self, BindError};
use conclave_media::embedded::{EmbeddedPlane, EncoderStream, RtcMetrics, RtmpListener, RtmpTls, TurnServers};
use conclave_model::address::AddressFilter;

use crate::config::{PortRange, RtcConfig, TurnConfig};
use crate::error::CliError;
use crate::tls::TlsAcceptor;

/// Where Linux says how large the receive buffer of a socket may be, in bytes.
const RECEIVE_BUFFER_LIMIT: &str = "/proc/sys/net/core/rmem_max";
/// The bytes of a receive buffer that hold a burst of packets of many participants.
const ENOUGH_BUFFER: u64 = 5_000_000;

/// Starts the media workers, so that clients can connect. Configured ports have to be free; of the default ones, others are
/// used if they are not. A machine without a network listens on its loopback address.
///
/// # Errors
/// A configured port or address cannot be bound.
pub(super) fn start_media(plane: &EmbeddedPlane, settings: &RtcConfig, metrics: &RtcMetrics) -> Result<(), CliError> {
    turn_servers(&settings.turn).map(|servers| plane.set_turn_servers(servers));
    plane.set_changes_per_second(settings.changes_per_second);
    let mut wanted = rtc_config(settings);
    let mut started = plane.start_media(&wanted, metrics);
    if matches!(started, Err(BindError::NoAddress)) {
        wanted.addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        started = plane.start_media(&wanted, metrics);
    }
    if matches!(started, Err(BindError::Socket { .. })) && settings.udp_ports.is_none() {
        log::warn!("the default ports of media.rtc.udp_ports are in use, so free ones are taken");
        wanted.udp_ports = 0..=0;
        started = plane.start_media(&wanted, metrics);
    }
    started.map_err(|error| failed(&error))
}

/// Lets RTMP encoders connect, by TLS if the API has it.
///
/// # Errors
/// The socket cannot be used.
pub(super) fn serve_rtmp(
    plane: &EmbeddedPlane,
    socket: TcpListener,
    acceptor: Option<TlsAcceptor>,
) -> Result<RtmpListener, CliError> {
    let tls = acceptor.map(|acceptor| -> RtmpTls {
        Arc::new(move |stream| {
            let acceptor = acceptor.clone();
            Box::pin(async move { Ok(Box::new(acceptor.accept(stream).await?) as Box<dyn EncoderStream>) })
        })
    });
    plane.serve_rtmp(socket, tls).map_err(|error| CliError::failed(format!("media.rtmp_listen: {error}")))
}

/// Returns the TURN servers that clients are given, if there are any.
fn turn_servers(settings: &TurnConfig) -> Option<TurnServers> {
    let TurnConfig { urls, secret, ttl } = settings.clone();
    Some(TurnServers { urls, secret: secret?, ttl })
}

fn failed(error: &BindError) -> CliError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    CliError::failed(format!("media.rtc: {error}{cause}"))
}

/// Returns the addresses that clients are given, without the ports, which a running server may use.
///
/// # Errors
/// A configured address cannot be bound.
pub(crate) fn client_addresses(settings: &RtcConfig) -> Result<BTreeSet<IpAddr>, CliError> {
    let probe = rtc::Config { udp_ports: 0..=0, workers: 1, tcp: false, ..rtc_config(settings) };
    let workers = rtc::Workers::start(&probe, Arc::new(|_| {})).map_err(|error| failed(&error))?;
    Ok(workers.addresses().into_iter().map(|(_, address)| address.ip()).collect())
}

/// Returns what is wrong with the largest buffer of a socket that the system grants; `None` if it is large enough or unknown.
pub(crate) fn buffer_problem() -> Option<String> {
    let granted: u64 = std::fs::read_to_string(RECEIVE_BUFFER_LIMIT).ok()?.trim().parse().ok()?;
    (granted < ENOUGH_BUFFER).then(|| {
        format!(
            "net.core.rmem_max is {granted} bytes: packets may be lost under load, raise it to {ENOUGH_BUFFER} or more"
        )
    })
}

/// Returns the settings of the media workers.
fn rtc_config(settings: &RtcConfig) -> rtc::Config {
    let defaults = rtc::Config::default();
    rtc::Config {
        udp_ports: settings.udp_ports.clone().map_or(defaults.udp_ports.clone(), |PortRange(ports)| ports),
        tcp: settings.tcp,
        addresses: settings.addresses.clone(),
        loopback: settings.loopback,
        external_addresses: settings.external_addresses.clone(),
        contactable: AddressFilter::new(settings.allow_networks.clone()),
        workers: settings.workers,
        ..defaults
    }
}
