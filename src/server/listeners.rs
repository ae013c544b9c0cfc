//! The API listener, the admin listener, and the listener that redirects to `https`. All sockets are bound before the data directory is
//! changed; actix workers serve them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::{HttpService, KeepAlive};
use actix_server::GracefulShutdownSignal;
use actix_service::{ServiceFactoryExt, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{AppConfig, Server as ActixServer, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::web::ServiceConfig;

use super::accepting::{Acceptor, Protocols};
use super::descriptors::{self, ADMIN_MAX_CONNECTIONS};
use crate::cluster::{ActiveListener, Proxy};
use crate::config::{Config, MediaKind, Mode};
use crate::error::CliError;
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::client_stream::ClientStream;
use crate::http::listener::connections::{ClientTimeouts, Connections, OpenConnections};
use crate::http::listener::trace::trace;
use crate::http::metrics::Metrics;
use crate::http::state::{AppState, StandbyState};
use crate::http::{admin, app};

/// Time limit for requests in flight when the server stops.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Accepted connections that a worker may have in its queue.
const QUEUED_CONNECTIONS: usize = 32;
/// Maximum connections to the redirecting listener.
const REDIRECT_MAX_CONNECTIONS: usize = 256;
/// Time limit for the head of a connection's first request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a client to close a connection whose request was not read to the end, so that it receives the response.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Bound sockets. Clients can connect, but are not served yet.
pub struct BoundListeners {
    /// API listener address.
    pub api: SocketAddr,
    /// Admin listener address.
    pub admin: SocketAddr,
    /// Socket for RTMP encoders and its address, if they can connect.
    pub rtmp: Option<(TcpListener, SocketAddr)>,
    /// Redirecting listener's address, if there is one.
    pub redirect: Option<SocketAddr>,
    /// HTTP sockets.
    pub sockets: Sockets,
}

impl BoundListeners {
    /// Clones the sockets, so that they stay bound when these are closed.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn try_clone(&self) -> io::Result<Self> {
        let rtmp = self
            .rtmp
            .as_ref()
            .map(|(socket, address)| socket.try_clone().map(|socket| (socket, *address)));
        let Self {
            api,
            admin,
            redirect,
            ..
        } = *self;
        Ok(Self {
            api,
            admin,
            rtmp: rtmp.transpose()?,
            redirect,
            sockets: self.sockets.try_clone()?,
        })
    }
}

/// Bound HTTP sockets.
pub struct Sockets {
    api: TcpListener,
    admin: TcpListener,
    redirect: Option<TcpListener>,
}

impl Sockets {
    /// Clones the sockets, to be served before these.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn try_clone(&self) -> io::Result<Self> {
        let redirect = self
            .redirect
            .as_ref()
            .map(TcpListener::try_clone)
            .transpose()?;
        Ok(Self {
            api: self.api.try_clone()?,
            admin: self.admin.try_clone()?,
            redirect,
        })
    }
}

/// Adds a listener's resources.
type Configure<S> = fn(&mut ServiceConfig, &Arc<S>);

/// Routes of the listeners, with a state of type `S`.
pub struct Routes<S> {
    api: Configure<S>,
    admin: Configure<S>,
    redirect: Configure<S>,
}

/// Routes of an active server.
pub const ACTIVE: Routes<ActiveRoutes> = Routes {
    api: |config, state| match &state.cluster {
        Some(listener) => listener.configure(config, |config| app::configure(config, &state.http)),
        None => app::configure(config, &state.http),
    },
    admin: |config, state| admin::configure(config, &state.http),
    redirect: |config, state| app::configure_redirect(config, &state.http),
};
/// Routes of a standby.
pub const STANDBY: Routes<StandbyRoutes> = Routes {
    api: |config, state| match &state.proxy {
        Some(proxy) => proxy.configure(config),
        None => app::configure_standby(config, &state.http),
    },
    admin: |config, state| admin::configure_standby(config, &state.http),
    redirect: |config, state| app::configure_standby_redirect(config, &state.http),
};

/// Returns the error for sockets that cannot be cloned.
pub fn not_shared(error: io::Error) -> CliError {
    CliError::failed(format!("the sockets cannot be shared: {error}"))
}

/// State of an active server's routes.
pub struct ActiveRoutes {
    /// API operations, with their handlers' dependencies.
    pub http: Arc<AppState>,
    /// Handling of proxied and buffered requests, in a cluster.
    pub cluster: Option<ActiveListener>,
}

