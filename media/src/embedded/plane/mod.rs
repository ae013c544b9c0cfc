//! Driver of the embedded media plane: clock, directory of rooms, and delivery of reports.
//!
//! - [`EmbeddedPlane`]: the server's interface to the plane. Each method is implemented by the module that it belongs
//!   to: signalling, ingress, egress; the sandbox's are in [`Sandbox`].
//! - [`core`]: the plane's parts, and calls on rooms, which all of these use.
//! - [`port`]: the media port's calls. [`builder`]: settings of a plane.

mod builder;
pub(super) mod core;
mod port;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use conclave_egress::{Ffmpeg, FfmpegError};
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::{ClientAddress, Clock, Identity, NamespacedRoom};
use conclave_turn::TurnServer;
use prometheus::Registry;
use tokio::time::timeout;

use self::core::{PlaneCore, await_replies};
use super::egress::{metrics, start};
use super::ingress::admission;
use super::ingress::refusal::EncoderRefusal;
use super::ingress::rtmp::{RtmpListener, RtmpTls};
use super::ingress::whip::{
    self, WhipAnswer, WhipPatch, WhipPatchError, WhipRestart, WhipSessionName,
};
use super::quality::SessionQuality;
use super::room_state::RoomState;
use super::sandbox::Sandbox;
use super::signal::{ConnectRequest, Refusal, SignalConnection};
use super::{ingress, signal};
use crate::port::ReportSink;
use crate::token::TokenSigner;
pub use builder::EmbeddedPlaneBuilder;

/// The media plane in this process. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct EmbeddedPlane(Arc<PlaneCore>);

impl fmt::Debug for EmbeddedPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedPlane")
    }
}

impl EmbeddedPlane {
    /// Starts to build a plane without rooms, which sends its reports to the sink. Encoders' publish URLs have the host
    /// from `public_url`, the clients' WebSocket URL.
    pub fn builder(
        clock: Clock,
        signer: Arc<TokenSigner>,
        public_url: &str,
        sink: Arc<dyn ReportSink>,
    ) -> EmbeddedPlaneBuilder {
        EmbeddedPlaneBuilder::new(clock, signer, public_url, sink)
    }

    /// Connects a client. A new join needs the control plane's permission; a resumed one continues. Once this returns,
    /// the first message is ready and the WebSocket may be opened.
    ///
    /// # Errors
    /// The status with which the client is refused. A join that cannot be resumed is not refused; the client is
    /// notified instead.
    pub async fn connect(&self, request: ConnectRequest) -> Result<SignalConnection, Refusal> {
        signal::driver::connect(&self.0, &request).await
    }

    /// Returns the result that [`EmbeddedPlane::connect`] would have now, without joining.
    ///
    /// # Errors
    /// Fails as [`EmbeddedPlane::connect`] does.
    pub async fn validate(&self, request: &ConnectRequest) -> Result<(), Refusal> {
        signal::driver::validate(&self.0, request).await
    }

    /// Asks all clients to reconnect, because the server is stopping.
    pub fn shut_down_sessions(&self) {
        signal::driver::shut_down_sessions(&self.0);
    }

