//! A billing service on a free port: it returns the test's answer and keeps the received requests.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, RwLock};

use serde_json::json;
use test_http_server::{Request, Response, serve};

/// A billing service.
pub struct FakeBilling {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Bytes of each response.
    answer: Mutex<Vec<u8>>,
    received: Mutex<Vec<Request>>,
    /// Locked for reading by each response, and for writing while no response is sent.
    gate: RwLock<()>,
}

impl FakeBilling {
    /// Starts a service that answers `ok` for every project.
    pub fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let server = Arc::clone(&shared);
        let address = serve(move |request, stream| server.handle(request, stream));
        let service = Self {
            url: format!("http://{address}/pay/"),
            shared,
        };
        service.set_standing("ok");
        service
    }

    /// Sets the answer for every project from now on.
    pub fn set_standing(&self, standing: &str) {
        self.answer_with(Response::new(200).body(json!({"standing": standing}).to_string()));
    }

    /// Sets the response from now on.
    pub fn answer_with(&self, response: Response) {
        self.answer_with_bytes(response.into_bytes());
    }

    /// Sets the response bytes from now on.
    pub fn answer_with_bytes(&self, bytes: Vec<u8>) {
        *self.shared.answer.lock().unwrap() = bytes;
    }

    /// Leaves requests unanswered while `during` runs.
    pub fn silent_while<T>(&self, during: impl FnOnce() -> T) -> T {
        let _held = self.shared.gate.write().unwrap();
        during()
    }

    /// Returns the number of requests so far.
    pub fn request_count(&self) -> usize {
        self.shared.received.lock().unwrap().len()
    }

    /// Returns the last request, as `METHOD path`, and its credential.
    #[track_caller]
    pub fn last_request(&self) -> (String, String) {
        let received = self.shared.received.lock().unwrap();
        let last = received.last().expect("a request");
        (
            format!("{} {}", last.method, last.target),
            last.header("authorization").to_owned(),
        )
    }
}

impl Shared {
    fn handle(&self, request: Request, mut stream: TcpStream) {
        self.received.lock().unwrap().push(request);
        let _open = self.gate.read().unwrap();
        let answer = self.answer.lock().unwrap().clone();
        let _ = stream.write_all(&answer);
    }
}
