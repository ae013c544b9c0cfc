//! One attempt to obtain a certificate: account, order, challenge, certificate (RFC 8555).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use conclave_model::{Secret, Timestamp};
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, ChallengeHandle, ChallengeType, Error,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use super::http::AcmeHttp;
use super::schedule::{ChallengeKind, Failure, Schedule};
use super::storage::{Issued, Storage, StoredAccount, StoredFailures};
use crate::config::AcmeConfig;
use crate::tls::challenge::{AnswerGuard, ChallengeAnswer, Challenges};

/// Intervals at which the CA is polled for a verified challenge or an issued certificate.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));
/// The CA does not know the account, or has removed it.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Dependencies of an attempt.
pub(super) struct Client {
    pub config: AcmeConfig,
    pub http: AcmeHttp,
    pub storage: Storage,
    pub challenges: Challenges,
}

/// Failure of an attempt. Some messages quote the CA.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    /// The CA rejected a request, or cannot be reached.
    #[error("{}", describe(.0))]
    Acme(#[from] Error),
    /// A file cannot be used.
    #[error("{0}")]
    Storage(#[from] io::Error),
    /// The certificate for a challenge cannot be created.
    #[error("the challenge's certificate cannot be created: {0}")]
    ChallengeCertificate(String),
    /// The CA offers no challenge that the server can answer.
    #[error("the CA offers only challenges that the server cannot answer: {0}")]
    NoChallenge(String),
    /// The CA has not verified the domain.
    #[error("the CA did not verify the domain by {challenge}: {reason}")]
    NotVerified {
        challenge: &'static str,
        reason: String,
        has_other: bool,
    },
    /// The attempt took too long.
    #[error("the CA did not issue a certificate within {0:?}")]
    TimedOut(Duration),
    /// The CA has issued a certificate that is due for renewal already.
    #[error(
        "the issued certificate expires at {0}, so it is due for renewal already: a clock is wrong"
    )]
    NotFresh(Timestamp),
    /// The CA has issued something else.
    #[error("the issued certificate cannot be used: {0}")]
    Unusable(String),
}

/// Challenge of an attempt.
struct ChosenChallenge {
    kind: ChallengeType,
    name: &'static str,
    /// Whether the CA can verify the domain by another challenge.
    has_other: bool,
}

impl OrderError {
    /// Returns the failure's kind for the schedule.
    pub const fn failure(&self) -> Failure {
        match self {
            Self::NotVerified {
                has_other: true, ..
            } => Failure::OneChallenge,
            _ => Failure::Other,
        }
    }
}

impl Client {
    /// Obtains a certificate.
    pub async fn obtain(&self, schedule: &Schedule) -> Result<Issued, OrderError> {
        let account = self.account().await?;
        let identifiers = [Identifier::Dns(self.config.domain.clone())];
        let mut order = match account.new_order(&NewOrder::new(&identifiers)).await {
            // For example after a test CA was reset. The next attempt registers a new account.
            Err(error) if is_unknown_account(&error) => {
                self.on_disk(Storage::remove_account).await?;
                return Err(error.into());
            }
            order => order?,
        };
        self.verify(&mut order, schedule).await?;
        // The library creates a new key for each certificate.
        let key = Secret::new(order.finalize().await?);
        let chain = order.poll_certificate(&POLLING).await?;
        Ok(Issued { chain, key })
    }

    /// Writes a certificate to the data directory.
    pub async fn store(&self, issued: Issued) -> io::Result<()> {
        self.on_disk(move |storage| storage.store_certificate(&issued))
            .await
    }

    /// Writes the failed attempts to the data directory, or removes them.
    pub async fn store_failures(&self, failures: Option<StoredFailures>) -> io::Result<()> {
        self.on_disk(move |storage| storage.store_failures(failures))
            .await
    }

