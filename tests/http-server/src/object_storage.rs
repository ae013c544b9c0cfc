//! An object storage with the part of the S3 protocol that multipart uploads need.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Request, Response, serve};

/// An in-memory storage.
#[derive(Clone)]
pub struct ObjectStorage {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// Fault in a part's upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The storage responds with this status.
    Status(u16),
    /// The storage responds with this status and code.
    Refusal(u16, &'static str),
    /// The connection is closed without a response after the part has arrived.
    Cut,
    /// The storage does not respond before [`ObjectStorage::release`].
    Stall,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// Open multipart uploads by id.
    uploads: BTreeMap<String, Upload>,
    faults: VecDeque<Fault>,
    /// Number of completions that succeed but whose responses are lost.
    lost_completions: usize,
    /// Whether parts without a checksum are refused, as in buckets with Object Lock.
    wants_checksums: bool,
    /// Status that all requests are refused with.
    refusal: Option<u16>,
    begun: usize,
    parts: usize,
    stalled: usize,
    is_released: bool,
}

#[derive(Default)]
struct Upload {
    object: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl ObjectStorage {
    /// Starts a storage with all buckets that a client names.
    #[must_use]
    pub fn start() -> Self {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let address = serve(move |request, mut stream| answer(&shared, &request, &mut stream));
        Self { address, state }
    }

    /// Returns the URL of the storage.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes the next parts fail, one fault each.
    pub fn fail_parts(&self, faults: &[Fault]) {
        self.state.lock().faults.extend(faults);
    }

    /// Loses the responses to the next `count` completed uploads.
    pub fn lose_completions(&self, count: usize) {
        self.state.lock().lost_completions = count;
    }

    /// Refuses parts without a checksum from now on.
    pub fn require_checksums(&self) {
        self.state.lock().wants_checksums = true;
    }

    /// Refuses all requests with a status, or none.
    pub fn refuse(&self, status: Option<u16>) {
        self.state.lock().refusal = status;
    }

    /// Ends the stalled requests without a response.
    pub fn release(&self) {
        self.state.lock().is_released = true;
    }

    /// Returns the object `bucket/name`.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<Vec<u8>> {
        self.state.lock().objects.get(name).cloned()
    }

    /// Returns the names of all objects.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// Returns the number of started uploads, arrived parts, stalled requests, and uploads that were neither completed nor aborted.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let state = self.state.lock();
        (state.begun, state.parts, state.stalled, state.uploads.len())
    }
}

fn answer(state: &Mutex<State>, request: &Request, stream: &mut TcpStream) {
    let fault = if request.method == "PUT" {
        state.lock().faults.pop_front()
    } else {
        None
    };
    let response = match fault {
        None => {
            let mut state = state.lock();
            let response = state.handle(request);
            let is_completion = request.method == "POST" && request.target.contains("uploadId=");
            if is_completion && state.lost_completions > 0 {
                state.lost_completions -= 1;
                return;
            }
            response
        }
        Some(Fault::Refusal(status, code)) => error(status, code),
        Some(Fault::Status(status)) => error(status, "InternalError"),
        Some(Fault::Cut) => return,
        Some(Fault::Stall) => return stall(state),
    };
    let mut bytes = response.into_bytes();
    if request.method == "HEAD" {
        let end = bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .map_or(bytes.len(), |at| at + 4);
        bytes.truncate(end);
    }
    // The client may have disconnected.
    let _ = stream.write_all(&bytes);
}

fn stall(state: &Mutex<State>) {
    state.lock().stalled += 1;
    while !state.lock().is_released {
        thread::sleep(Duration::from_millis(10));
    }
}

fn error(status: u16, code: &str) -> Response {
    Response::new(status).body(format!(
        "<Error><Code>{code}</Code><Message>a secret</Message></Error>"
    ))
}

fn has_checksum(request: &Request) -> bool {
    request
        .headers
        .iter()
        .any(|(name, _)| name == "content-md5" || name.starts_with("x-amz-checksum-"))
}

impl State {
    fn handle(&mut self, request: &Request) -> Response {
        if let Some(status) = self.refusal {
            return error(status, "AccessDenied");
        }
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((&request.target, ""));
        let query: BTreeMap<_, _> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        let object = path.trim_start_matches('/').to_owned();
        let upload = query.get("uploadId").copied().unwrap_or_default();
        match (
            request.method.as_str(),
            query
                .get("partNumber")
                .and_then(|number| number.parse().ok()),
        ) {
            ("POST", None) if query.contains_key("uploads") => self.begin(object),
            ("PUT", Some(_)) if self.wants_checksums && !has_checksum(request) => {
                error(400, "InvalidRequest")
            }
            ("PUT", Some(number)) => self.put(upload, number, &request.body),
            ("HEAD", None) => match self.objects.get(&object) {
                Some(object) => Response::new(200)
                    .header("ETag", "\"whole\"")
                    .body(object.clone()),
                None => Response::new(404),
            },
            ("POST", None) => self.complete(upload),
            ("DELETE", None) if self.uploads.remove(upload).is_some() => Response::new(204),
            _ => error(404, "NoSuchUpload"),
        }
    }

    fn begin(&mut self, object: String) -> Response {
        self.begun += 1;
        let id = format!("upload-{}", self.begun);
        self.uploads.insert(
            id.clone(),
            Upload {
                object,
                ..Upload::default()
            },
        );
        let result = "InitiateMultipartUploadResult";
        Response::new(200).body(format!("<{result}><UploadId>{id}</UploadId></{result}>"))
    }

    fn put(&mut self, upload: &str, number: u32, body: &[u8]) -> Response {
        let Some(upload) = self.uploads.get_mut(upload) else {
            return error(404, "NoSuchUpload");
        };
        upload.parts.insert(number, body.to_vec());
        self.parts += 1;
        Response::new(200).header("ETag", &format!("\"part-{number}\""))
    }

    fn complete(&mut self, upload: &str) -> Response {
        let Some(upload) = self.uploads.remove(upload) else {
            return error(404, "NoSuchUpload");
        };
        self.objects.insert(
            upload.object,
            upload.parts.into_values().flatten().collect(),
        );
        let result = "CompleteMultipartUploadResult";
        Response::new(200).body(format!("<{result}><ETag>\"whole\"</ETag></{result}>"))
    }
}
