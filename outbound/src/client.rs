//! Configuration for all requests, and a client with bounded responses.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::address::AddressFilter;
use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::config::{Config, ConfigBuilder};
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::typestate::AgentScope;
use ureq::unversioned::transport::DefaultConnector;

use crate::resolver::FilteredResolver;
use crate::roots::TrustedRoots;

/// Returns the configuration for all requests: HTTP or HTTPS, no redirects, no proxy. Any status is
/// a success. TLS trusts the built-in root certificates, so that images without any can make calls,
/// and those in `SSL_CERT_FILE`. The caller adds timeouts and limits.
pub fn config() -> ConfigBuilder<AgentScope> {
    config_trusting(TrustedRoots::default())
}

/// Returns the configuration for all requests, as [`config`] does, with these root certificates.
pub fn config_trusting(roots: TrustedRoots) -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()));
    Agent::config_builder()
        .tls_config(tls.root_certs(roots.into()).build())
        // A redirect leads to an address that was neither configured nor checked.
        .max_redirects(0)
        // Callers read error bodies, which ureq would drop.
        .http_status_as_error(false)
        // A proxy would resolve names itself and bypass the address check.
        .proxy(None)
        .user_agent(concat!("Conclave/", env!("CARGO_PKG_VERSION")))
}

/// HTTP client that reads whole responses, up to a bound. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    agent: Agent,
    /// Maximum length of a response body in bytes.
    max_body: u64,
}

impl Client {
    /// Creates a client that reads bodies of up to `max_body` bytes.
    pub fn new(config: Config, max_body: u64) -> Self {
        Self {
            agent: config.into(),
            max_body,
        }
    }

    /// Creates a client that reads bodies of up to `max_body` bytes, and dials only addresses that
    /// `filter` permits.
    pub fn filtered(config: Config, max_body: u64, filter: AddressFilter) -> Self {
        let agent = Agent::with_parts(
            config,
            DefaultConnector::default(),
            FilteredResolver::new(filter),
        );
        Self { agent, max_body }
    }

    /// Sends a request and reads its response. Blocks up to the configured timeouts.
    ///
    /// # Errors
    /// Fails if there is no response, or its body is too large.
    pub fn send(
        &self,
        request: Request<impl AsRef<[u8]>>,
    ) -> Result<Response<Vec<u8>>, ureq::Error> {
        let (parts, body) = request.into_parts();
        let body = body.as_ref();
        // An empty POST still needs `Content-Length: 0`, which some servers insist on.
        let has_body = !body.is_empty() || matches!(parts.method, Method::POST | Method::PUT);
        let response = if has_body {
            // ureq refuses a body for GET, even an empty one.
            self.agent.run(Request::from_parts(parts, body))?
        } else {
            self.agent.run(Request::from_parts(parts, ()))?
        };
        let (parts, mut body) = response.into_parts();
        Ok(Response::from_parts(
            parts,
            // The peer may send an endless body.
            body.with_config().limit(self.max_body).read_to_vec()?,
        ))
    }

    /// Sends a request like [`send`](Self::send). `timeout` covers everything from the name lookup
    /// to the last byte read.
    ///
    /// # Errors
    /// like [`send`](Self::send).
    pub fn send_within(
        &self,
        timeout: Duration,
        request: Request<impl AsRef<[u8]>>,
    ) -> Result<Response<Vec<u8>>, ureq::Error> {
        let (parts, body) = request.into_parts();
        // Without the body, which is put back below: only the timeout is configured.
        let configured = self.agent.configure_request(Request::from_parts(parts, ()));
        let (parts, ()) = configured
            .timeout_global(Some(timeout))
            .build()
            .into_parts();
        self.send(Request::from_parts(parts, body))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use test_http_server::serve;

    use super::*;

    fn get(address: SocketAddr) -> Request<&'static str> {
        Request::get(format!("http://{address}/")).body("").unwrap()
    }

    #[test]
    fn a_body_is_not_read_beyond_its_bound() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n12345";
        let address = serve(|_, mut stream| stream.write_all(answer).unwrap());
        assert_eq!(
            Client::new(config().build(), 6)
                .send(get(address))
                .unwrap()
                .body(),
            b"12345"
        );
        let error = Client::new(config().build(), 4)
            .send(get(address))
            .unwrap_err();
        assert!(matches!(error, ureq::Error::BodyExceedsLimit(4)), "{error}");
    }

    #[test]
    fn any_status_is_a_response_and_a_redirect_is_not_followed() {
        for status in [302, 404, 500] {
            let address = serve(move |_, mut stream| {
                write!(stream, "HTTP/1.1 {status} A\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
                    .unwrap();
            });
            assert_eq!(
                Client::new(config().build(), 1)
                    .send(get(address))
                    .unwrap()
                    .status(),
                status
            );
        }
    }

    #[test]
    fn the_timeout_of_a_request_takes_the_place_of_that_of_its_client() {
        let address = serve(|_, mut stream: TcpStream| drop(stream.read(&mut [0])));
        let client = Client::new(
            config()
                .timeout_global(Some(Duration::from_secs(600)))
                .build(),
            1,
        );
        let error = client
            .send_within(Duration::from_millis(50), get(address))
            .unwrap_err();
        assert!(matches!(error, ureq::Error::Timeout(_)), "{error}");
    }

    #[test]
    fn an_empty_body_is_sent_with_methods_that_have_one() {
        let echo = serve(|request, mut stream| {
            let length = request
                .headers
                .iter()
                .find(|(name, _)| name == "content-length");
            let found = length.map_or("none", |(_, value)| value);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{found}",
                found.len()
            )
            .unwrap();
        });
        for (method, length) in [
            (Method::GET, "none"),
            (Method::DELETE, "none"),
            (Method::PUT, "0"),
            (Method::POST, "0"),
        ] {
            let request = Request::builder()
                .method(&method)
                .uri(format!("http://{echo}/"))
                .body("")
                .unwrap();
            let response = Client::new(config().build(), 10).send(request).unwrap();
            assert_eq!(response.body(), length.as_bytes(), "{method}");
        }
    }
}
