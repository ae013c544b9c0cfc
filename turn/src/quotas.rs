//! How many allocations there may be: of a participant, from an address, and in all.

use std::net::IpAddr;
use std::sync::Arc;

use conclave_model::{ClientAddress, Counts};
use parking_lot::Mutex;

/// The most allocations of a participant. A browser makes one for each url, local address and peer connection, and again when it
/// restarts ICE.
pub const OF_PARTICIPANT: usize = 24;
/// The most allocations from one address (IPv6: from one /64), as TCP connections of a media worker.
pub const OF_ADDRESS: usize = 256;
/// The most allocations. Each has a socket.
pub const IN_ALL: usize = 4_096;

/// Counts allocations. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Quotas(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    by_name: Counts<Arc<str>>,
    by_address: Counts<ClientAddress>,
}

/// An allocation that is counted until this is dropped.
#[derive(Debug)]
pub struct Permit {
    quotas: Quotas,
    name: Arc<str>,
    address: ClientAddress,
}

/// What a further allocation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// The quota of the participant or of the address.
    Quota,
    /// The limit of all allocations.
    Capacity,
}

impl Quotas {
    /// Counts an allocation of a participant.
    ///
    /// # Errors
    /// What it would exceed.
    pub fn admit(&self, name: &str, address: IpAddr) -> Result<Permit, Excess> {
        let (name, address) = (Arc::<str>::from(name), ClientAddress::from(address));
        let mut counted = self.0.lock();
        if counted.by_name.total() >= IN_ALL {
            return Err(Excess::Capacity);
        }
        if counted.by_name.get(&name) >= OF_PARTICIPANT || counted.by_address.get(&address) >= OF_ADDRESS {
            return Err(Excess::Quota);
        }
        counted.by_name.add(Arc::clone(&name));
        counted.by_address.add(address);
        Ok(Permit { quotas: self.clone(), name, address })
    }

    /// Returns the number of allocations.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.0.lock().by_name.total()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counted = self.quotas.0.lock();
        counted.by_name.subtract(&self.name);
        counted.by_address.subtract(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(host: usize) -> IpAddr {
        Ipv4Addr::from_bits(u32::try_from(host).unwrap()).into()
    }

    #[test]
    fn allocations_are_limited_by_participant_by_address_and_in_all() {
        let quotas = Quotas::default();
        let admit = |name: usize, host| quotas.admit(&format!("PA_{name}"), address(host));
        let mut permits: Vec<_> = (0..OF_PARTICIPANT).map(|host| admit(0, 10_000 + host).unwrap()).collect();
        assert_eq!(admit(0, 1).unwrap_err(), Excess::Quota);
        permits.extend((0..OF_ADDRESS).map(|name| admit(1 + name, 1).unwrap()));
        assert_eq!(admit(1_000, 1).unwrap_err(), Excess::Quota);
        permits.extend((permits.len()..IN_ALL).map(|other| admit(10_000 + other, 20_000 + other).unwrap()));
        assert_eq!(admit(1_000, 2).unwrap_err(), Excess::Capacity);
        permits.remove(0);
        permits.push(admit(0, 1_000).unwrap());
        assert_eq!(quotas.total(), IN_ALL);
        drop(permits);
        let counted = quotas.0.lock();
        assert!(counted.by_name.is_empty() && counted.by_address.is_empty());
    }
}
