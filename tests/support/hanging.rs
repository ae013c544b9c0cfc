//! A webhook receiver that never responds.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// A receiver that keeps its connections open without a response until it is dropped.
pub struct Hanging {
    pub url: String,
    connections: Connections,
}

/// None when the receiver has been dropped.
type Connections = Arc<Mutex<Option<Vec<TcpStream>>>>;

impl Hanging {
    pub fn start() -> Self {
        let connections: Connections = Arc::new(Mutex::new(Some(Vec::new())));
        let held = Arc::clone(&connections);
        let address = test_http_server::serve(move |_, stream| {
            if let Some(connections) = held.lock().unwrap().as_mut() {
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
