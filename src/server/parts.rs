//! Parts of the server that are created from the configuration.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::Duration;

use conclave_actors::{ActorContext, ActorRegistry, ROOMS_ENDING, ReportQueues, Settings};
use conclave_db::Store;
use conclave_media::MediaPlane;
use conclave_model::address::AddressFilter;
use conclave_model::key::ApiKey;
use conclave_model::permits::ProjectPermits;
use conclave_model::{Clock, LeaseCheck, Rate};
use conclave_outbound::upload::Uploader;
use conclave_outbound::webhook::DeliveryPool;

use super::dev::DevAccess;
use super::{egress, roots};
use crate::backups::{BackupDirectory, Backups};
use crate::billing::BillingClient;
use crate::config::{Config, Mode, Origin, Plans};
use crate::data_dir;
use crate::error::CliError;
use crate::http::admin::access::{AdminToken, ConsoleAccess, Gate};
use crate::http::call::effects::EffectFile;
use crate::http::console::history::{self, Sample};
use crate::http::frame::admission::{Admission, AdmissionLimits, Downloads};
use crate::http::frame::key_locks::KeyLocks;
use crate::http::frame::key_uses::KeyUses;
use crate::http::frame::limits::{FixedLimits, Limits};
use crate::http::frame::origins::Origins;
use crate::http::frame::payload::{self, BodyReader};
use crate::http::listener::client_address::TrustedProxies;
use crate::http::listener::forwarded::ForwardingGate;
use crate::http::media::livekit_webhook;
use crate::http::metrics::Metrics;
use crate::http::state::{AppState, CallPage, RequestChecks};

/// Memory for request bodies, in bytes: 1,024 of the largest.
const BODY_MEMORY: usize = 1_024 * payload::LIMIT;
/// Memory for LiveKit's reports, in bytes: four of the largest.
const REPORT_MEMORY: usize = 4 * livekit_webhook::LIMIT;
/// Port that a page's origin does not name.
const HTTP_PORT: u16 = 80;
/// Interval at which the rate limiter removes idle callers.
const LIMITS_CLEANUP_INTERVAL: Duration = Duration::from_secs(60);

/// Creates the context that all actors share.
///
/// # Errors
/// If the operating system refuses resources, or a file with root certificates cannot be used.
pub(super) fn actor_context(
    (config, plans): (&Config, &Plans),
    store: &Store,
    media: &Arc<dyn MediaPlane>,
    clock: &Clock,
    metrics: &Metrics,
    data: &Path,
    lease: &LeaseCheck,
) -> Result<ActorContext, CliError> {
    let (receivers, storages) = (
        &config.webhooks.allow_networks,
        &config.egress.allow_networks,
    );
    // Once per start, rather than by each client that uses the roots.
    roots::warn_of_environment();
    let (receiver_roots, storage_roots) =
        (roots::for_webhooks(config)?, roots::for_storage(config)?);
    let receivers = AddressFilter::new(receivers.clone());
    let deliveries = DeliveryPool::new(
        receivers,
        config.webhooks.timeout,
        &receiver_roots,
        lease.clone(),
    );
    let (priority, storages) = (
        egress::priority(config),
        AddressFilter::new(storages.clone()),
    );
    let uploads = Uploader::new(
        config.recordings.path(data),
        storages,
        storage_roots,
        // Uploads run at the recordings' priority, so neither delays packets or requests.
        move || priority.apply(),
    );
    let refused = |error| {
        CliError::failed(format!(
            "the webhook and upload threads cannot be started: {error}"
        ))
    };
    Ok(ActorContext {
        store: store.clone(),
        media: Arc::clone(media),
        clock: clock.clone(),
        deliveries: deliveries.map_err(refused)?,
        uploads: uploads.map_err(refused)?,
        // Recordings refer by it to the server whose disk has their file.
        node: data_dir::node_id(data)?,
        plans: plans.iter().collect(),
        settings: Settings::new(
            &config.webhooks,
            &config.events,
            &config.media,
            &config.recordings,
        ),
        room_ends: ProjectPermits::new(ROOMS_ENDING),
        reports: ReportQueues::default(),
        is_stopping: AtomicBool::default(),
        ends_egresses: AtomicBool::default(),
        registry: ActorRegistry::default(),
        metrics: metrics.actors.clone(),
    })
}

/// Limits for requests to file links.
const LINK_REQUESTS: AdmissionLimits = AdmissionLimits {
    total: 1_024,
    running: 4,
    beside_others: 2,
    waiting: 60,
};

