//! The database's lease and the servers that share it, for metrics, probes, the console and the debug endpoint.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use conclave_db::lease::{ClusterState, Lease, Node, Obstacle, Role, Standing, WrongKey};
use conclave_model::Problem;
use prometheus::{Error, Gauge, IntGauge, IntGaugeVec, Opts, Registry};
use serde_json::{Value, json};
use url::form_urlencoded;

/// Lease with its metrics.
pub struct LeaseView {
    lease: Lease,
    is_active: IntGauge,
    epoch: IntGauge,
    renewal_age: Gauge,
    role: IntGaugeVec,
    nodes: IntGaugeVec,
    holder: IntGaugeVec,
}

impl LeaseView {
    /// Registers a lease's metrics.
    ///
    /// # Errors
    /// If they are registered already.
    pub fn new(lease: Lease, registry: &Registry) -> Result<Self, Error> {
        let role = Opts::new("conclave_lease_role", "1 for the role that this server has");
        let nodes = Opts::new(
            "conclave_lease_nodes",
            "The servers that share the database, by role",
        );
        let holder = Opts::new(
            "conclave_lease_holder",
            "1 for the address of the active server",
        );
        let view = Self {
            lease,
            is_active: IntGauge::new(
                "conclave_lease_active",
                "1 for the active server, 0 for a standby",
            )?,
            epoch: IntGauge::new("conclave_lease_epoch", "The epoch of the active server")?,
            renewal_age: Gauge::new(
                "conclave_lease_renewal_age_seconds",
                "Time since the active server last renewed the lease, as observed by this server",
            )?,
            role: IntGaugeVec::new(role, &["role"])?,
            nodes: IntGaugeVec::new(nodes, &["role"])?,
            // A label with the address, so that a dashboard shows a takeover.
            holder: IntGaugeVec::new(holder, &["url"])?,
        };
        registry.register(Box::new(view.is_active.clone()))?;
        registry.register(Box::new(view.epoch.clone()))?;
        registry.register(Box::new(view.renewal_age.clone()))?;
        registry.register(Box::new(view.role.clone()))?;
        registry.register(Box::new(view.nodes.clone()))?;
        registry.register(Box::new(view.holder.clone()))?;
        Ok(view)
    }

    /// Updates the gauges.
    pub fn update_gauges(&self) {
        let (own, cluster) = (self.role(), self.lease.cluster());
        self.is_active.set(i64::from(own == Role::Active));
        self.epoch
            .set(self.epoch(cluster.as_ref()).unwrap_or_default());
        self.renewal_age
            .set(self.lease.renewal_age().unwrap_or_default().as_secs_f64());
        let nodes = cluster.as_ref().map_or(&[][..], |cluster| &cluster.nodes);
        for role in Role::ALL {
            let count = nodes.iter().filter(|node| node.role == role).count();
            self.role
                .with_label_values(&[role.as_str()])
                .set(i64::from(role == own));
            self.nodes
                .with_label_values(&[role.as_str()])
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        // Without the reset, the previous holder's address would stay at 1.
        self.holder.reset();
        if let Some(active) = cluster.as_ref().and_then(ClusterState::active) {
            self.holder.with_label_values(&[&active.info.url]).set(1);
        }
    }

    /// Returns whether this server's own lease is still valid by its last renewal.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.lease.check().is_valid()
    }

