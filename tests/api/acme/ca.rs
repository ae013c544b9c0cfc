//! A simulated CA: a TLS ACME server that orders, validates and issues certificates, or fails. It does not verify signatures and
//! completes every step at once.

use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use conclave_model::{Clock, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use test_http_server::{Request, Response};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

use super::validation::{validate_http, validate_tls_alpn};
use crate::support::TestApp;

/// Token in every challenge.
const TOKEN: &str = "DGyRejmCefe7v4NfDGDKfA";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Certificate lifetime.
pub const LIFETIME: Duration = DAY.saturating_mul(90);

/// A running CA.
#[derive(Clone)]
pub struct Ca(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    /// Holds the root certificate.
    files: tempfile::TempDir,
    root: String,
    issuer: Issuer<'static, KeyPair>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Addresses at which the CA validates the domain: the API listener and the redirecting listener.
    app: Option<(SocketAddr, Option<SocketAddr>)>,
    offered: Vec<&'static str>,
    /// Whether requests are answered.
    is_down: bool,
    nonces: HashSet<String>,
    /// Key thumbprint by account.
    accounts: HashMap<String, String>,
    orders: Vec<Order>,
    requests: usize,
}

#[derive(Default, Clone)]
struct Order {
    domain: String,
    /// Reason why a challenge was rejected.
    refusal: Option<String>,
    /// The validated challenge type.
    validated: Option<String>,
    certificate: Option<String>,
}

/// A request with a valid envelope.
struct Signed {
    kid: String,
    jwk: Value,
    payload: Value,
}

impl Ca {
    /// Starts a CA that issues certificates by this clock and offers both challenges.
    pub fn start(clock: Clock) -> Self {
        let (listener, address) = test_http_server::bind();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().pem();
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("root.pem"), &root).unwrap();
        let (issuer, state) = (Issuer::new(params, key), Mutex::default());
        let ca = Self(Arc::new(Shared {
            address,
            files,
            root,
            issuer,
            clock,
            state,
        }));
        ca.offer(&["http-01", "tls-alpn-01", "dns-01"]);
        let (server, tls) = (ca.clone(), ca.tls());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (server, tls) = (server.clone(), Arc::clone(&tls));
                std::thread::spawn(move || server.serve(stream, tls));
            }
        });
        ca
    }

    pub fn directory(&self) -> String {
        self.url("directory")
    }

    /// Returns the path of the root certificate, which also signs the CA's own certificate.
    pub fn root_file(&self) -> PathBuf {
        self.0.files.path().join("root.pem")
    }

    pub fn root(&self) -> &[u8] {
        self.0.root.as_bytes()
    }

    /// Sends the validation requests for every domain to this app.
    pub fn look_at(&self, app: &TestApp) {
        self.look_at_addresses(([127, 0, 0, 1], app.port()).into(), app.redirect);
    }

    pub fn look_at_addresses(&self, api: SocketAddr, redirect: Option<SocketAddr>) {
        self.state(|state| state.app = Some((api, redirect)));
    }

    pub fn offer(&self, challenges: &[&'static str]) {
        self.state(|state| state.offered = challenges.to_vec());
    }

    /// Makes the CA drop connections, or answer again.
    pub fn set_down(&self, is_down: bool) {
        self.state(|state| state.is_down = is_down);
    }

    pub fn forget_accounts(&self) {
        self.state(|state| state.accounts.clear());
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        self.state(|state| state.requests)
    }

    /// Returns the validated challenge per order; `None` if validation failed.
    pub fn validated(&self) -> Vec<Option<String>> {
        self.state(|state| {
            state
                .orders
                .iter()
                .map(|order| order.validated.clone())
                .collect()
        })
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.state.lock().unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.0.address)
    }

    /// Returns the TLS configuration of the CA itself.
    fn tls(&self) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &self.0.issuer);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let chain = vec![certificate.unwrap().der().clone()];
        Arc::new(
            builder
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap(),
        )
    }

    fn serve(&self, tcp: TcpStream, tls: Arc<ServerConfig>) {
        if self.state(|state| state.is_down) {
            return;
        }
        let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), tcp);
        let Some(request) = Request::parse(&mut BufReader::new(&mut stream)) else {
            return;
        };
        let response = self.respond(&request).header("Replay-Nonce", &self.nonce());
        // The client may have disconnected.
        let _ = stream.write_all(&response.into_bytes());
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }

    fn nonce(&self) -> String {
        self.state(|state| {
            let nonce = format!("nonce-{}", state.requests);
            state.nonces.insert(nonce.clone());
            nonce
        })
    }

    fn respond(&self, request: &Request) -> Response {
        self.state(|state| state.requests += 1);
        let path = request.target.trim_start_matches('/');
        match path {
            "directory" => {
                let url = |path| self.url(path);
                let urls = json!({"newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order")});
                return answer(200, &urls);
            }
            "nonce" => return Response::new(200),
            _ => {}
        }
        match self.open(path, &request.body) {
            Ok(signed) => self.respond_signed(path, &signed),
            Err(problem) => refuse(problem),
        }
    }

    /// Checks a request's envelope.
    fn open(&self, path: &str, body: &[u8]) -> Result<Signed, &'static str> {
        let body: Value = serde_json::from_slice(body).unwrap();
        let part = |name: &str| BASE64.decode(body[name].as_str().unwrap()).unwrap();
        let head: Value = serde_json::from_slice(&part("protected")).unwrap();
        assert_eq!(
            (head["alg"].as_str(), head["url"].as_str()),
            (Some("ES256"), Some(self.url(path).as_str()))
        );
        self.state(|state| {
            if !state.nonces.remove(head["nonce"].as_str().unwrap()) {
                return Err("badNonce");
            }
            let kid = head["kid"].as_str().unwrap_or_default().to_owned();
            if path != "account" && !state.accounts.contains_key(&kid) {
                return Err("accountDoesNotExist");
            }
            let payload = serde_json::from_slice(&part("payload")).unwrap_or_default();
            Ok(Signed {
                kid,
                jwk: head["jwk"].clone(),
                payload,
            })
        })
    }

    fn respond_signed(&self, path: &str, signed: &Signed) -> Response {
        let mut parts = path.split('/');
        let kind = parts.next().unwrap();
        let index: Option<usize> = parts.next().map(|index| index.parse().unwrap());
        match (kind, index) {
            ("account", None) => self.register(signed),
            ("order", None) => self.order(&signed.payload["identifiers"][0]["value"]),
            ("order", Some(index)) => answer(200, &self.shown(index)),
            ("authorization", Some(index)) => answer(200, &self.authorization(index)),
            ("challenge", Some(index)) => self.validate(index, parts.next().unwrap(), &signed.kid),
            ("finalize", Some(index)) => self.issue(index, &signed.payload),
            ("certificate", Some(index)) => Response::new(200).body(
                self.state(|state| state.orders[index].certificate.clone())
                    .unwrap(),
            ),
            _ => refuse("malformed"),
        }
    }

    fn register(&self, signed: &Signed) -> Response {
        assert_eq!(signed.payload["termsOfServiceAgreed"], true);
        let part = |name: &str| signed.jwk[name].as_str().unwrap().to_owned();
        let key = format!(
            r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#,
            part("x"),
            part("y")
        );
        let account = self.url(&format!("account/{}", self.state(|state| state.requests)));
        let thumbprint = BASE64.encode(Sha256::digest(key));
        self.state(|state| state.accounts.insert(account.clone(), thumbprint));
        answer(201, &json!({"status": "valid"})).header("Location", &account)
    }

    fn order(&self, domain: &Value) -> Response {
        let order = Order {
            domain: domain.as_str().unwrap().to_owned(),
            ..Order::default()
        };
        let index = self.state(|state| {
            state.orders.push(order);
            state.orders.len() - 1
        });
        answer(201, &self.shown(index)).header("Location", &self.url(&format!("order/{index}")))
    }

    fn shown(&self, index: usize) -> Value {
        let order = self.state(|state| state.orders[index].clone());
        let status = match &order {
            Order {
                certificate: Some(_),
                ..
            } => "valid",
            Order {
                validated: Some(_), ..
            } => "ready",
            Order {
                refusal: Some(_), ..
            } => "invalid",
            _ => "pending",
        };
        let url = |kind: &str| self.url(&format!("{kind}/{index}"));
        json!({"status": status, "authorizations": [url("authorization")], "finalize": url("finalize"),
            "certificate": url("certificate")})
    }

    fn authorization(&self, index: usize) -> Value {
        let (order, offered) =
            self.state(|state| (state.orders[index].clone(), state.offered.clone()));
        let status = if order.refusal.is_some() {
            "invalid"
        } else {
            "pending"
        };
        let challenges = offered.iter().map(|kind| {
            let mut challenge = json!({"type": kind, "url": self.url(&format!("challenge/{index}/{kind}")),
                "token": TOKEN, "status": status});
            if let Some(refusal) = &order.refusal {
                challenge["error"] = problem("connection", refusal);
            }
            challenge
        });
        let challenges: Vec<_> = challenges.collect();
        json!({"status": status, "identifier": {"type": "dns", "value": order.domain}, "challenges": challenges})
    }

    /// Connects to the app as a CA does for validation.
    fn validate(&self, index: usize, kind: &str, kid: &str) -> Response {
        let (order, app) = self.state(|state| (state.orders[index].clone(), state.app.unwrap()));
        let text = format!(
            "{TOKEN}.{}",
            self.state(|state| state.accounts[kid].clone())
        );
        let result = match kind {
            "tls-alpn-01" => validate_tls_alpn(app.0, &order.domain, &text),
            "http-01" => validate_http(
                app.1.expect("a redirect listener"),
                &order.domain,
                TOKEN,
                &text,
            ),
            other => panic!("{other}"),
        };
        self.state(|state| match result {
            Ok(()) => state.orders[index].validated = Some(kind.to_owned()),
            Err(refusal) => state.orders[index].refusal = Some(refusal),
        });
        let url = self.url(&format!("challenge/{index}/{kind}"));
        answer(
            200,
            &json!({"type": kind, "url": url, "token": TOKEN, "status": "processing"}),
        )
    }

    fn issue(&self, index: usize, payload: &Value) -> Response {
        let csr = BASE64.decode(payload["csr"].as_str().unwrap()).unwrap();
        let (names, key) = read_request(&csr);
        let mut params = CertificateParams::new(names).unwrap();
        let now = self.0.clock.now();
        let date =
            |at: Timestamp| rcgen::date_time_ymd(1970, 1, 1) + at.since(Timestamp::from_millis(0));
        (params.not_before, params.not_after) = (date(now), date(now.after(LIFETIME)));
        let chain = params.signed_by(&key, &self.0.issuer).unwrap().pem() + &self.0.root;
        let was_validated = self.state(|state| {
            let order = &mut state.orders[index];
            order.certificate = order.validated.as_ref().map(|_| chain);
            order.certificate.is_some()
        });
        if was_validated {
            answer(200, &self.shown(index))
        } else {
            refuse("orderNotReady")
        }
    }
}

