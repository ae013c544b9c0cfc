//! `conclave check`: tests that every part of a server's environment is present and works, and prints one line per part. It creates
//! nothing.

mod postgres;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conclave_db::lease::{ClusterState, Node, Role, cluster_state};
use conclave_db::{Location, OlderSchema, Store, StoreOptions, Vault, check_postgres};
use conclave_media::ReportInlet;
use conclave_media::embedded::egress_engine::Ffmpeg;
use conclave_media::livekit::LivekitPlane;
use conclave_media::token::TokenSigner;
use conclave_model::{Clock, LeaseCheck, Secret};
use conclave_outbound::roots::{VARIABLE, environment};
use serde::Serialize;

use super::output;
use super::output::{OutputFormat, print, print_json};
use super::store::unregistered_metrics;
use crate::backups::{BackupDirectory, old_at};
use crate::config::{
    AcmeConfig, Config, ConfigError, EgressConfig, LoadedConfig, MediaCredentials, MediaKind,
    Plans, SettingOrigins, SettingSource,
};
use crate::data_dir::{database_path, location};
use crate::error::CliError;
use crate::http::call::effects;
use crate::runtime::run_in_system;
use crate::server::{
    buffer_problem, client_addresses, connections_problem, dialler, livekit_settings,
    public_url_problem, roots, workers_problem,
};
use crate::tls::acme::schedule::Validity;
use crate::tls::acme::{AcmeHttp, Storage};
use crate::tls::files::CertificateFiles;

/// Remaining validity below which a certificate should have been renewed.
const RENEWAL_DUE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Result for one part of the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartResult {
    part: &'static str,
    verdict: Verdict,
}

/// Verdict on a part, with details for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// The part works.
    Ok(String),
    /// The part works, but some of the server's operations will fail.
    Warning(String),
    /// The server cannot use the part.
    Failure(String),
}

/// JSON output for one part.
#[derive(Serialize)]
struct PartView<'a> {
    part: &'static str,
    verdict: &'static str,
    detail: &'a str,
}

impl Verdict {
    /// Returns the word in the table, the word in JSON, and the details.
    fn shown(&self) -> (&'static str, &'static str, &str) {
        match self {
            Self::Ok(detail) => ("ok", "ok", detail),
            Self::Warning(problem) => ("WARN", "warning", problem),
            Self::Failure(problem) => ("FAIL", "failure", problem),
        }
    }
}

impl<'a> From<&'a PartResult> for PartView<'a> {
    fn from(PartResult { part, verdict }: &'a PartResult) -> Self {
        let (_, verdict, detail) = verdict.shown();
        Self {
            part,
            verdict,
            detail,
        }
    }
}

impl PartResult {
    fn new(part: &'static str, result: Result<Verdict, CliError>) -> Self {
        Self {
            part,
            verdict: result.unwrap_or_else(|error| Verdict::Failure(error.to_string())),
        }
    }
}