    /// Accepts RTMP encoders on a listening socket, with or without TLS. Must be called on a runtime, which runs the
    /// connections.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub fn serve_rtmp(
        &self,
        socket: std::net::TcpListener,
        tls: Option<RtmpTls>,
    ) -> io::Result<RtmpListener> {
        ingress::rtmp::serve(Arc::clone(&self.0), socket, tls)
    }

    /// Checks that an encoder at an address may connect with a stream key, before its request is read.
    ///
    /// # Errors
    /// `TooManyTries`, `UnknownKey`, `AlreadyConnected`.
    pub async fn check_stream_key(
        &self,
        key: &StreamKeyHash,
        input: InputType,
        address: Option<ClientAddress>,
    ) -> Result<(), EncoderRefusal> {
        admission::check_stream_key(&self.0, key, input, address).await
    }

    /// Connects a WHIP encoder with its SDP offer.
    ///
    /// # Errors
    /// Returns the refusal. The encoder has not joined then.
    pub async fn connect_whip(
        &self,
        key: StreamKeyHash,
        offer: String,
    ) -> Result<WhipAnswer, EncoderRefusal> {
        whip::driver::connect(&self.0, key, offer).await
    }

    /// Handles an encoder's PATCH request. Returns the server's ICE credentials if ICE restarts.
    ///
    /// # Errors
    /// Returns the reason for a refusal.
    pub async fn patch_whip(
        &self,
        session: WhipSessionName<'_>,
        patch: WhipPatch,
    ) -> Result<Option<WhipRestart>, WhipPatchError> {
        whip::driver::patch(&self.0, session, patch).await
    }

    /// Ends an encoder's session. Returns whether there was one.
    pub async fn delete_whip(&self, session: WhipSessionName<'_>) -> bool {
        whip::driver::delete(&self.0, session).await
    }

    /// Returns whether the session exists.
    pub fn has_whip_session(&self, name: WhipSessionName<'_>) -> bool {
        whip::driver::has_session(&self.0, name)
    }

    /// Returns this plane's sandbox API.
    pub fn sandbox(&self) -> Sandbox {
        Sandbox::new(Arc::clone(&self.0))
    }

    /// Returns the ffmpeg that records and broadcasts, or the reason why it is unusable; `None` if all egresses are
    /// simulated.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        self.0.ffmpeg().await
    }

    /// Registers the metrics of recordings and broadcasts.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn register_egress_metrics(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        metrics::register(Arc::downgrade(&self.0), registry)
    }

    /// Ends all egresses with ffmpeg, and refuses new ones. Returns once their files are final and their records are
    /// written, within the time limit of the engine's settings.
    pub async fn end_egresses(&self) {
        start::end_all(&self.0).await;
    }

    /// Refuses new joins, disconnects all participants, and asks their clients to reconnect. Returns whether the
    /// control plane has recorded the end of every session within `limit`.
    pub async fn end_sessions(&self, limit: Duration) -> bool {
        self.0.common.stop();
        // A join in a room that is not listed locks its room after this, and finds the plane stopping.
        let rooms = self.0.rooms.all();
        let replies = rooms
            .iter()
            .flat_map(|room| self.0.call_in(room, RoomState::stop).1)
            .collect();
        matches!(timeout(limit, await_replies(replies)).await, Ok(Ok(())))
    }

    /// Removes and returns the measured quality of sessions since the last call, oldest first.
    pub fn take_quality(&self) -> Vec<SessionQuality> {
        self.0.rooms.quality.take()
    }

    /// Keeps measurements that could not be written, for the next [`EmbeddedPlane::take_quality`].
    pub fn restore_quality(&self, reports: Vec<SessionQuality>) {
        self.0.rooms.quality.restore(reports);
    }

    /// Waits, for at most `limit`, until the media workers have measured the sessions that have ended. Returns whether they have.
    pub async fn finish_quality(&self, limit: Duration) -> bool {
        self.0.rooms.quality.finish(limit).await
    }

    /// Waits for joins that the control plane is writing.
    async fn await_joins(&self, room: &NamespacedRoom, identity: Option<&Identity>) {
        if let Some(room) = self.0.rooms.get(room) {
            room.await_joins(identity).await;
        }
    }

    /// Returns the embedded TURN server, if it is enabled, for clients that connect through TCP or TLS.
    pub fn turn_server(&self) -> Option<TurnServer> {
        self.0.own_turn.as_ref().map(|turn| turn.server.clone())
    }

    /// Returns the embedded TURN server's URLs; empty if it is disabled.
    pub fn own_turn_urls(&self) -> Vec<String> {
        self.0
            .own_turn
            .iter()
            .flat_map(|turn| turn.urls.clone())
            .collect()
    }

    /// Returns the state that clones share.
    #[cfg(test)]
    pub(super) fn inner(&self) -> &Arc<PlaneCore> {
        &self.0
    }
}

#[cfg(test)]
mod tests;
