//! Task that obtains certificates at the times that the schedule sets.

use std::fmt;
use std::time::Duration;

use conclave_model::{Clock, Timestamp};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::AcmeHttp;
use super::order::{Client, OrderError};
use super::schedule::{Failure, Schedule, Validity};
use super::storage::{Issued, Storage, StoredFailures};
use crate::config::{AcmeConfig, ConfigError};
use crate::tls::challenge::Challenges;
use crate::tls::{Certificate, Certificates};

/// Time limit for an attempt. Most of it is spent waiting for the CA.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Error that the next start reads if the server stopped during an attempt.
const UNFINISHED: &str = "the server ended during the attempt";
/// Maximum length of a stored error, since some errors quote the CA.
const MAX_ERROR: usize = 300;

/// State of the renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalStatus {
    /// Host name in the certificates.
    pub domain: String,
    /// Time of the next attempt.
    pub next: Timestamp,
    /// Last attempt's error; `None` if it succeeded.
    pub error: Option<String>,
}

/// Obtains and renews a domain's certificate.
pub struct Renewal {
    client: Client,
    clock: Clock,
    certificates: Certificates,
    schedule: Schedule,
    status: watch::Sender<RenewalStatus>,
}

impl Renewal {
    /// Prepares the renewal of certificates, starting with the stored one. An unusable stored certificate counts as missing. Failed
    /// attempts before this start count.
    ///
    /// # Errors
    /// If the file of `tls.acme_root` cannot be used.
    pub fn new(
        config: AcmeConfig,
        storage: Storage,
        clock: Clock,
        challenges: Challenges,
    ) -> Result<(Self, Certificates), ConfigError> {
        let http = AcmeHttp::new(&config)?;
        // Not an error of the start: the CA can issue another certificate.
        let stored = storage.certificate().unwrap_or_else(|error| {
            log::warn!(
                "the stored certificate cannot be used and is replaced by a new one: {error}"
            );
            None
        });
        let failed = failures_before(&config, &storage);
        let validity = stored.as_ref().map(Validity::from);
        let schedule = Schedule::resume(
            clock.now(),
            validity,
            failed.as_ref().map(|failed| failed.failures),
        );
        // A certificate that was issued after the failures makes them irrelevant.
        let error = failed
            .filter(|_| schedule.failures().is_some())
            .map(|failed| failed.error);
        if let Some(error) = &error {
            let (domain, next, file) = (
                config.domain.as_str(),
                schedule.next(),
                storage.failures_path(),
            );
            let file = file.display();
            log::warn!(domain, next:%; "the last attempt to obtain a certificate failed; remove {file} to repeat it at the next start: {error}");
        }
        let status = RenewalStatus {
            domain: config.domain.clone(),
            next: schedule.next(),
            error,
        };
        let certificates = Certificates::new(stored);
        let client = Client {
            config,
            http,
            storage,
            challenges,
        };
        let status = watch::Sender::new(status);
        Ok((
            Self {
                client,
                clock,
                certificates: certificates.clone(),
                schedule,
                status,
            },
            certificates,
        ))
    }

    /// Subscribes to the state.
    pub fn status(&self) -> watch::Receiver<RenewalStatus> {
        self.status.subscribe()
    }

    /// Spawns the task on the current runtime. It runs until that runtime ends.
    pub fn spawn(mut self) {
        tokio::spawn(async move {
            loop {
                self.clock.sleep_until(self.schedule.next()).await;
                self.record_start().await;
                let error = self
                    .attempt()
                    .await
                    .err()
                    .map(|error| self.record_failure(&error));
                self.store_failures(&self.schedule, error.as_deref()).await;
                let next = self.schedule.next();
                self.status
                    .send_modify(|status| (status.next, status.error) = (next, error));
            }
        });
    }

    /// Stores the starting attempt as a failed one, as which it counts if the process dies during it. Otherwise a crash loop would exceed
    /// the CA's limits.
    async fn record_start(&self) {
        let mut unfinished = self.schedule.clone();
        unfinished.failed(self.clock.now(), Failure::Other, fastrand::f64());
        self.store_failures(&unfinished, Some(UNFINISHED)).await;
    }