/// Creates the checks that decide whether and when a request is handled.
pub(super) fn checks(
    config: &Config,
    mode: Mode,
    admin: SocketAddr,
    clock: &Clock,
    metrics: &Metrics,
    fixed: Arc<FixedLimits>,
) -> RequestChecks {
    let reader = |memory| BodyReader::new(config.http.request_timeout, memory);
    RequestChecks {
        limits: limits(config, clock),
        fixed,
        admission: admission(config, metrics),
        origins: origins(config, mode, admin),
        key_locks: KeyLocks::default(),
        key_uses: KeyUses::default(),
        // Links need no API key, so their requests have an admission of their own and cannot use up the API's.
        downloads: Downloads::new(Admission::new(
            LINK_REQUESTS,
            metrics.requests_refused.clone(),
        )),
        bodies: reader(BODY_MEMORY),
        reports: reader(REPORT_MEMORY),
    }
}

/// Creates the API's rate limiter.
fn limits(config: &Config, clock: &Clock) -> Limits {
    let settings = &config.limits;
    let requests = Rate {
        per_second: settings.requests_per_second,
        burst: settings.burst,
    };
    let exchanges = Rate {
        per_second: settings.exchange_per_second,
        burst: settings.exchange_burst,
    };
    Limits::new(
        clock,
        requests,
        exchanges,
        TrustedProxies(config.http.trusted_proxies.clone()),
    )
}

/// Creates the limits for responses that need no credential and no record.
pub(super) fn fixed_limits(config: &Config, clock: &Clock) -> Arc<FixedLimits> {
    Arc::new(FixedLimits::new(
        clock,
        TrustedProxies(config.http.trusted_proxies.clone()),
    ))
}

/// Creates the gate for proxied requests, for a server that has become active in a cluster.
pub(super) fn forwarding_gate(config: &Config, epoch: Option<i64>) -> Option<Arc<ForwardingGate>> {
    // Without `cluster.url`, standbys forward nothing.
    let epoch = epoch.filter(|_| config.cluster.url.is_some())?;
    Some(Arc::new(ForwardingGate::new(
        TrustedProxies(config.http.trusted_proxies.clone()),
        epoch,
    )))
}

/// Creates the admission of requests.
fn admission(config: &Config, metrics: &Metrics) -> Arc<Admission> {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = AdmissionLimits {
        total: count(config.http.max_requests),
        running: count(config.limits.project_running),
        // One per core. With two, the p99 of another project's writes doubled.
        beside_others: available_parallelism().map_or(1, NonZeroUsize::get),
        waiting: count(config.limits.project_waiting),
    };
    Admission::new(limits, metrics.requests_refused.clone())
}

/// Returns the call page, if it is enabled.
pub(super) fn call_page(
    config: &Config,
    dev: Option<&DevAccess>,
    effects: Vec<EffectFile>,
) -> Option<CallPage> {
    config.http.call_page.then(|| CallPage {
        dev_project: dev.map(|dev| dev.project_id.clone()),
        embed_origins: config.http.embed_origins.clone(),
        effects,
    })
}

/// Returns the billing service's client, if `billing.url` is set.
pub(super) fn billing(config: &Config, clock: &Clock) -> Option<BillingClient> {
    // Validation has rejected an invalid URL.
    let url = config.billing.url.as_deref()?.parse().ok()?;
    Some(BillingClient::new(
        url,
        config.billing.token.clone(),
        clock.clone(),
    ))
}

/// Starts the regular copies of the database, if `backup.directory` is set.
///
/// # Errors
/// If the metrics are registered already, which would be a bug.
pub(super) fn backups(
    config: &Config,
    store: &Store,
    clock: &Clock,
    metrics: &Metrics,
) -> Result<Option<Backups>, CliError> {
    let Some(directory) = config.backup.directory.clone().map(BackupDirectory::new) else {
        return Ok(None);
    };
    Ok(Some(Backups::spawn(
        directory,
        &config.backup,
        store,
        clock,
        metrics.backups()?,
    )))
}

/// Returns the browser origins that may call the API. In `dev`, the API viewer of its own admin listener is one.
fn origins(config: &Config, mode: Mode, admin: SocketAddr) -> Origins {
    let mut console = texts(&config.http.console_origins);
    if mode == Mode::Dev && admin.ip().is_loopback() {
        let port = if admin.port() == HTTP_PORT {
            String::new()
        } else {
            format!(":{}", admin.port())
        };
        // A browser's origin omits port 80, and `SocketAddr` brackets IPv6 addresses as an origin does.
        let address = SocketAddr::new(admin.ip(), HTTP_PORT).to_string();
        let address = address.trim_end_matches(":80");
        console.extend([address, "localhost"].map(|host| format!("http://{host}{port}")));
    }
    Origins {
        console,
        browser: texts(&config.http.browser_origins),
    }
}