/// State of a standby's routes.
pub struct StandbyRoutes {
    /// The standby's own state.
    pub http: Arc<StandbyState>,
    /// Proxy of its API listener, in a cluster.
    pub proxy: Option<Arc<Proxy>>,
}

/// Binds the sockets.
///
/// # Errors
/// If an address cannot be bound. The message names its setting.
pub fn bind(config: &Config, mode: Mode) -> Result<BoundListeners, CliError> {
    let (api, admin) = (config.http.listen, config.admin.listen);
    // Both are tried, so that the error can name the options for both.
    let bound = (listen("http.listen", api), listen("admin.listen", admin));
    let ((api_socket, api), (admin_socket, admin)) = match bound {
        (Ok(api), Ok(admin)) => (api, admin),
        (api_bound, admin_bound) => {
            let options = [
                ("--listen", api, api_bound.err()),
                ("--admin", admin, admin_bound.err()),
            ];
            return Err(not_bound(options));
        }
    };
    let rtmp = bind_rtmp(config, mode)?;
    let redirect = config
        .tls
        .redirect_listen
        .map(|address| listen("tls.redirect_listen", address))
        .transpose()?;
    let (redirect_socket, redirect) = redirect.unzip();
    let sockets = Sockets {
        api: api_socket,
        admin: admin_socket,
        redirect: redirect_socket,
    };
    Ok(BoundListeners {
        api,
        admin,
        redirect,
        rtmp,
        sockets,
    })
}

