//! The admin token, which operators sign in with and programs send with each request, and the limit of guesses at it: one for
//! both ways, by the client's address. Guesses at one address do not refuse the token at another.

use std::collections::HashMap;
use std::time::Duration;

use actix_web::HttpRequest;
use conclave_model::{ClientAddress, Clock, ErrorCode, Problem, Secret, Throttle};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::http::listener::client_address::TrustedProxies;

/// Wrong tokens that an address may send within [`TRY_WINDOW`].
pub const MOST_TRIES: usize = 5;
/// For how long a wrong token counts, and the shortest time between two warnings about an address.
const TRY_WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are kept. The one whose last guess is the oldest goes first.
const MOST_ADDRESSES: usize = 10_000;

/// The admin token of a server.
pub struct AdminToken {
    expected: Secret,
    clock: Clock,
    proxies: TrustedProxies,
    guesses: Mutex<HashMap<Option<ClientAddress>, Guesses>>,
    warnings: Throttle<Option<ClientAddress>, Duration>,
}

/// When the wrong tokens of an address came within the last [`TRY_WINDOW`], by the monotonic clock: at most [`MOST_TRIES`], the oldest
/// first.
#[derive(Debug, Default)]
struct Guesses(Vec<Duration>);

impl AdminToken {
    /// Nothing has been guessed. Behind a proxy of `proxies` the client's address is the one that the proxy forwards.
    pub fn new(expected: Secret, clock: Clock, proxies: TrustedProxies) -> Self {
        let warnings = Throttle::by_key(TRY_WINDOW, MOST_ADDRESSES);
        Self {
            expected,
            clock,
            proxies,
            guesses: Mutex::default(),
            warnings,
        }
    }

    /// Checks the token that a client has sent.
    ///
    /// # Errors
    /// 401 for a wrong one. 429 for every one, right or wrong, after five wrong ones within a minute from this address.
    pub fn check(&self, request: &HttpRequest, sent: &str) -> Result<(), Problem> {
        let client = self.proxies.client(request);
        let now = self.clock.monotonic();
        // One lock for the limit and the comparison: requests at the same time are not compared beyond the limit.
        let mut guesses = self.guesses.lock();
        if let Some(of_client) = guesses.get_mut(&client) {
            of_client.refuse_beyond_limit(now)?;
        }
        if sent
            .as_bytes()
            .ct_eq(self.expected.reveal().as_bytes())
            .into()
        {
            return Ok(());
        }
        make_room(&mut guesses, client);
        guesses.entry(client).or_default().0.push(now);
        if self.warnings.allow_key(client, now) {
            let address = client.map(|client| client.to_string()).unwrap_or_default();
            log::warn!(client = address.as_str(); "a wrong admin token was sent; further ones are logged in a minute");
        }
        Err(Problem::new(
            ErrorCode::Unauthorized,
            "the token is wrong; it is admin.token of the settings",
        ))
    }
}

impl Guesses {
    fn refuse_beyond_limit(&mut self, now: Duration) -> Result<(), Problem> {
        self.0.retain(|at| now.saturating_sub(*at) < TRY_WINDOW);
        match self.0.first() {
            Some(first) if self.0.len() >= MOST_TRIES => {
                let message = format!(
                    "more than {MOST_TRIES} wrong tokens within a minute; try again in a minute"
                );
                let wait = (*first + TRY_WINDOW).saturating_sub(now);
                Err(Problem::new(ErrorCode::RateLimited, message).after(wait))
            }
            _ => Ok(()),
        }
    }
}

fn make_room(guesses: &mut HashMap<Option<ClientAddress>, Guesses>, client: Option<ClientAddress>) {
    if guesses.len() < MOST_ADDRESSES || guesses.contains_key(&client) {
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
    use conclave_model::Timestamp;

    use super::*;

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
        for _ in 0..MOST_TRIES {
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
        for host in 0..=MOST_ADDRESSES {
            clock.advance(Duration::from_millis(1));
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(host).unwrap());
            token
                .check(&from(&format!("{address}:1")), "guess")
                .unwrap_err();
        }
        let kept = token.guesses.lock();
        assert_eq!(kept.len(), MOST_ADDRESSES);
        assert!(
            !kept.contains_key(&Some(ClientAddress::from(std::net::IpAddr::from([
                10, 0, 0, 0
            ]))))
        );
    }
}
