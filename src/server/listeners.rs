//! The API listener and the admin listener. Both sockets are bound before the data directory is changed; actix workers
//! serve them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::{Server as ActixServer, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer};

use crate::config::{Config, ConfigError};
use crate::error::CliError;
use crate::http::state::AppState;
use crate::http::trace::trace;
use crate::http::{admin, app};

/// Seconds that requests in flight have to finish when the server stops.
const SHUTDOWN_TIMEOUT_SECONDS: u64 = 10;

/// The two bound sockets. Clients can connect, but are not served yet.
pub struct BoundListeners {
    /// Address of the API listener.
    pub api: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
    api_socket: TcpListener,
    admin_socket: TcpListener,
}

/// Binds both sockets.
///
/// # Errors
/// An address cannot be bound. The message names its setting.
pub fn bind(config: &Config) -> Result<BoundListeners, CliError> {
    let (api_socket, api) = listen("http.listen", config.http.listen)?;
    let (admin_socket, admin) = listen("admin.listen", config.admin.listen)?;
    Ok(BoundListeners { api, admin, api_socket, admin_socket })
}

fn listen(setting: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let bound = TcpListener::bind(address).and_then(|socket| socket.local_addr().map(|at| (socket, at)));
    bound.map_err(|error| {
        let problem = format!("{address} cannot be bound: {error}");
        CliError::failed(ConfigError::new(setting, problem).to_string())
    })
}

/// Starts serving both sockets.
///
/// # Errors
/// The workers cannot be started.
pub fn serve(bound: BoundListeners, state: &Arc<AppState>, workers: usize) -> Result<[ServerHandle; 2], CliError> {
    let failed = |error: std::io::Error| CliError::failed(format!("the workers cannot be started: {error}"));
    let shared = Arc::clone(state);
    let api = HttpServer::new(move || {
        let state = Arc::clone(&shared);
        App::new().wrap(from_fn(trace)).configure(move |config| app::configure(config, &state))
    });
    let api = api.workers(workers).shutdown_timeout(SHUTDOWN_TIMEOUT_SECONDS).disable_signals();
    let api = api.listen(bound.api_socket).map_err(failed)?.run();
    let shared = Arc::clone(state);
    let admin = HttpServer::new(move || {
        let state = Arc::clone(&shared);
        App::new().wrap(from_fn(trace)).configure(move |config| admin::configure(config, &state))
    });
    // The streams of `/debug/events` do not end by themselves, so a stop does not wait for the admin listener.
    let admin = admin.workers(1).shutdown_timeout(0).disable_signals();
    let admin = admin.listen(bound.admin_socket).map_err(failed)?.run();
    Ok([spawn(api), spawn(admin)])
}

fn spawn(server: ActixServer) -> ServerHandle {
    let handle = server.handle();
    tokio::spawn(async move {
        if let Err(error) = server.await {
            log::error!("a listener failed: {error}");
        }
    });
    handle
}
