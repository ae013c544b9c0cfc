//! The active node, as known to this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_db::lease::{ActiveServer, Lease};
use tokio::sync::watch;
use url::{Host, Url};

/// Node that has the lease.
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    /// Epoch of its lease. Each takeover starts a higher one.
    pub epoch: i64,
    /// Address; `None` if its URL is invalid.
    pub address: Option<NodeAddress>,
    /// Whether it is this node.
    pub is_this: bool,
}

/// Network address of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// Whether it uses TLS.
    pub is_tls: bool,
    /// Host name, or IP address without brackets.
    pub host: String,
    /// TCP port of its API listener.
    pub port: u16,
}

impl NodeAddress {
    /// Parses a node's URL; `None` unless it is `http` or `https`.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = match url.host()? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            // Without brackets, as connecting needs it.
            Host::Ipv6(address) => address.to_string(),
        };
        Some(Self {
            is_tls,
            host,
            port: url.port_or_known_default()?,
        })
    }
}

/// Snapshot of the active node. A takeover publishes a new one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveNode {
    node: Option<Arc<Node>>,
    /// Whether this node's listeners handle requests once it has the lease.
    serves_this: bool,
}

impl ActiveNode {
    /// Returns the epoch of the node that has the lease, whether it serves or not.
    #[must_use]
    pub fn epoch(&self) -> Option<i64> {
        self.node.as_ref().map(|node| node.epoch)
    }

    /// Returns whether this node has the lease.
    #[must_use]
    pub fn is_this(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.is_this)
    }

    /// Returns the node to send requests to; `None` while none is known, or while it is this node and it does not serve yet.
    #[must_use]
    pub fn serving(&self) -> Option<&Arc<Node>> {
        self.node
            .as_ref()
            // Between the takeover and the start of its listeners, this node would forward requests to itself.
            .filter(|node| !node.is_this || self.serves_this)
    }
}

/// Follows the lease and publishes the active node.
#[derive(Debug)]
pub struct ActiveNodes {
    known: watch::Sender<ActiveNode>,
    /// Whether this node cannot reach the database.
    is_cut_off: AtomicBool,
}

impl ActiveNodes {
    /// Creates a follower that knows no node yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            known: watch::Sender::default(),
            is_cut_off: AtomicBool::default(),
        })
    }

    /// Follows a lease until the last reference to this value is dropped.
    pub fn follow(self: &Arc<Self>, lease: &Lease) {
        let (mut server, mut state, followed) =
            (lease.active_server(), lease.states(), Arc::downgrade(self));
        tokio::spawn(async move {
            // The task holds no reference between changes, so it does not keep its own subject alive.
            loop {
                // The proxy was dropped.
                let Some(followed) = followed.upgrade() else {
                    return;
                };
                followed.record_server(server.borrow_and_update().as_ref());
                // Each failed lease request counts, long before the lease is lost.
                followed.record_cut_off(state.borrow_and_update().failure.is_some());
                drop(followed);
                let changed = tokio::select! {
                    changed = server.changed() => changed,
                    changed = state.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
            }
        });
    }

    /// Records whether this node cannot reach the database.
    pub fn record_cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    /// Returns whether this node cannot reach the database. It then neither takes over nor learns of a takeover.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// Records the server that has the lease.
    pub fn record_server(&self, server: Option<&ActiveServer>) {
        let node = server.map(|server| {
            let address = NodeAddress::parse(&server.url);
            if address.is_none() {
                log::error!(
                    "requests cannot be forwarded: the active server has no valid URL: {:?}",
                    server.url
                );
            }
            Arc::new(Node {
                epoch: server.epoch,
                address,
                is_this: server.is_this,
            })
        });
        // The lease is read twice a second; only a change may wake the requests that wait.
        self.known.send_if_modified(|known| {
            let has_changed = known.node != node;
            known.node = node;
            has_changed
        });
    }

    /// Starts to serve as the active node, once this node has the lease.
    pub fn serve_this(&self) {
        self.known.send_modify(|known| known.serves_this = true);
    }

    /// Stops serving while this node still has the lease. Requests wait for another node.
    pub fn stop_serving_this(&self) {
        self.known.send_modify(|known| known.serves_this = false);
    }

    /// Subscribes to the active node.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<ActiveNode> {
        self.known.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_a_port() {
        let parsed =
            |url: &str| NodeAddress::parse(url).map(|node| (node.is_tls, node.host, node.port));
        assert_eq!(
            parsed("http://10.0.0.1:8080"),
            Some((false, "10.0.0.1".into(), 8080))
        );
        assert_eq!(
            parsed("https://node-1.example.org"),
            Some((true, "node-1.example.org".into(), 443))
        );
        assert_eq!(
            parsed("http://[fd00::1]:80"),
            Some((false, "fd00::1".into(), 80))
        );
        assert_eq!(parsed("ws://10.0.0.1"), None);
        assert_eq!(parsed(""), None);
    }

    #[test]
    fn this_node_gets_requests_once_it_serves() {
        let nodes = ActiveNodes::new();
        let known = nodes.subscribe();
        let server = |epoch, is_this| ActiveServer {
            epoch,
            url: "http://10.0.0.1".into(),
            is_this,
        };
        nodes.record_server(Some(&server(1, false)));
        assert_eq!(known.borrow().serving().unwrap().epoch, 1);
        nodes.record_server(Some(&server(2, true)));
        assert!(known.borrow().is_this() && known.borrow().serving().is_none());
        assert_eq!(known.borrow().epoch(), Some(2));
        nodes.serve_this();
        assert_eq!(known.borrow().serving().unwrap().epoch, 2);
        nodes.stop_serving_this();
        assert!(known.borrow().is_this() && known.borrow().serving().is_none());
        nodes.record_server(None);
        assert!(known.borrow().epoch().is_none() && known.borrow().serving().is_none());
    }
}