/// Checks every part. After an invalid configuration, the other parts are not checked, because they depend on it.
///
/// # Errors
/// If the configuration is invalid, or another part has failed.
pub(super) fn run(
    loaded: Result<LoadedConfig, ConfigError>,
    data: &Path,
    format: OutputFormat,
) -> Result<(), CliError> {
    let checked = loaded.and_then(|LoadedConfig { config, origins }| {
        let plans = Plans::load(config.plans.file.as_deref())?;
        effects::load(config.http.call_effects.as_deref())?;
        // Here, since only the origins show which file a secret is in.
        let readable = readable_secrets(&config, &origins)?;
        Ok((config, plans, readable))
    });
    let (config, plans, readable) = match checked {
        Ok(checked) => checked,
        Err(error) => {
            show(
                &[PartResult {
                    part: "configuration",
                    verdict: Verdict::Failure(error.to_string()),
                }],
                format,
            )?;
            return Err(error.into());
        }
    };
    let results = [
        PartResult {
            part: "configuration",
            verdict: check_configuration(&config, &plans, readable),
        },
        PartResult::new("database", check_database(&config, data)),
        PartResult::new("encryption", check_encryption(&config, data)),
        PartResult::new("media", check_media(&config, data)),
    ];
    let cluster = config
        .database
        .is_postgres()
        // Only a PostgreSQL database can be shared by several servers.
        .then(|| PartResult::new("cluster", check_cluster(&config, data)));
    let files = config
        .tls
        .files()
        .map(|(cert, key)| PartResult::new("tls", check_tls(CertificateFiles::new(cert, key))));
    let acme = config
        .tls
        .acme()
        .map(|acme| PartResult::new("tls", check_acme(&acme, data)));
    // LiveKit records in its own services, which the media check covers.
    let egress =
        (config.media.kind == MediaKind::Embedded && config.media.rtc.enabled).then(|| {
            PartResult {
                part: "egress",
                verdict: check_egress(&config.egress),
            }
        });
    let roots = check_roots(&config).map(|verdict| PartResult {
        part: "certificates",
        verdict,
    });
    let backup = config
        .backup
        .directory
        .as_ref()
        .map(|directory| PartResult {
            part: "backup",
            verdict: check_backup(BackupDirectory::new(directory.clone()), config.backup.every),
        });
    let results: Vec<_> = results
        .into_iter()
        .chain(cluster)
        .chain(backup)
        .chain(files)
        .chain(acme)
        .chain(roots)
        .chain(egress)
        .collect();
    show(&results, format)?;
    let has_failed = |result: &&PartResult| matches!(result.verdict, Verdict::Failure(_));
    let failed: Vec<_> = results
        .iter()
        .filter(has_failed)
        .map(|result| result.part)
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        // After the table, so that all results are printed.
        Err(CliError::failed(format!(
            "check failed: {}",
            failed.join(", ")
        )))
    }
}

fn show(results: &[PartResult], format: OutputFormat) -> Result<(), CliError> {
    if format.json {
        return print_json(&results.iter().map(PartView::from).collect::<Vec<_>>());
    }
    let row = |result: &PartResult| {
        let (word, _, detail) = result.verdict.shown();
        vec![
            word.to_owned(),
            result.part.to_owned(),
            // One line per part, so that a search for FAIL shows the whole result.
            detail.replace('\n', " "),
        ]
    };
    print(&output::rows(&results.iter().map(row).collect::<Vec<_>>()))
}

/// Reports secrets in a settings file that other users of the machine can read.
fn readable_secrets(
    config: &Config,
    origins: &SettingOrigins,
) -> Result<Option<String>, ConfigError> {
    let settings = origins.report(config)?;
    // A URL with a password counts as secret, too.
    let secrets = settings.iter().filter(|setting| setting.is_secret());
    let in_files = secrets.filter_map(|setting| match &setting.origin {
        Some(SettingSource::File(file)) => Some((setting.name.as_str(), file.as_str())),
        _ => None,
    });
    let readable: Vec<_> = in_files
        .filter(|(_, file)| others_read(Path::new(file)))
        .collect();
    // All secrets are in the same file: there is only one settings file.
    Ok(readable.first().map(|(_, file)| {
        let names = readable
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ");
        format!("every user of this machine can read {names} in {file}: chmod o= {file}")
    }))
}

/// Returns whether a file can be read by users other than its owner and its group.
fn others_read(path: &Path) -> bool {
    let permits = |path: &Path, bit| {
        path.metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & bit != 0)
    };
    path.canonicalize().is_ok_and(|path| {
        // A directory without access for others hides the file, whatever its mode.
        permits(&path, 0o004) && path.ancestors().skip(1).all(|dir| permits(dir, 0o001))
    })
}

/// Checks that the process may open enough files, that no project can take all requests, and that no other user can read secrets in the
/// settings. Lists the plans.
fn check_configuration(config: &Config, plans: &Plans, readable: Option<String>) -> Verdict {
    let limits = &config.limits;
    // Otherwise one project's backlog would cause 503 for all others.
    let takes_all = limits
        .project_running
        .saturating_add(limits.project_waiting)
        >= config.http.max_requests;
    let takes_all = takes_all.then(|| {
        "limits.project_running and limits.project_waiting let one project take all of http.max_requests".to_owned()
    });
    let problems = connections_problem(config)
        .into_iter()
        .chain(takes_all)
        .chain(readable);
    let problems: Vec<_> = problems.chain(public_url_problem(config)).collect();
    if problems.is_empty() {
        Verdict::Ok(format!(
            "plans {}",
            plans.ids().collect::<Vec<_>>().join(", ")
        ))
    } else {
        Verdict::Warning(problems.join("; "))
    }
}

