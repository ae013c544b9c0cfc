//! The two listeners: bound before anything is announced, served by actix workers.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::dev::{Server as ActixServer, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer};

use crate::cli::CliError;
use crate::config::{Config, ConfigError};
use crate::http::state::AppState;
use crate::http::trace::trace;
use crate::http::{admin, app};

/// Seconds that requests in flight have to finish when the server stops.
const LAST_REQUESTS_SECONDS: u64 = 10;

/// Both sockets, listening but not served yet.
pub struct Bound {
    /// Where the API listens.
    pub api: SocketAddr,
    /// Where the admin listener listens.
    pub admin: SocketAddr,
    api_socket: TcpListener,
    admin_socket: TcpListener,
}

/// Binds both.
///
/// # Errors
/// An address that cannot be listened on, by the name of its setting.
pub fn bind(config: &Config) -> Result<Bound, CliError> {
    let (api_socket, api) = listen("http.listen", config.http.listen)?;
    let (admin_socket, admin) = listen("admin.listen", config.admin.listen)?;
    Ok(Bound { api, admin, api_socket, admin_socket })
}

fn listen(setting: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let bound = TcpListener::bind(address).and_then(|socket| socket.local_addr().map(|at| (socket, at)));
    bound.map_err(|error| {
        let problem = format!("{address} cannot be listened on: {error}");
        CliError::failed(ConfigError::new(setting, problem).to_string())
    })
}

/// Serves both.
///
/// # Errors
/// Workers that cannot be started.
pub fn serve(bound: Bound, state: &Arc<AppState>, workers: usize) -> Result<[ServerHandle; 2], CliError> {
    let unserved = |error: std::io::Error| CliError::failed(format!("the listeners cannot be served: {error}"));
    let shared = Arc::clone(state);
    let api = HttpServer::new(move || {
        let state = Arc::clone(&shared);
        App::new().wrap(from_fn(trace)).configure(move |config| app::configure(config, &state))
    });
    let api = api.workers(workers).shutdown_timeout(LAST_REQUESTS_SECONDS).disable_signals();
    let api = api.listen(bound.api_socket).map_err(unserved)?.run();
    let shared = Arc::clone(state);
    let admin = HttpServer::new(move || {
        let state = Arc::clone(&shared);
        App::new().wrap(from_fn(trace)).configure(move |config| admin::configure(config, &state))
    });
    // Streams of events never finish by themselves, so the admin listener is not waited for.
    let admin = admin.workers(1).shutdown_timeout(0).disable_signals();
    let admin = admin.listen(bound.admin_socket).map_err(unserved)?.run();
    Ok([spawn(api), spawn(admin)])
}

fn spawn(server: ActixServer) -> ServerHandle {
    let handle = server.handle();
    tokio::spawn(async move {
        if let Err(error) = server.await {
            log::error!("a listener ended: {error}");
        }
    });
    handle
}