    /// Returns the account in the data directory, or registers one.
    async fn account(&self) -> Result<Account, OrderError> {
        let contact = self.config.contact.clone();
        let urls: Vec<_> = contact
            .iter()
            .map(|address| format!("mailto:{address}"))
            .collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let Some(stored) = self.on_disk(Storage::account).await? else {
            let new = NewAccount {
                contact: &urls,
                // The operator agrees by setting `tls.domain`, as the setting's text states.
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let (account, credentials) = builder
                .create(&new, self.config.directory.clone(), None)
                .await?;
            // If this fails, the account is lost at the CA. The next attempt registers another one; CAs limit registrations per address.
            self.on_disk(move |storage| {
                storage.store_account(&StoredAccount {
                    contact,
                    credentials,
                })
            })
            .await?;
            return Ok(account);
        };
        let account = builder.from_credentials(stored.credentials).await?;
        // The contact may have changed in the settings since the registration.
        if stored.contact != contact {
            account.update_contacts(&urls).await?;
            self.on_disk(move |storage| storage.store_contact(contact))
                .await?;
        }
        Ok(account)
    }

    /// Has the CA verify that this server controls the domain.
    async fn verify(&self, order: &mut Order, schedule: &Schedule) -> Result<(), OrderError> {
        let Some((chosen, guard)) = self.answer(order, schedule).await? else {
            return Ok(());
        };
        let status = order.poll_ready(&POLLING).await;
        // The CA may request the challenge several times, from several networks, until it has decided.
        drop(guard);
        let reason = match status {
            Ok(OrderStatus::Ready) => return Ok(()),
            Ok(_) => refusal(order).await?,
            Err(error) => describe(&error),
        };
        Err(OrderError::NotVerified {
            challenge: chosen.name,
            reason,
            has_other: chosen.has_other,
        })
    }

    /// Prepares the answer to one of the order's challenges, and starts its validation. `None` if the CA has verified the domain already.
    async fn answer(
        &self,
        order: &mut Order,
        schedule: &Schedule,
    ) -> Result<Option<(ChosenChallenge, AnswerGuard)>, OrderError> {
        let mut authorizations = order.authorizations();
        // There is one authorization, since the order has one name.
        let Some(authorization) = authorizations.next().await else {
            return Ok(None);
        };
        let mut authorization = authorization?;
        // CAs reuse a recent validation for the account's next orders.
        if authorization.status == AuthorizationStatus::Valid {
            return Ok(None);
        }
        let chosen = self.choose(&authorization, schedule)?;
        let Some(mut challenge) = authorization.challenge(chosen.kind.clone()) else {
            return Ok(None);
        };
        let answer = self.make_answer(&challenge)?;
        let guard = self.challenges.answer(answer);
        // After the answer is in place: the CA may validate at once.
        challenge.set_ready().await?;
        Ok(Some((chosen, guard)))
    }

    fn choose(
        &self,
        authorization: &AuthorizationHandle<'_>,
        schedule: &Schedule,
    ) -> Result<ChosenChallenge, OrderError> {
        let offers = |kind| {
            authorization
                .challenges
                .iter()
                .any(|challenge| challenge.r#type == kind)
        };
        let (tls_alpn, http) = (
            offers(ChallengeType::TlsAlpn01),
            // Only the redirecting listener answers on port 80.
            self.config.has_http && offers(ChallengeType::Http01),
        );
        let chosen = |kind, name| {
            Ok(ChosenChallenge {
                kind,
                name,
                has_other: tls_alpn && http,
            })
        };
        match schedule.challenge(tls_alpn, http) {
            Some(ChallengeKind::TlsAlpn) => chosen(ChallengeType::TlsAlpn01, "tls-alpn-01"),
            Some(ChallengeKind::Http) => chosen(ChallengeType::Http01, "http-01"),
            None => {
                let offered = authorization
                    .challenges
                    .iter()
                    .map(|challenge| format!("{:?}", challenge.r#type));
                Err(OrderError::NoChallenge(
                    offered.collect::<Vec<_>>().join(", "),
                ))
            }
        }
    }

    fn make_answer(&self, challenge: &ChallengeHandle<'_>) -> Result<ChallengeAnswer, OrderError> {
        let authorization = challenge.key_authorization();
        if challenge.r#type == ChallengeType::Http01 {
            return Ok(ChallengeAnswer::Http {
                token: challenge.token.clone(),
                text: authorization.as_str().to_owned(),
            });
        }
        let domain = self.config.domain.clone();
        let certificate = challenge_certificate(&domain, authorization.digest().as_ref());
        Ok(ChallengeAnswer::TlsAlpn {
            domain,
            certificate: Arc::new(certificate.map_err(OrderError::ChallengeCertificate)?),
        })
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Storage) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let storage = self.storage.clone();
        let done = tokio::task::spawn_blocking(move || task(&storage)).await;
        done.unwrap_or_else(|_| Err(io::Error::other("the task was cancelled")))
    }
}

fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(NO_ACCOUNT))
}

/// Returns the CA's reason for rejecting a challenge.
async fn refusal(order: &mut Order) -> Result<String, Error> {
    let mut authorizations = order.authorizations();
    let Some(authorization) = authorizations.next().await else {
        return Ok(String::new());
    };
    let mut authorization = authorization?;
    let state = authorization.refresh().await?;
    let error = state
        .challenges
        .iter()
        .find_map(|challenge| challenge.error.as_ref());
    Ok(error.map_or_else(|| "it gave no reason".to_owned(), words))
}

fn describe(error: &Error) -> String {
    match error {
        Error::Api(problem) => format!("the CA's error: {}", words(problem)),
        other => other.to_string(),
    }
}

/// Returns the CA's error without the library's prefix.
fn words(problem: &Problem) -> String {
    problem
        .to_string()
        .trim_start_matches("API error: ")
        .to_owned()
}

/// Creates the self-signed certificate with the challenge's digest, by which the CA verifies the domain (RFC 8737).
fn challenge_certificate(domain: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let make = || -> Result<_, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([domain.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::try_from(key.serialize_der())?;
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}