/// Reads the whole database and verifies its integrity. PostgreSQL verifies its pages itself.
fn check_database(config: &Config, data: &Path) -> Result<Verdict, CliError> {
    let location = location(config, data, None)?;
    // A database that does not exist yet is not a failure: the first start creates it.
    if let Location::File(path) = &location
        && !path.exists()
    {
        return Ok(Verdict::Ok(format!(
            "none yet; the first start creates {}",
            path.display()
        )));
    }
    let shown = location.to_string();
    let health = match &location {
        Location::File(_) => None,
        Location::Server(options) => Some(check_postgres(&options.server)?),
    };
    let (schema, newest) = run_in_system(verify_database(location))?;
    let older = if schema < newest {
        ", migrated at the next start of a server"
    } else {
        ""
    };
    let summary = format!("schema {schema}{older}, {shown}");
    Ok(health.map_or(Verdict::Ok(summary.clone()), |health| {
        // A file is local, so there is nothing to judge besides its integrity.
        postgres::judge(&summary, &health)
    }))
}

/// Reports the servers that share the database, and the servers that could not take over.
fn check_cluster(config: &Config, data: &Path) -> Result<Verdict, CliError> {
    let Location::Server(options) = location(config, data, None)? else {
        return Ok(Verdict::Ok("one server".into()));
    };
    Ok(match cluster_state(&options.server)? {
        Some(state) => judge_cluster(&state),
        None => Verdict::Ok("no server has used the database yet".into()),
    })
}

fn judge_cluster(state: &ClusterState) -> Verdict {
    let seen = |node: &Node| {
        format!(
            "{} ({}, seen {:.1} s ago)",
            node.info.url,
            node.info.version,
            node.age.as_secs_f64()
        )
    };
    let active = state.active().map_or_else(
        || "no server is active".to_owned(),
        |node| format!("active {}", seen(node)),
    );
    let standbys: Vec<_> = state.standbys().map(seen).collect();
    let standbys = if standbys.is_empty() {
        "no standby".to_owned()
    } else {
        format!("standby {}", standbys.join(", "))
    };
    let summary = format!("epoch {}, {active}, {standbys}", state.epoch);
    // Servers with other keys, or with an older version: they follow the lease, but never become active.
    let stuck = state.standbys().filter(|node| node.role != Role::Standby);
    let stuck: Vec<_> = stuck
        .map(|node| format!("{} cannot take over: {}", node.info.url, node.role.as_str()))
        .collect();
    if stuck.is_empty() {
        Verdict::Ok(summary)
    } else {
        Verdict::Warning(format!("{summary}; {}", stuck.join("; ")))
    }
}

/// Returns the schema version of an intact database, and the newest one.
async fn verify_database(location: Location) -> Result<(i64, i64), CliError> {
    // No secret is decrypted, so a lost encryption key does not hide the state of the database.
    let vault = Vault::open(None, &Secret::new(""))?;
    let store = Store::open(StoreOptions {
        location,
        older_schema: OlderSchema::Accept,
        clock: Clock::system(),
        vault,
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: unregistered_metrics()?,
    })?;
    let schema = store.server().check().await;
    store.close();
    Ok((schema?, store.server().schema()))
}

/// Reports the time of the last database copy. An old copy is a warning: the server may have been stopped for long.
fn check_backup(directory: BackupDirectory, every: Duration) -> Verdict {
    let shown = directory.path().display();
    let mode =
        std::fs::metadata(directory.path()).map(|metadata| metadata.permissions().mode() & 0o777);
    // A directory that does not exist yet has no mode; the server creates it with 0700.
    if let Ok(mode) = mode
        && mode & 0o077 != 0
    {
        let problem = "other users may enter it, and a copy contains all records";
        return Verdict::Warning(format!("{shown} has mode {mode:o}: {problem}; chmod 700"));
    }
    // Oldest first, so the last one is the newest.
    let Some(last) = directory.copies().pop() else {
        return Verdict::Ok(format!(
            "no copy yet in {shown}; a server makes the first at its start"
        ));
    };
    let summary = format!("last copy at {}, in {shown}", last.at);
    if old_at(last.at, every) <= Clock::system().now() {
        return Verdict::Warning(format!("{summary}: it is old"));
    }
    Verdict::Ok(summary)
}