/// The key that the certificate request is for.
struct RequestedKey(Vec<u8>);

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// Returns the names and the key in a certificate request, which must be signed with that key.
fn read_request(der: &[u8]) -> (Vec<String>, RequestedKey) {
    let request = CertReq::from_der(der).unwrap();
    let key = request.info.public_key.subject_public_key.raw_bytes();
    let (message, signature) = (
        request.info.to_der().unwrap(),
        request.signature.raw_bytes(),
    );
    let algorithms = aws_lc_rs::default_provider()
        .signature_verification_algorithms
        .all;
    assert!(
        algorithms
            .iter()
            .any(|with| with.verify_signature(key, &message, signature).is_ok())
    );
    let attribute = request
        .info
        .attributes
        .iter()
        .find(|attribute| attribute.oid == ExtensionReq::OID)
        .unwrap();
    let ExtensionReq(extensions) = attribute.values.get(0).unwrap().decode_as().unwrap();
    let names = extensions
        .iter()
        .find(|extension| extension.extn_id == SubjectAltName::OID)
        .unwrap();
    let SubjectAltName(names) = SubjectAltName::from_der(names.extn_value.as_bytes()).unwrap();
    let names = names.iter().map(|name| match name {
        GeneralName::DnsName(name) => name.to_string(),
        other => panic!("{other:?}"),
    });
    (names.collect(), RequestedKey(key.to_vec()))
}

fn answer(status: u16, body: &Value) -> Response {
    Response::new(status)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

fn problem(kind: &str, detail: &str) -> Value {
    json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail})
}

fn refuse(kind: &str) -> Response {
    answer(400, &problem(kind, "refused"))
}