    /// Stores a schedule's failures for the next start.
    async fn store_failures(&self, schedule: &Schedule, error: Option<&str>) {
        let failures = schedule.failures().zip(error);
        let stored = failures.map(|(failures, error)| StoredFailures {
            failures,
            error: error.to_owned(),
        });
        if let Err(error) = self.client.store_failures(stored).await {
            log::error!(
                "failed attempts cannot be stored, so the next start contacts the CA at once: {error}"
            );
        }
    }

    async fn attempt(&mut self) -> Result<(), OrderError> {
        // Each request has a time limit, but a CA could prolong an order with many of them.
        let obtained = timeout(ATTEMPT_TIMEOUT, self.client.obtain(&self.schedule)).await;
        let issued = obtained.unwrap_or_else(|_| Err(OrderError::TimedOut(ATTEMPT_TIMEOUT)))?;
        let certificate = self.usable(&issued)?;
        let validity = Validity::from(&certificate);
        log::info!(domain = self.client.config.domain.as_str(), expires:% = validity.not_after; "a certificate was obtained");
        // A certificate that cannot be stored is used anyway: storing another one would fail, too, and the CA issues only a few per week.
        if let Err(error) = self.client.store(issued).await {
            log::error!(
                "the certificate cannot be stored, so the next start obtains another one: {error}"
            );
        }
        // Before the schedule decides: even a certificate that is due for renewal is better than none.
        self.certificates.replace(certificate);
        let is_fresh = self.schedule.obtained(self.clock.now(), validity);
        if is_fresh {
            Ok(())
        } else {
            Err(OrderError::NotFresh(validity.not_after))
        }
    }

    fn usable(&self, issued: &Issued) -> Result<Certificate, OrderError> {
        let certificate =
            Certificate::from_pem(issued.chain.as_bytes(), issued.key.reveal().as_bytes());
        let certificate = certificate.map_err(|error| OrderError::Unusable(error.to_string()))?;
        let domain = &self.client.config.domain;
        // A misconfigured CA or proxy could return another certificate, with which every client would fail.
        if certificate
            .names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(domain))
        {
            Ok(certificate)
        } else {
            Err(OrderError::Unusable(format!(
                "it is for {}",
                certificate.names.join(", ")
            )))
        }
    }

    /// Logs a failure and returns its description.
    fn record_failure(&mut self, error: &OrderError) -> String {
        self.schedule
            .failed(self.clock.now(), error.failure(), fastrand::f64());
        let error = one_line(&error.to_string());
        let (domain, next) = (self.client.config.domain.as_str(), self.schedule.next());
        match self.certificates.current() {
            Some(present) => {
                let day = day(present.not_after);
                log::warn!(domain, next:%; "the certificate was not renewed, and the current one expires on {day}: {error}");
            }
            None => {
                log::warn!(domain, next:%; "no certificate was obtained, so TLS clients are refused: {error}");
            }
        }
        error
    }
}

/// Reads the failed attempts before this start. An unusable file counts as missing.
fn failures_before(config: &AcmeConfig, storage: &Storage) -> Option<StoredFailures> {
    storage.failures().unwrap_or_else(|error| {
        log::warn!(domain = config.domain.as_str(); "earlier failed attempts do not count: {error}");
        None
    })
}

/// Returns the date of a time, in UTC.
fn day(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('T')
        .map(|(day, _)| day.to_owned())
        .unwrap_or(text)
}

/// Shortens a text that may quote the CA, and removes characters that would start a new log line.
fn one_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(MAX_ERROR).collect()
}

impl fmt::Display for RenewalStatus {
    /// Writes the time of the next attempt, and the last one's error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "next attempt at {}", self.next)?;
        self.error.as_ref().map_or(Ok(()), |error| {
            write!(f, ", since the last one failed: {error}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-85.
    #[test]
    fn what_a_ca_says_is_one_short_line() {
        assert_eq!(
            one_line("no\r\nWARN forged\u{1b}[31m"),
            "no  WARN forged [31m"
        );
        assert_eq!(one_line(&"é".repeat(1_000)).chars().count(), MAX_ERROR);
    }
}