/// Checks that the encryption key exists and that only its owner can read it.
fn check_encryption(config: &Config, data: &Path) -> Result<Verdict, CliError> {
    let Some(path) = config.encryption.key_path(data) else {
        return Ok(Verdict::Ok(
            "no key (encryption.key_file is empty): destinations cannot be stored".into(),
        ));
    };
    match (path.exists(), database_path(data).exists()) {
        // The records are elsewhere, so a missing key may be a lost key.
        (false, false) if config.database.is_postgres() => Ok(Verdict::Warning(format!(
            "none at {}; the next start creates it; if the database already has records, restore their key",
            path.display()
        ))),
        (false, false) => Ok(Verdict::Ok(format!(
            "none yet; the first start creates {}",
            path.display()
        ))),
        // A failure, since the server itself would start with a new key and hide the loss.
        (false, true) => Err(CliError::failed(format!(
            "encryption.key_file {} is missing; restore it: the next start creates another key, which cannot decrypt the \
             existing secrets",
            path.display()
        ))),
        (true, _) => {
            let vault = Vault::open(Some(&path), &Secret::new(""))?;
            let key = vault.key_id().unwrap_or_default();
            // Both keys are in the file until the rotation's last step.
            let rotating = if vault.is_rotating() {
                ", its rotation is not complete: run conclave key-rotate"
            } else {
                ""
            };
            Ok(Verdict::Ok(format!(
                "key {key}, {}{rotating}",
                path.display()
            )))
        }
    }
}

/// Checks the media credentials and, for LiveKit, the server. The embedded media plane is part of the process.
fn check_media(config: &Config, data: &Path) -> Result<Verdict, CliError> {
    match (config.media.kind, MediaCredentials::load(config, data)?) {
        (MediaKind::Embedded, _) if config.media.rtc.enabled => check_rtc(config),
        (MediaKind::Embedded, _) => Ok(Verdict::Ok("embedded, without WebRTC".into())),
        (MediaKind::Livekit, None) => Err(CliError::failed(
            "media.api_key and media.api_secret are not set",
        )),
        (MediaKind::Livekit, Some(credentials)) => check_livekit(config, data, credentials),
    }
}

/// Checks that the certificate and its key can be used, and its remaining validity.
fn check_tls(files: CertificateFiles) -> Result<Verdict, CliError> {
    // Loading also checks that the key belongs to the certificate.
    let certificate = files.load()?;
    let (now, summary) = (Clock::system().now(), certificate.summary());
    Ok(
        match (
            certificate.not_after <= now,
            certificate.not_after <= now.after(RENEWAL_DUE),
        ) {
            (true, _) => Verdict::Failure(format!("the certificate has expired: {summary}")),
            (_, true) => Verdict::Warning(format!("the certificate expires soon: {summary}")),
            _ => Verdict::Ok(summary),
        },
    )
}

/// Checks the file of `tls.acme_root`, and the certificate from the CA. An unusable certificate is not a failure, since a server replaces
/// it. Does not contact the CA.
fn check_acme(config: &AcmeConfig, data: &Path) -> Result<Verdict, CliError> {
    AcmeHttp::new(config)?;
    Ok(match Storage::new(data, config).certificate() {
        Ok(None) => Verdict::Ok(format!(
            "none yet; a server obtains one for {} from {}",
            config.domain, config.directory
        )),
        // The server's own rule, so a certificate is not reported before its renewal is due.
        Ok(Some(certificate)) if Validity::from(&certificate).renewal() > Clock::system().now() => {
            Verdict::Ok(certificate.summary())
        }
        Ok(Some(certificate)) => Verdict::Warning(format!(
            "the certificate is due for renewal: {}",
            certificate.summary()
        )),
        Err(error) => Verdict::Warning(format!(
            "the certificate cannot be used; a server obtains another one: {error}"
        )),
    })
}