/// Binds the socket for RTMP encoders. A development server starts without it if the address is in use.
fn bind_rtmp(config: &Config, mode: Mode) -> Result<Option<(TcpListener, SocketAddr)>, CliError> {
    // Without media workers, an encoder's stream would have nowhere to go.
    let has_workers = config.media.kind == MediaKind::Embedded && config.media.rtc.enabled;
    let Some(address) = config.media.rtmp_listen.filter(|_| has_workers) else {
        return Ok(None);
    };
    match listen("media.rtmp_listen", address) {
        Ok(bound) => Ok(Some(bound)),
        // `dev` enables this listener by default, so a port in use must not keep the server from starting.
        Err(error) if mode == Mode::Dev => {
            log::warn!("RTMP encoders cannot connect: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn listen(
    setting: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), BindError> {
    let bound =
        TcpListener::bind(address).and_then(|socket| socket.local_addr().map(|at| (socket, at)));
    bound.map_err(|error| BindError {
        setting,
        address,
        error,
    })
}

/// Address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {address} cannot be bound: {error}")]
struct BindError {
    setting: &'static str,
    address: SocketAddr,
    error: io::Error,
}

impl From<BindError> for CliError {
    fn from(error: BindError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Returns the first error for the addresses that options override. If ports are in use, the message suggests the options that choose free
/// ones: a second server finds both ports of the first one in use.
fn not_bound(options: [(&str, SocketAddr, Option<BindError>); 2]) -> CliError {
    let in_use = |error: &BindError| error.error.kind() == io::ErrorKind::AddrInUse;
    let free: Vec<_> = options
        .iter()
        .filter(|(_, _, error)| error.as_ref().is_some_and(in_use))
        // On the same interface, since only the port was in use.
        .map(|(option, address, _)| format!("{option} {}", SocketAddr::new(address.ip(), 0)))
        .collect();
    let first = options.into_iter().find_map(|(_, _, error)| error);
    let problem = first.map_or_else(String::new, |error| error.to_string());
    if free.is_empty() {
        return CliError::failed(problem);
    }
    let ports = if free.len() == 1 {
        "a free port"
    } else {
        "free ports"
    };
    CliError::failed(format!("{problem}; use {} for {ports}", free.join(" ")))
}

/// Starts to serve the sockets. The API's socket also serves `protocols`.
///
/// # Errors
/// If the workers cannot be started.
pub fn serve<S: Send + Sync + 'static>(
    sockets: Sockets,
    routes: &Routes<S>,
    state: &Arc<S>,
    (config, metrics): (&Config, &Metrics),
    protocols: Protocols,
) -> Result<Vec<ServerHandle>, CliError> {
    let proxies = TrustedProxies(config.http.trusted_proxies.clone());
    let connections =
        |max| Connections::new(max, proxies.clone(), metrics.connections_refused.clone());
    // The same for all listeners: slow clients are equally costly.
    let timeouts = ClientTimeouts {
        request: config.http.request_timeout,
        keep_alive: config.http.keep_alive,
    };
    // The only listener with TLS and TURN.
    let api = Listener {
        configure: routes.api,
        workers: config.http.worker_threads(),
        shutdown_timeout: SHUTDOWN_TIMEOUT.as_secs(),
        connections: connections(descriptors::max_connections(config)),
        // Its limit is high. Only small listeners need to close a connection for a new one.
        gives_way: false,
        timeouts,
        protocols,
    };
    let admin = Listener {
        configure: routes.admin,
        workers: 1,
        // The streams of `/debug/events` do not end by themselves, so a stop must not wait for this listener.
        shutdown_timeout: 0,
        connections: connections(ADMIN_MAX_CONNECTIONS),
        gives_way: true,
        timeouts,
        protocols: Protocols::default(),
    };
    // Its responses are short and its clients unknown, so it has a small limit, and a stop does not wait for it.
    let redirect = || Listener {
        configure: routes.redirect,
        workers: 1,
        shutdown_timeout: 0,
        connections: connections(REDIRECT_MAX_CONNECTIONS),
        gives_way: true,
        timeouts,
        protocols: Protocols::default(),
    };
    let failed =
        |error: io::Error| CliError::failed(format!("the workers cannot be started: {error}"));
    let redirect = sockets.redirect.map(|socket| (redirect(), socket));
    let served = [(api, sockets.api), (admin, sockets.admin)]
        .into_iter()
        .chain(redirect)
        .map(|(listener, socket)| listener.serve(socket, state));
    served
        .map(|server| server.map(spawn).map_err(failed))
        .collect()
}

/// Configuration of a served socket.
struct Listener<S> {
    configure: Configure<S>,
    workers: usize,
    /// Time limit at a stop for requests in flight, in seconds.
    shutdown_timeout: u64,
    connections: Arc<Connections>,
    /// Whether one connection is closed for a new one at the limit; see [`OpenConnections`].
    gives_way: bool,
    /// Timeouts per connection; see [`ClientStream`].
    timeouts: ClientTimeouts,
    protocols: Protocols,
}

impl<S: Send + Sync + 'static> Listener<S> {
    /// Serves a socket. Used instead of `actix_web::HttpServer`, which can neither reject a connection nor close a slow one.
    fn serve(self, socket: TcpListener, state: &Arc<S>) -> io::Result<ActixServer> {
        let state = Arc::clone(state);
        let Self {
            configure,
            connections,
            gives_way,
            timeouts,
            protocols,
            ..
        } = self;
        // Connections above the limit of actix would stay in the backlog. Ours is reached first, and closes them.
        let per_worker = connections.max().div_ceil(self.workers) + QUEUED_CONNECTIONS;
        let server = ActixServer::build()
            .workers(self.workers)
            .max_concurrent_connections(per_worker);
        let server = server
            .shutdown_timeout(self.shutdown_timeout)
            // The process handles signals itself, in `run`.
            .disable_signals();
        let stopping = server.graceful_shutdown_signal();
        let server = server.listen("http", socket, move || {
            let (state, stopping, stopping_too) =
                (Arc::clone(&state), stopping.clone(), stopping.clone());
            let app = App::new()
                .wrap(from_fn(trace))
                .configure(move |config| configure(config, &state));
            let http = HttpService::build()
                .keep_alive(KeepAlive::Timeout(timeouts.keep_alive))
                .client_request_timeout(HEAD_TIMEOUT)
                .client_disconnect_timeout(DISCONNECT_TIMEOUT)
                .graceful_shutdown_signal(move || notified(stopping.clone()))
                // Handlers reach the connection's activity by the request.
                .on_connect_ext(|stream: &ClientStream, data| drop(data.insert(stream.activity())))
                // HTTP/1.1 only, which is also all that the TLS acceptor offers.
                .h1(map_config(app, |()| AppConfig::default()));
            let acceptor = Acceptor {
                connections: Arc::clone(&connections),
                open: gives_way.then(OpenConnections::default),
                timeouts,
                protocols: protocols.clone(),
                stopping: stopping_too,
            };
            fn_service(move |stream| acceptor.clone().accept(stream)).and_then(http)
        })?;
        Ok(server.run())
    }
}

async fn notified(stopping: GracefulShutdownSignal) {
    stopping.notified().await;
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
