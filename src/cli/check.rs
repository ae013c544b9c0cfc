//! `conclave check`: is everything there that a server needs? One line each, and nothing is made that is not there yet.

use std::path::Path;
use std::sync::Arc;

use conclave_db::{Store, StoreError, StoreOptions, Vault};
use conclave_media::livekit::LivekitPlane;
use conclave_media::token::TokenSigner;
use conclave_model::{Clock, Secret};

use super::open::{database_path, run_blocking, uncounted};
use super::output::print;
use super::{CliError, table};
use crate::config::{Config, ConfigError, MediaCredentials, MediaKind, Plans};
use crate::server::livekit_settings;

/// The verdict on one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What was looked at.
    pub part: &'static str,
    /// How it stands, or else what is wrong with it.
    pub verdict: Result<Standing, String>,
}

/// How a part stands that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// As it should.
    Fine(String),
    /// Something that it is there for does not work.
    Lacking(String),
}

impl From<String> for Standing {
    fn from(detail: String) -> Self {
        Self::Fine(detail)
    }
}

impl From<&str> for Standing {
    fn from(detail: &str) -> Self {
        Self::Fine(detail.to_owned())
    }
}

/// Looks at every part. A configuration that does not hold is the one line there is, since the rest would be guesses.
///
/// # Errors
/// The configuration's, or that a part has failed.
pub fn run(config: Result<Config, ConfigError>, data: &Path) -> Result<(), CliError> {
    let checked = config.and_then(|config| Plans::load(config.plans.file.as_deref()).map(|plans| (config, plans)));
    let (config, plans) = match checked {
        Ok(sound) => sound,
        Err(error) => {
            show(&[Line { part: "configuration", verdict: Err(error.to_string()) }])?;
            return Err(CliError::Config(error));
        }
    };
    let lines = [
        Line {
            part: "configuration",
            verdict: Ok(format!("plans {}", plans.ids().collect::<Vec<_>>().join(", ")).into()),
        },
        database_line(data),
        encryption_line(&config, data),
        media_line(&config, data),
    ];
    show(&lines)?;
    let failed: Vec<_> = lines.iter().filter(|line| line.verdict.is_err()).map(|line| line.part).collect();
    if failed.is_empty() { Ok(()) } else { Err(CliError::failed(format!("check failed: {}", failed.join(", ")))) }
}

fn show(lines: &[Line]) -> Result<(), CliError> {
    let rows: Vec<_> = lines
        .iter()
        .map(|line| {
            let (word, detail) = match &line.verdict {
                Ok(Standing::Fine(detail)) => ("ok", detail),
                Ok(Standing::Lacking(problem)) => ("WARN", problem),
                Err(problem) => ("FAIL", problem),
            };
            vec![word.to_owned(), line.part.to_owned(), detail.replace('\n', " ")]
        })
        .collect();
    print(&table::rows(&rows))
}

/// Reads the whole database for damage.
fn database_line(data: &Path) -> Line {
    let path = database_path(data);
    if !path.exists() {
        return Line {
            part: "database",
            verdict: Ok(format!("none yet, the first start makes {}", path.display()).into()),
        };
    }
    let checked = run_blocking(async { checked(&path).await.map_err(|e| CliError::of_store(&e)) });
    let verdict =
        checked.map(|schema| format!("schema {schema}, {}", path.display()).into()).map_err(|e| e.to_string());
    Line { part: "database", verdict }
}

async fn checked(path: &Path) -> Result<i64, StoreError> {
    // Nothing sealed is opened, so that a lost key does not hide how the database stands.
    let vault = Vault::open(None, &Secret::new("")).map_err(|error| StoreError::Fault(error.to_string()))?;
    let options = StoreOptions {
        path: path.to_owned(),
        clock: Clock::system(),
        vault,
        on_commit: Box::new(|_| {}),
        readers: 1,
        metrics: uncounted().map_err(|error| StoreError::Fault(error.to_string()))?,
    };
    let store = Store::open(options)?;
    let schema = store.check().await;
    store.close();
    schema
}

/// Whether the key that seals destinations is there and private.
fn encryption_line(config: &Config, data: &Path) -> Line {
    Line { part: "encryption", verdict: encryption(config, data).map(Standing::from) }
}

fn encryption(config: &Config, data: &Path) -> Result<String, String> {
    let Some(path) = config.encryption.key_path(data) else {
        return Ok("no key (encryption.key_file is empty): destinations cannot be stored".into());
    };
    match (path.exists(), database_path(data).exists()) {
        (false, false) => Ok(format!("none yet, the first start makes {}", path.display())),
        (false, true) => Err(format!(
            "encryption.key_file {} is missing; restore it: the next start makes another, which opens nothing",
            path.display()
        )),
        (true, _) => {
            let vault = Vault::open(Some(&path), &Secret::new("")).map_err(|error| error.to_string())?;
            let key = vault.key_id().unwrap_or_default();
            let rotating =
                if vault.is_rotating() { ", its rotation has not ended: run conclave key-rotate" } else { "" };
            Ok(format!("key {key}, {}{rotating}", path.display()))
        }
    }
}

/// Whether the media plane can be reached. The embedded one is part of the server; its credentials are looked at.
fn media_line(config: &Config, data: &Path) -> Line {
    let verdict = match (config.media.kind, MediaCredentials::load(config, data)) {
        (_, Err(error)) => Err(error.to_string()),
        (MediaKind::Embedded, Ok(_)) => Ok("embedded".into()),
        (MediaKind::Livekit, Ok(None)) => Err("media.api_key and media.api_secret are not set".into()),
        (MediaKind::Livekit, Ok(Some(credentials))) => livekit(config, data, credentials),
    };
    Line { part: "media", verdict }
}

/// Whether LiveKit answers, takes the credentials, and is set as rooms, jobs and ingress endpoints need it.
fn livekit(config: &Config, data: &Path, credentials: MediaCredentials) -> Result<Standing, String> {
    let signer = Arc::new(TokenSigner::new(credentials.api_key, &credentials.api_secret));
    let plane = LivekitPlane::new(livekit_settings(config, data), signer, Clock::system());
    let asked = run_blocking(async { plane.check_config().await.map_err(|error| CliError::failed(error.to_string())) });
    let fit = asked.map_err(|error| error.to_string())?;
    if fit.problems.iter().any(|mismatch| mismatch.is_fatal) {
        return Err(fit.to_string());
    }
    match (fit.problems.is_empty(), fit.unknown.is_empty()) {
        (true, true) => Ok("livekit answers, with egress and ingress, and its settings fit".into()),
        (true, false) => Ok(format!("livekit answers, with egress and ingress; {fit}").into()),
        (false, _) => Ok(Standing::Lacking(format!("livekit answers; {fit}"))),
    }
}
