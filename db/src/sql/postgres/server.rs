//! Address of the database server, and the settings of its connections.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::Secret;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Time limit for a connection to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for which sent data may stay unacknowledged by the other host's kernel.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(3);
/// TCP keepalive: idle time before the first probe, probe interval, and failed probes before the connection is closed.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 3);

/// PostgreSQL database.
#[derive(Clone)]
pub struct PostgresServer {
    pub(super) config: Arc<Config>,
    /// `None` if connections are not encrypted.
    pub(super) tls: Option<MakeRustlsConnect>,
}

/// Reason why these settings cannot be used for a connection. Contains nothing of the URL, which has a password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresSettingsError {
    /// The URL is invalid.
    #[error("{0}")]
    Url(String),
    /// The file with root certificates cannot be read.
    #[error("{0}")]
    RootCert(String),
}

impl PostgresServer {
    /// Parses a URL such as `postgres://user:password@host1,host2:5432/database`. If there are several hosts, the primary is used.
    /// TLS is required unless all hosts are this machine or the URL has `sslmode=disable`; the server's certificate is checked against
    /// `root_cert`, or against public authorities.
    ///
    /// # Errors
    /// If the URL or the file is invalid.
    pub fn new(url: &Secret, root_cert: Option<&Path>) -> Result<Self, PostgresSettingsError> {
        let mut config = parse(url.reveal())?;
        let is_local = config.get_hosts().iter().all(is_this_machine);
        // `prefer`, libpq's default, would fall back to plain text, which an attacker can force.
        let mode = match config.get_ssl_mode() {
            SslMode::Disable => SslMode::Disable,
            SslMode::Prefer if is_local => SslMode::Disable,
            _ => SslMode::Require,
        };
        config
            .ssl_mode(mode)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(TCP_USER_TIMEOUT);
        // Without these, a session whose peer vanished would wait for minutes.
        let (idle, interval, retries) = KEEPALIVE;
        config
            .keepalives(true)
            .keepalives_idle(idle)
            .keepalives_interval(interval)
            .keepalives_retries(retries);
        // After a failover, a standby may still accept connections.
        if config.get_hosts().len() > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("conclave");
        }
        let tls = (mode == SslMode::Require)
            .then(|| client_tls(root_cert))
            .transpose()?;
        Ok(Self {
            config: Arc::new(config),
            tls,
        })
    }

    /// Returns hosts and database for messages: the URL without user and password.
    #[must_use]
    pub fn location(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| {
            ports
                .get(at)
                .or_else(|| ports.first())
                .copied()
                .unwrap_or(5432)
        };
        let host = |(at, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(at)),
            Host::Unix(path) => path.display().to_string(),
        };
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(host)
            .collect();
        // As in libpq, the database defaults to the user's name.
        let database = self
            .config
            .get_dbname()
            .or_else(|| self.config.get_user())
            .unwrap_or_default();
        format!("postgres://{}/{database}", hosts.join(","))
    }

    /// Returns whether connections are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the time limit for a connection: all hosts in turn.
    pub(super) fn connect_limit(&self) -> Duration {
        // The library has a limit per host. Half a limit more, so that its error comes first, which names the cause.
        CONNECT_TIMEOUT
            * u32::try_from(self.config.get_hosts().len())
                .unwrap_or(1)
                .max(1)
            + CONNECT_TIMEOUT / 2
    }
}

impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresServer")
            .field(&self.location())
            .finish()
    }
}

fn parse(url: &str) -> Result<Config, PostgresSettingsError> {
    let form = "must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, with characters such as @ / ? # of a password as %40 %2F %3F %23";
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(PostgresSettingsError::Url(form.into()));
    }
    // Certificates are always checked, as in these modes of libpq, which the library does not know.
    // The library rejects modes that it does not know.
    let url = url
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require");
    let config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let cause = std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default();
        // The name of an unknown parameter may be part of the password, if that contains a `?`.
        let named = cause.starts_with("invalid value for option");
        PostgresSettingsError::Url(if named {
            format!("{form}; {cause}")
        } else {
            form.into()
        })
    })?;
    if config.get_hosts().is_empty() {
        return Err(PostgresSettingsError::Url(format!(
            "{form}; it names no host"
        )));
    }
    Ok(config)
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn client_tls(root_cert: Option<&Path>) -> Result<MakeRustlsConnect, PostgresSettingsError> {
    let mut roots = RootCertStore::empty();
    match root_cert {
        Some(path) => {
            let failed = |reason: String| {
                PostgresSettingsError::RootCert(format!("{}: {reason}", path.display()))
            };
            let found =
                CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|error| failed(error.to_string()))?;
            }
            // Otherwise every connection would fail with a certificate error, far from its cause.
            if roots.is_empty() {
                return Err(failed("holds no certificate".into()));
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresSettingsError::RootCert(error.to_string()))?;
    Ok(MakeRustlsConnect::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Result<PostgresServer, PostgresSettingsError> {
        PostgresServer::new(&Secret::new(url), None)
    }

    #[test]
    fn connections_to_other_machines_are_encrypted_unless_the_url_says_otherwise() {
        for (url, is_encrypted) in [
            ("postgres://u:p@localhost/d", false),
            ("postgres://u:p@127.0.0.1:6000/d", false),
            ("postgres://u@%2Fvar%2Frun%2Fpostgresql/d", false),
            ("postgres://u:p@localhost/d?sslmode=require", true),
            ("postgres://u:p@db.example.org/d", true),
            ("postgres://u:p@db.example.org/d?sslmode=prefer", true),
            ("postgres://u:p@db.example.org/d?sslmode=verify-full", true),
            ("postgres://u:p@localhost,db.example.org/d", true),
            ("postgres://u:p@db.example.org/d?sslmode=disable", false),
        ] {
            assert_eq!(server(url).unwrap().is_encrypted(), is_encrypted, "{url}");
        }
    }

    #[test]
    fn of_several_hosts_the_one_that_accepts_writes_is_used() {
        let several = server("postgres://u:p@a,b:6000/d?sslmode=disable").unwrap();
        assert_eq!(
            several.config.get_target_session_attrs(),
            TargetSessionAttrs::ReadWrite
        );
        assert_eq!(several.connect_limit(), Duration::from_secs(5));
    }

    #[test]
    fn neither_a_message_nor_a_log_line_has_the_password() {
        let shown = format!(
            "{:?}",
            server("postgres://user:hunter2@a:7000,b:7001/records?sslmode=disable").unwrap()
        );
        assert_eq!(
            shown,
            r#"PostgresServer("postgres://a:7000,b:7001/records")"#
        );
        for url in [
            "postgres://u:p@h:hunter2/d",
            "hunter2",
            "postgres://u@h/d?hunter2=1",
            "postgres:///d",
        ] {
            let refusal = server(url).unwrap_err().to_string();
            assert!(
                refusal.contains("postgres://USER:PASSWORD@HOST"),
                "{refusal}"
            );
            assert!(!refusal.contains("hunter2"), "{refusal}");
        }
        let refusal = server("postgres://u:hunter2@h/d?sslmode=maybe")
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("sslmode") && !refusal.contains("hunter2"),
            "{refusal}"
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = PostgresServer::new(
            &Secret::new("postgres://u:p@db.example.org/d"),
            Some(file.path()),
        );
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("holds no certificate")
        );
    }
}