    /// Returns this server's role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.lease.state().standing.into()
    }

    /// Returns the lease's status in a word: the role, or the reason why an active server does not act.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.lease.state().standing {
            // The lease has run out by this server's clock; another server may have taken over.
            Standing::Active { .. } if !self.lease.check().is_valid() => "unconfirmed",
            Standing::Released => "released",
            Standing::Lost { .. } => "lost",
            standing => Role::from(standing).as_str(),
        }
    }

    /// Returns whether the database has replied, and the last request did not fail.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.lease.state().is_answered()
    }

    /// Returns the servers of the database, as of a few seconds ago; `None` before the first read.
    #[must_use]
    pub fn cluster(&self) -> Option<ClusterState> {
        self.lease.cluster()
    }

    /// Waits for a server that can take over, up to the limit, and returns the URLs of all such servers.
    pub async fn successors(&self, limit: Duration) -> Vec<String> {
        let cluster = self
            .lease
            .read_cluster(ClusterState::has_successor, limit)
            .await;
        cluster
            .iter()
            .flat_map(ClusterState::successors)
            .map(|node| node.info.url.clone())
            .collect()
    }

    /// Returns the milliseconds since the active server last renewed the lease; `None` if unknown.
    #[must_use]
    pub fn renewal_age_ms(&self) -> Option<u64> {
        self.lease
            .renewal_age()
            .map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the lease for the debug endpoint.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cluster = self.lease.cluster();
        json!({
            "role": self.role().as_str(),
            "status": self.status(),
            "epoch": self.epoch(cluster.as_ref()),
            "holder": cluster.as_ref().and_then(|cluster| cluster.holder.as_ref()),
            "renewal_age_ms": self.renewal_age_ms(),
            "failure": self.lease.state().failure,
            "obstacle": self.obstacle(),
            "nodes": cluster.as_ref().map_or(&[][..], |cluster| &cluster.nodes).iter().map(node).collect::<Vec<_>>(),
        })
    }

    /// Returns why this server does not take over, with the remedy; `None` if nothing prevents it.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        let Standing::Standby { obstacle } = self.lease.state().standing else {
            return None;
        };
        Some(explain(obstacle?))
    }

    /// Returns the epoch of the active server, or of the last active one.
    #[must_use]
    pub fn epoch(&self, cluster: Option<&ClusterState>) -> Option<i64> {
        match self.lease.state().standing {
            Standing::Active { epoch, .. } => Some(epoch),
            _ => cluster.map(|cluster| cluster.epoch),
        }
    }
}

fn node(node: &Node) -> Value {
    json!({
        "id": node.id,
        "role": node.role.as_str(),
        "url": node.info.url,
        "admin_url": node.info.admin_url,
        "version": node.info.version,
        "schema": node.schema,
        // Ids only: they reveal nothing about the keys, and show which server has another one.
        "encryption_key_ids": node.keys.encryption,
        "media_key_id": node.keys.media,
        "age_ms": u64::try_from(node.age.as_millis()).unwrap_or(u64::MAX),
    })
}

/// Returns the reason why a standby does not take over, with the remedy.
#[must_use]
pub const fn explain(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::WrongKey(WrongKey::Encryption) => {
            "the encryption key differs from the last active server's: copy encryption.key from there"
        }
        Obstacle::WrongKey(WrongKey::Media) => {
            "the media key differs from the last active server's: copy media.key from there, or set the same \
             media.api_key and media.api_secret"
        }
        Obstacle::NewerSchema => "a newer version has migrated the database: install that version",
    }
}

/// Returns a server's role. A server that shares its database with no other is active.
#[must_use]
pub fn role_of(lease: Option<&Arc<LeaseView>>) -> Role {
    lease.map_or(Role::Active, |lease| lease.role())
}

/// Returns the role that a probe requires by `?role=`: a server with another role responds as not ready.
///
/// # Errors
/// 400 for an unknown role.
pub fn asked_role(request: &HttpRequest) -> Result<Option<Role>, Problem> {
    let mut pairs = form_urlencoded::parse(request.query_string().as_bytes());
    // Without `role`, any ready server satisfies the probe.
    let Some((_, asked)) = pairs.find(|(name, _)| name == "role") else {
        return Ok(None);
    };
    let found = Role::ALL.into_iter().find(|role| role.as_str() == asked);
    let names = Role::ALL.map(Role::as_str).join(", ");
    found
        .map(Some)
        .ok_or_else(|| Problem::invalid("role", format!("must be one of {names}")))
}
