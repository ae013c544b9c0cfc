//! Quotas for allocations, per participant, project and address and in total, and rate limits for
//! responses to unauthenticated clients.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use conclave_model::{ClientAddress, Clock, Counts, ProjectId, Rate, RateLimit, RateLimits};
use parking_lot::Mutex;

use crate::admission::AdmittedParticipant;

/// Maximum allocations per participant. A browser makes one per URL, local address and peer
/// connection, and new ones at an ICE restart.
pub const MAX_PER_PARTICIPANT: usize = 24;
/// Maximum allocations per address (IPv6: per /64), as for the media workers' TCP connections.
pub const MAX_PER_ADDRESS: usize = 256;
/// Divisor for the maximum per address if few files may be opened.
const ADDRESS_SHARE: usize = 4;
/// Maximum allocations in total. Each has a socket.
pub const MAX_ALLOCATIONS: usize = 4_096;
/// Responses per address: enough for an office behind one address, where each client needs two.
const RESPONSES_PER_ADDRESS: Rate = Rate {
    per_second: 50,
    burst: 500,
};
/// Responses in total: about 4 Mbit/s.
const RESPONSES_TOTAL: Rate = Rate {
    per_second: 5_000,
    burst: 5_000,
};
/// Number of groups into which addresses are hashed with a random key, so that memory does not grow
/// with forged addresses.
const ADDRESS_GROUPS: u64 = 4_096;

/// Allocation counters. Clones share them.
#[derive(Debug, Clone)]
pub struct AllocationQuotas {
    max: usize,
    counted: Arc<Mutex<AllocationCounts>>,
}

#[derive(Debug, Default)]
struct AllocationCounts {
    by_name: Counts<Arc<str>>,
    by_project: Counts<ProjectId>,
    by_address: Counts<ClientAddress>,
}

/// Counted allocation, until this is dropped.
#[derive(Debug)]
pub struct AllocationPermit {
    quotas: AllocationQuotas,
    participant: Arc<AdmittedParticipant>,
    address: ClientAddress,
}

/// Limit that another allocation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaError {
    /// The quota per participant, project or address.
    Quota,
    /// The limit in total.
    Capacity,
}

impl AllocationQuotas {
    /// Creates counters for this many allocations.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            counted: Arc::default(),
        }
    }

    /// Counts a participant's allocation. A project gets as many as it leaves free: half the total
    /// if it is alone, a third beside another one.
    ///
    /// # Errors
    /// Returns the limit that would be exceeded.
    pub fn admit(
        &self,
        participant: &Arc<AdmittedParticipant>,
        address: IpAddr,
    ) -> Result<AllocationPermit, QuotaError> {
        let address = ClientAddress::from(address);
        let mut counted = self.counted.lock();
        let free = self.max.saturating_sub(counted.by_name.total());
        // Checked first, for the right error code: 508 concerns the server, 486 the client.
        if free == 0 {
            return Err(QuotaError::Capacity);
        }
        // Never more than a quarter: one address must not take a small server's whole capacity.
        let max_per_address = MAX_PER_ADDRESS.min(self.max.div_ceil(ADDRESS_SHARE));
        if counted.by_name.get(&participant.name) >= MAX_PER_PARTICIPANT
            // The bound is the free capacity instead of a fixed share, so it adapts to the number
            // of projects.
            || counted.by_project.get(&participant.project) >= free
            || counted.by_address.get(&address) >= max_per_address
        {
            return Err(QuotaError::Quota);
        }
        // All three under one lock: two requests must not both take the last slot.
        counted.by_name.add(Arc::clone(&participant.name));
        counted.by_project.add(participant.project.clone());
        counted.by_address.add(address);
        Ok(AllocationPermit {
            quotas: self.clone(),
            participant: Arc::clone(participant),
            address,
        })
    }

    /// Returns whether a participant has an allocation.
    pub fn has_allocation(&self, name: &str) -> bool {
        self.counted.lock().by_name.get(&Arc::from(name)) > 0
    }

    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.counted.lock().by_name.total()
    }
}

impl AllocationPermit {
    pub fn participant(&self) -> &Arc<AdmittedParticipant> {
        &self.participant
    }
}

impl Drop for AllocationPermit {
    fn drop(&mut self) {
        let mut counted = self.quotas.counted.lock();
        // By name: a participant that rejoined has another `AdmittedParticipant`, but the same
        // quota.
        counted.by_name.subtract(&self.participant.name);
        counted.by_project.subtract(&self.participant.project);
        counted.by_address.subtract(&self.address);
    }
}

/// Rate limits for responses to unauthenticated clients, per address and in total. Over UDP, the
/// source address may be forged.
#[derive(Debug)]
pub struct UnauthenticatedLimits {
    hasher: RandomState,
    groups: RateLimits<u64>,
    all: RateLimit,
}

