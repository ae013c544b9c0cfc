//! Access to the admin listener.
//!
//! Operators sign in with the admin token, and programs send it with each request. [`AdminToken`] checks it and limits guesses, for
//! both ways together and per client address: guesses from one address do not lock out another.
//!
//! [`ConsoleAccess`] keeps the operator sessions and issues form tokens (CSRF). Sessions are in memory, so a restart ends them; the
//! admin token changes only with a restart. A cookie has a random id; the server keeps only its hash.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::header::COOKIE;
use conclave_model::{ClientAddress, Clock, ErrorCode, Problem, Secret, Throttle};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::http::frame::origins::requested_authority;
use crate::http::frame::payload::BodyReader;
use crate::http::listener::client_address::TrustedProxies;

/// Session cookie's name.
pub const COOKIE_NAME: &str = "conclave_session";
/// Operator session lifetime.
// Not renewed by use, so a stolen cookie ends within half a day.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum number of operator sessions. The oldest are dropped first.
// Bounds the memory, although only holders of the admin token can start a session.
const MAX_SESSIONS: usize = 1_000;

/// How operators sign in.
#[derive(Clone)]
pub enum Gate {
    /// No sign-in: in `dev`, whose listener is on loopback.
    Open,
    /// With the admin token.
    Token(Arc<AdminToken>),
    /// Never: a production server without an admin token.
    Closed,
}

/// State of a listener with console pages.
pub trait Guarded {
    /// Returns the access rules.
    fn console(&self) -> &ConsoleAccess;
    /// Returns the reader for submitted forms.
    fn forms(&self) -> &BodyReader;
}

/// Operator sessions in the console.
pub struct ConsoleAccess {
    gate: Gate,
    clock: Clock,
    proxies: TrustedProxies,
    /// Key for form tokens, new at each start.
    key: [u8; 32],
    /// Ends of sessions on the monotonic clock, by the hash of the cookie's value.
    sessions: Mutex<HashMap<[u8; 32], Duration>>,
}

/// Operator with access to the console.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Token in each form of this session.
    pub csrf: String,
    /// Whether there is a session to sign out from.
    pub has_session: bool,
}

impl ConsoleAccess {
    /// Creates the access rules, without sessions.
    ///
    /// # Errors
    /// If the operating system provides no random numbers.
    pub fn new(
        gate: Gate,
        clock: Clock,
        proxies: TrustedProxies,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self {
            gate,
            clock,
            proxies,
            // In memory only: forms from before a restart are refused, like their sessions.
            key: random()?,
            sessions: Mutex::default(),
        })
    }

    /// Returns how operators sign in.
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the operator that sent a request; `None` if a sign-in is needed.
    pub fn operator(&self, request: &HttpRequest) -> Option<Operator> {
        match &self.gate {
            Gate::Closed => None,
            // One token for all, because without sign-in there is no session to bind it to.
            Gate::Open => Some(Operator {
                csrf: self.form_token(b"open"),
                has_session: false,
            }),
            Gate::Token(_) => {
                let value = cookie(request)?;
                // Looked up by hash: a comparison's timing reveals nothing about the value itself.
                let ends = self.sessions.lock().get(&hash(&value)).copied()?;
                let is_open = ends > self.clock.monotonic();
                is_open.then(|| Operator {
                    csrf: self.form_token(value.as_bytes()),
                    has_session: true,
                })
            }
        }
    }

    /// Returns the token for the sign-in form.
    pub fn sign_in_token(&self) -> String {
        self.form_token(b"sign-in")
    }

    /// Starts a session and returns the value for its cookie.
    ///
    /// # Errors
    /// 401 for a wrong token, 429 after five wrong tokens within a minute from this address.
    pub fn sign_in(&self, request: &HttpRequest, token: &str) -> Result<String, Problem> {
        let Gate::Token(expected) = &self.gate else {
            return Err(Problem::new(
                ErrorCode::NotFound,
                "there is nothing to sign in to",
            ));
        };
        // Trimmed, because a token copied from a terminal or a file often ends with a line break.
        expected.check(request, token.trim())?;
        // 32 random bytes, so the id cannot be guessed and needs no rate of its own.
        let value = hex(&random().map_err(|_| Problem::internal())?);
        let now = self.clock.monotonic();
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, ends| *ends > now);
        // After expired ones, so that a current session goes only if all are current.
        drop_oldest(&mut sessions);
        sessions.insert(hash(&value), now + SESSION_LIFE);
        Ok(value)
    }

    /// Ends a request's session.
    pub fn sign_out(&self, request: &HttpRequest) {
        if let Some(value) = cookie(request) {
            self.sessions.lock().remove(&hash(&value));
        }
    }

    /// Returns whether the browser sent the request over TLS, either here or at a trusted proxy.
    pub fn is_secure(&self, request: &HttpRequest) -> bool {
        let scheme = request
            .headers()
            .get("x-forwarded-proto")
            .and_then(|value| value.to_str().ok());
        request.app_config().secure()
            || (self.proxies.have_sent(request) && scheme == Some("https"))
    }

    /// Returns the origin that the client sent the request to, such as `http://127.0.0.1:8081`, if the request names a host.
    pub fn requested_origin(&self, request: &HttpRequest) -> Option<String> {
        let scheme = if self.is_secure(request) {
            "https"
        } else {
            "http"
        };
        Some(format!(
            "{scheme}://{}",
            requested_authority(request.headers())?
        ))
    }

    fn form_token(&self, of: &[u8]) -> String {
        // Keyed by the session, so that one operator's token does not work in another's browser (S-22).
        hex(blake3::keyed_hash(&self.key, of).as_bytes())
    }
}

