//! The driver of the embedded media plane: a clock, a directory of rooms, and the delivery of reports.
//!
//! - [`EmbeddedPlane`]: what the server does with the plane. Each of its methods is in the module that it belongs to: signalling,
//!   ingress, egress; those of the sandbox are in [`Sandbox`].
//! - [`core`]: the parts of the plane, and calls on rooms, which all of these make.
//! - [`port`]: the calls of the media port. [`builder`]: what a plane is built of.

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

use self::core::{Inner, await_answers};
use super::egress::{metrics, start};
use super::ingress::admission;
use super::ingress::refusal::EncoderRefusal;
use super::ingress::rtmp::{RtmpListener, RtmpTls};
use super::ingress::whip::{
    self, WhipAnswer, WhipPatch, WhipPatchError, WhipRestart, WhipSessionName,
};
use super::machine::Machine;
use super::sandbox::Sandbox;
use super::signal::{ConnectRequest, Refusal, SignalConnection};
use super::{ingress, signal};
use crate::port::ReportSink;
use crate::token::TokenSigner;
pub use builder::EmbeddedPlaneBuilder;

/// The media plane in this process. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct EmbeddedPlane(Arc<Inner>);

impl fmt::Debug for EmbeddedPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedPlane")
    }
}

impl EmbeddedPlane {
    /// Begins a plane without rooms, which sends its reports to the sink. The publish urls of encoders have the host of
    /// `public_url`, the websocket url of clients.
    pub fn builder(
        clock: Clock,
        signer: Arc<TokenSigner>,
        public_url: &str,
        sink: Arc<dyn ReportSink>,
    ) -> EmbeddedPlaneBuilder {
        EmbeddedPlaneBuilder::new(clock, signer, public_url, sink)
    }

    /// Connects a client: a new join is admitted by the control plane, and one that is resumed goes on. Once this returns,
    /// the first message is ready; the websocket may be opened.
    ///
    /// # Errors
    /// The status with which the client is turned away. A join that cannot be resumed is not refused, but told so.
    pub async fn connect(&self, request: ConnectRequest) -> Result<SignalConnection, Refusal> {
        signal::driver::connect(&self.0, &request).await
    }

    /// Repeats the verdict that [`EmbeddedPlane::connect`] would give now, without joining.
    ///
    /// # Errors
    /// As [`EmbeddedPlane::connect`].
    pub async fn validate(&self, request: &ConnectRequest) -> Result<(), Refusal> {
        signal::driver::validate(&self.0, request).await
    }

    /// Asks all clients to connect anew, because the server stops.
    pub fn shut_down_sessions(&self) {
        signal::driver::shut_down_sessions(&self.0);
    }

    /// Accepts RTMP encoders on a socket that listens, with TLS if it is given. Must be called on a runtime, which
    /// the connections stay on.
    ///
    /// # Errors
    /// The socket cannot be used.
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
    /// Why the encoder is refused. It has not joined then.
    pub async fn connect_whip(
        &self,
        key: StreamKeyHash,
        offer: String,
    ) -> Result<WhipAnswer, EncoderRefusal> {
        whip::driver::connect(&self.0, key, offer).await
    }

    /// Handles a PATCH request of an encoder. Returns the server's ICE credentials if ICE restarts.
    ///
    /// # Errors
    /// Why the request is refused.
    pub async fn patch_whip(
        &self,
        session: WhipSessionName<'_>,
        patch: WhipPatch,
    ) -> Result<Option<WhipRestart>, WhipPatchError> {
        whip::driver::patch(&self.0, session, patch).await
    }

    /// Ends the session of an encoder. Returns whether there was one.
    pub async fn delete_whip(&self, session: WhipSessionName<'_>) -> bool {
        whip::driver::delete(&self.0, session).await
    }

    /// Returns whether there is such a session.
    pub fn has_whip_session(&self, name: WhipSessionName<'_>) -> bool {
        whip::driver::has_session(&self.0, name)
    }

    /// Returns the sandbox API of this plane.
    pub fn sandbox(&self) -> Sandbox {
        Sandbox::new(Arc::clone(&self.0))
    }

    /// Returns the ffmpeg that records and broadcasts, or why there is none; `None` if all of them are simulated.
    pub async fn ffmpeg(&self) -> Option<Result<Ffmpeg, FfmpegError>> {
        self.0.ffmpeg().await
    }

    /// Registers the metrics of recordings and broadcasts.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register_egress_metrics(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        metrics::register(Arc::downgrade(&self.0), registry)
    }

    /// Ends all egresses with ffmpeg, and starts none any more. Returns once their files are final and their records are written.
    /// They have the time for that of the engine's settings.
    pub async fn end_egresses(&self) {
        start::end_all(&self.0).await;
    }

    /// Lets no participant join from now on, disconnects those that are connected, and asks their clients to connect anew. Returns
    /// whether the control plane has recorded the end of every session within `limit`.
    pub async fn end_sessions(&self, limit: Duration) -> bool {
        self.0.common.stop();
        // A join that is not among these rooms finds that the server stops: it locks its room later than this.
        let rooms = self.0.rooms.all();
        let answers = rooms
            .iter()
            .flat_map(|room| self.0.call_in(room, Machine::stop).1)
            .collect();
        matches!(timeout(limit, await_answers(answers)).await, Ok(Ok(())))
    }

    /// Waits for the joins that are being written.
    async fn await_joins(&self, room: &NamespacedRoom, identity: Option<&Identity>) {
        if let Some(room) = self.0.rooms.get(room) {
            room.await_joins(identity).await;
        }
    }

    /// Returns the TURN server in this process, if there is one, for clients that connect by TCP or TLS.
    pub fn turn_server(&self) -> Option<TurnServer> {
        self.0.own_turn.as_ref().map(|turn| turn.server.clone())
    }

    /// Returns the urls of the TURN server in this process; none without one.
    pub fn own_turn_urls(&self) -> Vec<String> {
        self.0
            .own_turn
            .iter()
            .flat_map(|turn| turn.urls.clone())
            .collect()
    }

    /// The state that clones share.
    #[cfg(test)]
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

#[cfg(test)]
mod tests;
