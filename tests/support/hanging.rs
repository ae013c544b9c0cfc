//! A webhook receiver that never responds, or not to some events.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use test_http_server::{Request, Response};

/// A receiver that keeps its connections open without a response until it is dropped.
pub struct Hanging {
    pub url: String,
    connections: Connections,
}

/// None when the receiver has been dropped.
type Connections = Arc<Mutex<Option<Vec<TcpStream>>>>;

impl Hanging {
    pub fn start() -> Self {
        Self::start_if(|_| true)
    }

    /// Starts a receiver that accepts all events of other types.
    pub fn for_event(name: &'static str) -> Self {
        Self::start_if(move |request| request.header("x-svc-event") == name)
    }

    fn start_if(hangs: impl Fn(&Request) -> bool + Clone + Send + 'static) -> Self {
        let connections: Connections = Arc::new(Mutex::new(Some(Vec::new())));
        let held = Arc::clone(&connections);
        let address = test_http_server::serve(move |request, mut stream| {
            if !hangs(&request) {
                let _ = Response::new(204).send(&mut stream);
            } else if let Some(connections) = held.lock().unwrap().as_mut() {
                connections.push(stream);
            }
        });
        Self {
            url: format!("http://{address}"),
            connections,
        }
    }

    /// Returns the number of unanswered requests.
    pub fn held(&self) -> usize {
        self.connections
            .lock()
            .unwrap()
            .as_ref()
            .map_or(0, Vec::len)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        *self.connections.lock().unwrap() = None;
    }
}