/// Removes the oldest session if the maximum is reached.
fn drop_oldest(sessions: &mut HashMap<[u8; 32], Duration>) {
    if sessions.len() >= MAX_SESSIONS
        && let Some(oldest) = sessions
            .iter()
            .min_by_key(|(_, ends)| **ends)
            .map(|(hash, _)| *hash)
    {
        sessions.remove(&oldest);
    }
}

/// Returns the session cookie's value.
fn cookie(request: &HttpRequest) -> Option<String> {
    let headers = request
        .headers()
        .get_all(COOKIE)
        .filter_map(|value| value.to_str().ok());
    // A browser may split cookies over several headers (RFC 9113, section 8.2.3).
    let mut pairs = headers
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value.to_owned())
}

fn hash(value: &str) -> [u8; 32] {
    blake3::hash(value.as_bytes()).into()
}

fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}

/// Maximum number of wrong tokens per address within [`TRY_WINDOW`].
// S-21. With 16 random characters, five tries a minute find nothing.
pub const MAX_TRIES: usize = 5;
/// Time that a wrong token counts, and minimum time between two warnings about an address.
const TRY_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of tracked addresses. The address with the oldest last guess is dropped first.
// Bounds the memory against guesses from many addresses, such as an IPv6 range.
const MAX_ADDRESSES: usize = 10_000;

/// Admin token, with the guesses at it.
pub struct AdminToken {
    expected: Secret,
    clock: Clock,
    proxies: TrustedProxies,
    guesses: Mutex<HashMap<Option<ClientAddress>, Guesses>>,
    warnings: Throttle<Option<ClientAddress>, Duration>,
}

/// Times of an address's wrong tokens within the last [`TRY_WINDOW`], by the monotonic clock: at most [`MAX_TRIES`], the oldest
/// first.
#[derive(Debug, Default)]
struct Guesses(Vec<Duration>);

impl AdminToken {
    /// Creates a token without guesses. For requests from one of `proxies`, the forwarded address counts as the client's.
    pub fn new(expected: Secret, clock: Clock, proxies: TrustedProxies) -> Self {
        let warnings = Throttle::by_key(TRY_WINDOW, MAX_ADDRESSES);
        Self {
            expected,
            clock,
            proxies,
            guesses: Mutex::default(),
            warnings,
        }
    }

    /// Checks a token from a client.
    ///
    /// # Errors
    /// 401 for a wrong token; 429 for every token, right or wrong, after five wrong tokens within a minute from this address.
    pub fn check(&self, request: &HttpRequest, sent: &str) -> Result<(), Problem> {
        let client = self.proxies.client(request);
        let now = self.clock.monotonic();
        // One lock for limit and comparison, so that concurrent requests cannot exceed the limit.
        let mut guesses = self.guesses.lock();
        if let Some(client_guesses) = guesses.get_mut(&client) {
            client_guesses.refuse_beyond_limit(now)?;
        }
        if sent
            .as_bytes()
            .ct_eq(self.expected.reveal().as_bytes())
            .into()
        {
            return Ok(());
        }
        // The comparison above takes the same time for every token of the expected length.
        make_room(&mut guesses, client);
        guesses.entry(client).or_default().0.push(now);
        if self.warnings.allow_key(client, now) {
            let address = client.map(|client| client.to_string()).unwrap_or_default();
            log::warn!(client = address.as_str(); "a wrong admin token was sent; further attempts from this address are logged at most once per minute");
        }
        Err(Problem::new(
            ErrorCode::Unauthorized,
            "the token is wrong; it is the setting admin.token",
        ))
    }
}

impl Guesses {
    fn refuse_beyond_limit(&mut self, now: Duration) -> Result<(), Problem> {
        // Tries count by a sliding window, so a new minute does not give five more at once.
        self.0.retain(|at| now.saturating_sub(*at) < TRY_WINDOW);
        match self.0.first() {
            Some(first) if self.0.len() >= MAX_TRIES => {
                let message = format!(
                    "more than {MAX_TRIES} wrong tokens within a minute; try again in a minute"
                );
                let wait = (*first + TRY_WINDOW).saturating_sub(now);
                Err(Problem::new(ErrorCode::RateLimited, message).after(wait))
            }
            _ => Ok(()),
        }
    }
}

