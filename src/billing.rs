//! The external billing service: whoever keeps the projects' wallets, where `billing.url` says that somebody does.
//!
//! It is asked for one word, `GET {url}/v1/projects/{id}/standing` → `{"standing": "ok"}`, whenever a project starts work.
//! An answer holds for 30 seconds, a failure for one: a service that is dead must not cost each call its timeout, and one
//! that is back should be heard soon. Who asks for a project while it is being asked for waits for that answer.
//!
//! What the word means beside the plan is `model::usage`'s, what a call does without one is `http::standing`'s.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_model::usage::Billed;
use conclave_model::{Clock, ProjectId, Secret};
use serde::Deserialize;
use ureq::Agent;
use url::Url;

/// How long the service may take, from the look-up of its name to the last byte.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer holds.
const ANSWER_HOLDS: Duration = Duration::from_secs(30);
/// How long a failure holds.
const FAILURE_HOLDS: Duration = Duration::from_secs(1);
/// Bytes of an answer's head, and of its body.
const MAX_ANSWER: usize = 16 * 1024;

/// Why there is no word of the service. It names neither the token nor what the service sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// It took too long.
    #[error("the billing service did not answer within {TIMEOUT:?}")]
    TimedOut,
    /// No answer came.
    #[error("the billing service cannot be reached: {0}")]
    Unreachable(&'static str),
    /// It answered with another status than 200; a redirect is one, too.
    #[error("the billing service answered with status {0}")]
    Status(u16),
    /// It answered 200 with something else than a standing that is known.
    #[error("the billing service's answer holds no standing that is known")]
    NotAStanding,
}

/// What was heard of a project, and when by the steady clock.
#[derive(Debug, Clone)]
struct Heard {
    at: Duration,
    word: Result<Billed, Unavailable>,
}

impl Heard {
    fn holds(&self, now: Duration) -> bool {
        let span = if self.word.is_ok() { ANSWER_HOLDS } else { FAILURE_HOLDS };
        now.saturating_sub(self.at) < span
    }
}

/// What was last heard of one project. The lock is held while the service is asked, so that others wait for the answer.
type Last = Arc<tokio::sync::Mutex<Option<Heard>>>;

/// The service.
#[derive(Debug)]
pub struct Billing {
    service: Arc<Service>,
    clock: Clock,
    /// One small entry for each project that has started work.
    projects: Mutex<HashMap<ProjectId, Last>>,
}

impl Billing {
    /// The service at `url`, which is shown `token` as a bearer token.
    #[must_use]
    pub fn new(url: Url, token: Option<Secret>, clock: Clock) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .http_status_as_error(false)
            .proxy(None)
            .user_agent(concat!("Conclave/", env!("CARGO_PKG_VERSION")))
            .max_response_header_size(MAX_ANSWER)
            .max_idle_connections(0)
            .build();
        let service = Arc::new(Service { agent: config.into(), url, token });
        Self { service, clock, projects: Mutex::default() }
    }

    /// What the service says of a project, now or within the last half minute.
    ///
    /// # Errors
    /// The service does not say.
    pub async fn standing(&self, project: &ProjectId) -> Result<Billed, Unavailable> {
        let last = self.last(project);
        let mut last = last.lock().await;
        if let Some(heard) = last.as_ref().filter(|heard| heard.holds(self.clock.monotonic())) {
            return heard.word.clone();
        }
        let word = self.ask(project.clone()).await;
        // Once an outage: the calls that it refuses are logged by the gate, those that it does not are not.
        let was_away = last.as_ref().is_some_and(|heard| heard.word.is_err());
        if let Err(error) = word.as_ref().map_err(ToString::to_string)
            && !was_away
        {
            log::warn!(project = project.as_str(); "{error}; what can be decided without it goes by the ledger");
        }
        *last = Some(Heard { at: self.clock.monotonic(), word: word.clone() });
        word
    }

    fn last(&self, project: &ProjectId) -> Last {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(projects.entry(project.clone()).or_default())
    }

    async fn ask(&self, project: ProjectId) -> Result<Billed, Unavailable> {
        let service = Arc::clone(&self.service);
        let asked = tokio::task::spawn_blocking(move || service.standing(&project)).await;
        asked.unwrap_or(Err(Unavailable::Unreachable("asking it failed")))
    }
}

/// How the service is reached.
#[derive(Debug)]
struct Service {
    agent: Agent,
    url: Url,
    token: Option<Secret>,
}

/// What the service answers. It may say more in later versions.
#[derive(Deserialize)]
struct Answer {
    standing: Billed,
}

impl Service {
    /// Asks. Blocks, for the timeout at most.
    fn standing(&self, project: &ProjectId) -> Result<Billed, Unavailable> {
        let mut request = self.agent.get(self.address(project).as_str()).header("Accept", "application/json");
        // No connection is kept: one that went stale in half a minute would look like an outage.
        request = request.header("Connection", "close");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let mut response = request.call().map_err(|error| no_answer(&error))?;
        if response.status() != 200 {
            return Err(Unavailable::Status(response.status().as_u16()));
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER as u64).read_to_vec();
        let body = body.map_err(|error| no_answer(&error))?;
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| Unavailable::NotAStanding)?;
        Ok(answer.standing)
    }

    fn address(&self, project: &ProjectId) -> Url {
        let mut url = self.url.clone();
        // An http address always has segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "projects", project.as_str(), "standing"]);
        }
        url
    }
}

fn no_answer(error: &ureq::Error) -> Unavailable {
    match error {
        ureq::Error::Timeout(_) => Unavailable::TimedOut,
        ureq::Error::HostNotFound => Unavailable::Unreachable("its name is not known"),
        ureq::Error::Io(_) => Unavailable::Unreachable("the connection failed"),
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::TlsRequired => {
            Unavailable::Unreachable("TLS failed")
        }
        ureq::Error::BodyExceedsLimit(_) => Unavailable::NotAStanding,
        _ => Unavailable::Unreachable("it does not speak HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_goes_below_the_path_that_was_given() {
        let project: ProjectId = "prj_5f2a9c01be34".parse().unwrap();
        let address = |url: &str| {
            let billing = Billing::new(url.parse().unwrap(), None, Clock::system());
            billing.service.address(&project).to_string()
        };
        let path = "v1/projects/prj_5f2a9c01be34/standing";
        assert_eq!(address("https://pay.example.org"), format!("https://pay.example.org/{path}"));
        assert_eq!(address("http://pay.example.org:81/"), format!("http://pay.example.org:81/{path}"));
        assert_eq!(address("https://example.org/pay/"), format!("https://example.org/pay/{path}"));
    }

    #[test]
    fn an_answer_holds_half_a_minute_and_a_failure_a_moment() {
        let heard = |word| Heard { at: Duration::from_secs(100), word };
        let (word, failure) = (heard(Ok(Billed::Suspended)), heard(Err(Unavailable::TimedOut)));
        let at = |millis: u64| Duration::from_millis(100_000 + millis);
        assert_eq!((word.holds(at(29_999)), word.holds(at(30_000))), (true, false));
        assert_eq!((failure.holds(at(999)), failure.holds(at(1_000))), (true, false));
    }

    #[test]
    fn the_token_shows_in_no_debug_text() {
        let token = Some(Secret::new("tell-nobody"));
        let billing = Billing::new("http://127.0.0.1:1".parse().unwrap(), token, Clock::system());
        assert!(!format!("{billing:?}").contains("tell-nobody"));
    }
}
