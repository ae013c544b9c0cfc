//! The lease of the database, as metrics, probes and the debug endpoint show it.

use conclave_db::lease::{Lease, Obstacle, Standing, WrongKey};
use prometheus::{Error, Gauge, IntGauge, Registry};
use serde_json::{Value, json};

/// The lease with its metrics.
pub struct LeaseView {
    lease: Lease,
    is_active: IntGauge,
    epoch: IntGauge,
    renewal_age: Gauge,
}

impl LeaseView {
    /// Registers the metrics of a lease.
    ///
    /// # Errors
    /// They are registered already.
    pub fn new(lease: Lease, registry: &Registry) -> Result<Self, Error> {
        let is_active = IntGauge::new("conclave_lease_active", "1 for the active server, 0 for a standby")?;
        let epoch = IntGauge::new("conclave_lease_epoch", "The epoch of the active server; 0 for a standby")?;
        let renewal_age = Gauge::new(
            "conclave_lease_renewal_age_seconds",
            "Time since the last confirmed renewal was sent; 0 for a standby",
        )?;
        registry.register(Box::new(is_active.clone()))?;
        registry.register(Box::new(epoch.clone()))?;
        registry.register(Box::new(renewal_age.clone()))?;
        Ok(Self { lease, is_active, epoch, renewal_age })
    }

    /// Sets the gauges.
    pub fn update_gauges(&self) {
        let epoch = self.epoch();
        self.is_active.set(i64::from(epoch.is_some()));
        self.epoch.set(epoch.unwrap_or_default());
        self.renewal_age.set(self.lease.renewal_age().unwrap_or_default().as_secs_f64());
    }

    /// Returns what this server is, in a word.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.lease.state().standing {
            Standing::Standby { obstacle: None } => "standby",
            Standing::Standby { obstacle: Some(Obstacle::WrongKey(_)) } => "wrong_keys",
            Standing::Standby { obstacle: Some(Obstacle::NewerSchema) } => "newer_schema",
            Standing::Active { .. } if self.lease.check().is_valid() => "active",
            Standing::Active { .. } => "unconfirmed",
            Standing::Released => "released",
            Standing::Lost { .. } => "lost",
        }
    }

    /// Whether the last request to the database was answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.lease.state().failure.is_none()
    }

    /// Returns the lease for the debug endpoint.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "status": self.status(),
            "epoch": self.epoch(),
            "renewal_age_ms": self.lease.renewal_age().map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            "failure": self.lease.state().failure,
            "obstacle": self.obstacle(),
        })
    }

    /// Returns why this server does not take over and what to do about it; `None` if nothing keeps it from that.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        let Standing::Standby { obstacle } = self.lease.state().standing else { return None };
        Some(explain(obstacle?))
    }

    fn epoch(&self) -> Option<i64> {
        if let Standing::Active { epoch, .. } = self.lease.state().standing { Some(epoch) } else { None }
    }
}

/// Describes why a standby does not take over, and what to do about it.
#[must_use]
pub const fn explain(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::WrongKey(WrongKey::Encryption) => {
            "the encryption key is not that of the last active server: copy encryption.key from there"
        }
        Obstacle::WrongKey(WrongKey::Media) => {
            "the media key is not that of the last active server: copy media.key from there, or set the same \
             media.api_key and media.api_secret"
        }
        Obstacle::NewerSchema => "a newer version has migrated the database: install that version",
    }
}