fn make_room(guesses: &mut HashMap<Option<ClientAddress>, Guesses>, client: Option<ClientAddress>) {
    if guesses.len() < MAX_ADDRESSES || guesses.contains_key(&client) {
        // An address that is tracked already needs no room.
        return;
    }
    let oldest = guesses
        .iter()
        .min_by_key(|(_, guesses)| guesses.0.last().copied());
    if let Some(oldest) = oldest.map(|(client, _)| *client) {
        guesses.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use conclave_model::{Secret, Timestamp};

    use super::*;

    fn access(gate: Gate) -> ConsoleAccess {
        ConsoleAccess::new(
            gate,
            Clock::manual(Timestamp::from_millis(0)),
            TrustedProxies::default(),
        )
        .unwrap()
    }

    fn request(peer: &str, cookie: &str) -> HttpRequest {
        let peer = peer.parse().unwrap();
        TestRequest::default()
            .peer_addr(peer)
            .insert_header((COOKIE, cookie))
            .to_http_request()
    }

    #[test]
    fn a_console_without_a_token_accepts_no_sign_in() {
        let (closed, request) = (
            access(Gate::Closed),
            request("127.0.0.1:1", "conclave_session="),
        );
        assert!(closed.operator(&request).is_none());
        assert_eq!(
            closed.sign_in(&request, "").unwrap_err().code,
            ErrorCode::NotFound
        );
    }

    #[test]
    fn a_bounded_number_of_sessions_is_kept_and_only_the_hashes_of_their_cookies() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let token = AdminToken::new(Secret::new("token"), clock, TrustedProxies::default());
        let access = access(Gate::Token(Arc::new(token)));
        let open = request("127.0.0.1:1", "");
        let cookies: Vec<String> = (0..=MAX_SESSIONS)
            .map(|_| access.sign_in(&open, "token").unwrap())
            .collect();
        let kept = access.sessions.lock();
        assert_eq!(kept.len(), MAX_SESSIONS);
        assert!(kept.contains_key(&hash(cookies.last().unwrap())));
        drop(kept);
        let cookie = format!("other=1; {COOKIE_NAME}={}", cookies[MAX_SESSIONS]);
        assert!(
            access
                .operator(&request("127.0.0.1:1", &cookie))
                .is_some_and(|operator| operator.has_session)
        );
        assert!(
            access
                .operator(&request("127.0.0.1:1", &format!("{COOKIE_NAME}=0")))
                .is_none()
        );
    }

    const TOKEN: &str = "let-me-in-please";

    fn token() -> (AdminToken, Clock) {
        let clock = Clock::manual(Timestamp::from_millis(0));
        (
            AdminToken::new(Secret::new(TOKEN), clock.clone(), TrustedProxies::default()),
            clock,
        )
    }

    fn from(peer: &str) -> HttpRequest {
        TestRequest::default()
            .peer_addr(peer.parse().unwrap())
            .to_http_request()
    }

    #[test]
    fn wrong_tokens_of_one_address_do_not_lock_out_another() {
        let (token, clock) = token();
        let (here, elsewhere) = (from("203.0.113.1:1"), from("203.0.113.2:1"));
        for _ in 0..MAX_TRIES {
            assert_eq!(
                token.check(&here, "guess").unwrap_err().code,
                ErrorCode::Unauthorized
            );
        }
        for _ in 0..10 {
            let refused = token.check(&here, TOKEN).unwrap_err();
            assert_eq!(
                (refused.code, refused.retry_after),
                (ErrorCode::RateLimited, Some(TRY_WINDOW))
            );
            assert!(token.check(&elsewhere, TOKEN).is_ok());
        }
        clock.advance(TRY_WINDOW);
        assert!(token.check(&here, TOKEN).is_ok());
    }

    /// Proves S-21.
    #[test]
    fn an_address_that_guesses_is_warned_of_once_a_minute() {
        let (token, _) = token();
        let is_warned = |second: &u64| token.warnings.allow_key(None, Duration::from_secs(*second));
        assert_eq!((0..180).filter(is_warned).collect::<Vec<_>>(), [0, 60, 120]);
    }

    #[test]
    fn a_bounded_number_of_addresses_is_kept_and_the_latest_stay() {
        let (token, clock) = token();
        for host in 0..=MAX_ADDRESSES {
            clock.advance(Duration::from_millis(1));
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(host).unwrap());
            token
                .check(&from(&format!("{address}:1")), "guess")
                .unwrap_err();
        }
        let kept = token.guesses.lock();
        assert_eq!(kept.len(), MAX_ADDRESSES);
        assert!(
            !kept.contains_key(&Some(ClientAddress::from(std::net::IpAddr::from([
                10, 0, 0, 0
            ]))))
        );
    }
}