/// Returns the API key for the API viewer: in `dev`, if only this machine reaches the admin listener. The console is open there and creates
/// keys, too.
pub(super) fn viewer_key(
    dev: Option<&DevAccess>,
    gate: &Gate,
    admin: SocketAddr,
) -> Option<ApiKey> {
    let is_open = matches!(gate, Gate::Open) && admin.ip().is_loopback();
    dev.filter(|_| is_open).map(|dev| dev.api_key.clone())
}

fn texts(origins: &[Origin]) -> Vec<String> {
    origins
        .iter()
        .map(|origin| origin.as_str().to_owned())
        .collect()
}

/// Returns the admin token, if one is configured.
pub(super) fn admin_token(config: &Config, clock: &Clock) -> Option<Arc<AdminToken>> {
    let proxies = TrustedProxies(config.http.trusted_proxies.clone());
    config
        .admin
        .token
        .clone()
        .map(|token| Arc::new(AdminToken::new(token, clock.clone(), proxies)))
}

/// Creates the reader for a standby console's forms, with memory for one maximum-size form at a time.
pub(super) fn standby_forms(config: &Config) -> BodyReader {
    BodyReader::new(config.http.request_timeout, payload::LIMIT)
}

/// Returns the access rule for the console: in `dev` without an admin token every local client, otherwise clients with the token.
///
/// # Errors
/// If the operating system provides no random numbers.
pub(super) fn console_access(
    config: &Config,
    mode: Mode,
    token: Option<&Arc<AdminToken>>,
    clock: &Clock,
) -> Result<ConsoleAccess, CliError> {
    let gate = match (token, mode) {
        (Some(token), _) => Gate::Token(Arc::clone(token)),
        (None, Mode::Dev) => Gate::Open,
        // A console without a token must not be open by default.
        (None, Mode::Serve) => Gate::Closed,
    };
    let access = ConsoleAccess::new(
        gate,
        clock.clone(),
        TrustedProxies(config.http.trusted_proxies.clone()),
    );
    access.map_err(|error| {
        CliError::failed(format!(
            "the operating system provides no random numbers: {error}"
        ))
    })
}

/// Spawns a task that samples the counts for the console's plots while the server runs. Does nothing if the console is closed.
pub(super) fn spawn_history(state: &Arc<AppState>) {
    if matches!(state.admin.console.gate(), Gate::Closed) {
        return;
    }
    // Weak, so that the task ends with the server.
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        while let Some(state) = state.upgrade() {
            // A sample that cannot be read is skipped: requests that fail for the same reason log it.
            if let Ok(totals) = state.store.projects().totals().await {
                state.admin.history.add(Sample {
                    at: state.clock.now(),
                    totals,
                });
            }
            drop(state);
            tokio::time::sleep(history::INTERVAL).await;
        }
    });
}

/// Spawns a task that regularly removes expired refusals from the rate limiter while the server runs.
pub(super) fn spawn_limits_cleanup(state: &Arc<AppState>) {
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LIMITS_CLEANUP_INTERVAL).await;
            match state.upgrade() {
                Some(state) => state.checks.limits.forget_refusals(),
                None => return,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_dev_only_the_pages_of_the_own_admin_listener_may_call_besides() {
        let config = Config::defaults(Mode::Dev);
        let admitted =
            |mode: Mode, admin: &str| origins(&config, mode, admin.parse().unwrap()).console;
        assert_eq!(
            admitted(Mode::Dev, "127.0.0.1:8081"),
            ["http://127.0.0.1:8081", "http://localhost:8081"]
        );
        assert_eq!(
            admitted(Mode::Dev, "[::1]:80"),
            ["http://[::1]", "http://localhost"]
        );
        for (mode, admin) in [
            (Mode::Serve, "127.0.0.1:8081"),
            (Mode::Dev, "192.168.1.7:8081"),
            (Mode::Dev, "0.0.0.0:8081"),
        ] {
            assert_eq!(admitted(mode, admin), [""; 0], "{mode:?} {admin}");
        }
    }

    #[test]
    fn the_viewer_has_the_key_of_dev_only_where_the_console_is_open_to_this_machine_alone() {
        let dev = || DevAccess {
            project_id: "prj_5f2a9c01be34".parse().unwrap(),
            api_key: ApiKey::generate(conclave_model::project::Environment::Test),
        };
        let has_key = |dev: Option<DevAccess>, gate: Gate, admin: &str| {
            viewer_key(dev.as_ref(), &gate, admin.parse().unwrap()).is_some()
        };
        assert!(has_key(Some(dev()), Gate::Open, "127.0.0.1:8081"));
        assert!(!has_key(None, Gate::Open, "127.0.0.1:8081"));
        assert!(!has_key(Some(dev()), Gate::Open, "0.0.0.0:8081"));
        assert!(!has_key(Some(dev()), Gate::Closed, "127.0.0.1:8081"));
    }
}