impl UnauthenticatedLimits {
    pub fn new(clock: &Clock) -> Self {
        let (groups, all) = (
            // By group of addresses, see `ADDRESS_GROUPS`.
            RateLimits::new(clock, RESPONSES_PER_ADDRESS),
            RateLimit::new(clock, RESPONSES_TOTAL),
        );
        Self {
            hasher: RandomState::new(),
            groups,
            all,
        }
    }

    /// Counts a response to an address. Returns whether it may be sent.
    pub fn may_respond(&self, address: IpAddr) -> bool {
        // The key is random, so nobody can choose addresses that share a victim's group.
        let group = self.hasher.hash_one(ClientAddress::from(address)) % ADDRESS_GROUPS;
        // The address comes first: a flood from one address must not use up the total.
        self.groups.take(&group, 1) && self.all.take(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use conclave_model::Timestamp;

    use super::*;
    use crate::admission::participant;

    fn address(host: usize) -> IpAddr {
        Ipv4Addr::from_bits(u32::try_from(host).unwrap()).into()
    }

    /// Counts allocations for many participants in a project, each with its own address, until one
    /// is refused.
    fn fill(quotas: &AllocationQuotas, project: usize) -> Vec<AllocationPermit> {
        let project_id = format!("prj_{project:012}");
        let admit = |number: usize| {
            let participant = participant(&format!("PA_{project}_{number}"), &project_id);
            quotas
                .admit(&participant, address(project * 100_000 + number))
                .ok()
        };
        (0..10_000).map_while(admit).collect()
    }

    #[test]
    fn allocations_are_limited_by_participant_and_by_address() {
        let quotas = AllocationQuotas::new(MAX_ALLOCATIONS);
        let admit = |name: usize, host| {
            quotas.admit(
                &participant(&format!("PA_{name}"), "prj_000000000001"),
                address(host),
            )
        };
        let mut permits: Vec<_> = (0..MAX_PER_PARTICIPANT)
            .map(|host| admit(0, 10_000 + host).unwrap())
            .collect();
        assert_eq!(admit(0, 1).unwrap_err(), QuotaError::Quota);
        permits.extend((0..MAX_PER_ADDRESS).map(|name| admit(1 + name, 1).unwrap()));
        assert_eq!(admit(1_000, 1).unwrap_err(), QuotaError::Quota);
        permits.remove(0);
        permits.push(admit(0, 1_000).unwrap());
        assert_eq!(quotas.total(), MAX_PER_PARTICIPANT + MAX_PER_ADDRESS);
        drop(permits);
        let counted = quotas.counted.lock();
        assert!(
            counted.by_name.is_empty()
                && counted.by_address.is_empty()
                && counted.by_project.is_empty()
        );
    }

    /// Proves S-30.
    #[test]
    fn a_project_leaves_as_many_allocations_to_others_as_it_has() {
        let quotas = AllocationQuotas::new(3_000);
        let first = fill(&quotas, 1);
        assert_eq!(first.len(), 1_500);
        let second = fill(&quotas, 2);
        assert_eq!(second.len(), 750);
        drop(first);
        assert_eq!(
            fill(&quotas, 3).len(),
            1_125,
            "of those that are free again"
        );
        assert_eq!(second.len(), quotas.total());
    }

    #[test]
    fn many_projects_take_all_allocations_and_no_more() {
        let quotas = AllocationQuotas::new(64);
        let permits: Vec<_> = (0..200)
            .flat_map(|project| fill(&quotas, project))
            .collect();
        assert_eq!((permits.len(), quotas.total()), (64, 64));
        let last = quotas.admit(&participant("PA_last", "prj_000000000999"), address(1));
        assert_eq!(last.unwrap_err(), QuotaError::Capacity);
    }

    /// Proves S-30.
    #[test]
    fn an_address_takes_a_quarter_of_a_small_capacity() {
        let quotas = AllocationQuotas::new(64);
        let admit = |name: usize| {
            quotas
                .admit(
                    &participant(&format!("PA_{name}"), &format!("prj_{name:012}")),
                    address(1),
                )
                .ok()
        };
        assert_eq!((0..64).filter_map(admit).collect::<Vec<_>>().len(), 16);
    }

    #[test]
    fn unauthenticated_responses_are_limited_per_address_and_in_total() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let unauthenticated = UnauthenticatedLimits::new(&clock);
        let answered =
            |address: u32| unauthenticated.may_respond(Ipv4Addr::from_bits(address).into());
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 500);
        assert_eq!(
            (2..100_000).filter(|address| answered(*address)).count(),
            4_500
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 50);
    }
}