/// Checks the files of `webhooks.root_certs`, `egress.root_certs` and `SSL_CERT_FILE`, if there are any.
fn check_roots(config: &Config) -> Option<Verdict> {
    let settings = [&config.webhooks.root_certs, &config.egress.root_certs];
    if let Err(error) = roots::for_webhooks(config).and(roots::for_storage(config)) {
        return Some(Verdict::Failure(error.to_string()));
    }
    match environment() {
        Err(problem) => Some(Verdict::Warning(format!(
            "{VARIABLE} is ignored: {problem}"
        ))),
        // Private authorities are rare; without one, there is no line.
        Ok(found) if found.is_empty() && settings.iter().all(|file| file.is_none()) => None,
        Ok(_) => Some(Verdict::Ok(
            "private authorities are trusted beside the public ones".into(),
        )),
    }
}

/// Reports the ffmpeg for recordings, and checks the file of `egress.rtmps_root`.
fn check_egress(config: &EgressConfig) -> Verdict {
    // Creating the connector reads the root certificates.
    if let Err(error) = dialler(config) {
        return Verdict::Failure(error.to_string());
    }
    match Ffmpeg::detect(&config.ffmpeg) {
        Ok(ffmpeg) => Verdict::Ok(ffmpeg.to_string()),
        Err(error) => Verdict::Warning(format!("recording is not possible: {error}")),
    }
}

/// Reports the media addresses for clients, and checks the socket buffers.
fn check_rtc(config: &Config) -> Result<Verdict, CliError> {
    let settings = &config.media.rtc;
    // Binds free ports for a moment: only that shows whether a configured address exists.
    let addresses: Vec<_> = client_addresses(settings)?
        .iter()
        .map(ToString::to_string)
        .collect();
    let own = config.has_turn_server().then(|| {
        format!(
            "this server's TURN server, at the port of {} and UDP {}",
            config.http.listen, settings.turn.udp_port
        )
    });
    let relays: Vec<_> = own
        .into_iter()
        .chain(settings.turn.urls.iter().cloned())
        .collect();
    let relayed = if relays.is_empty() {
        String::new()
    } else {
        format!(", or by {}", relays.join(", "))
    };
    let summary = format!(
        "embedded; clients send media to {}{relayed}",
        addresses.join(", ")
    );
    // Warnings only: media flows, but packets may be lost under load.
    let problems: Vec<_> = buffer_problem()
        .into_iter()
        .chain(workers_problem(settings))
        .collect();
    Ok(if problems.is_empty() {
        Verdict::Ok(summary)
    } else {
        Verdict::Warning(format!("{summary}; {}", problems.join("; ")))
    })
}

/// Checks that LiveKit responds, accepts the credentials and is configured for Conclave.
fn check_livekit(
    config: &Config,
    data: &Path,
    credentials: MediaCredentials,
) -> Result<Verdict, CliError> {
    let signer = Arc::new(TokenSigner::new(
        credentials.api_key,
        &credentials.api_secret,
    ));
    // A plane without rooms reports nothing, so the inlet is never connected.
    let sink = Arc::new(ReportInlet::default());
    let plane = LivekitPlane::new(
        livekit_settings(config, data, LeaseCheck::not_needed()),
        signer,
        Clock::system(),
        sink,
    );
    let check = run_in_system(async { Ok(plane.check_config().await?) })?;
    if check.problems.iter().any(|mismatch| mismatch.is_fatal) {
        return Err(CliError::failed(check.to_string()));
    }
    Ok(
        match (check.problems.is_empty(), check.unknown.is_empty()) {
            (true, true) => Verdict::Ok(
                "livekit responds, with egress and ingress, and its settings match".into(),
            ),
            (true, false) => Verdict::Ok(format!(
                "livekit responds, with egress and ingress; {check}"
            )),
            (false, _) => Verdict::Warning(format!("livekit responds; {check}")),
        },
    )
}
