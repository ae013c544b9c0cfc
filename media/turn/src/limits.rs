//! Limits: how many allocations there may be, of a participant, of a project, from an address and in all; and how many answers are
//! sent to addresses that have proved nothing.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use conclave_model::{ClientAddress, Clock, Counts, ProjectId, Rate, RateLimit, RateLimits};
use parking_lot::Mutex;

use crate::members::Member;

/// The most allocations of a participant. A browser makes one for each url, local address and peer connection, and again when it
/// restarts ICE.
pub const OF_PARTICIPANT: usize = 24;
/// The most allocations from one address (IPv6: from one /64), as TCP connections of a media worker.
pub const OF_ADDRESS: usize = 256;
/// The share of all allocations that one address has at the most, where the process may open few files.
const SHARE_OF_ADDRESS: usize = 4;
/// The most allocations. Each has a socket.
pub const MAX_ALLOCATIONS: usize = 4_096;
/// The answers to one address: enough for an office behind one address, whose clients need two each.
const ANSWERS_TO_ADDRESS: Rate = Rate {
    per_second: 50,
    burst: 500,
};
/// The answers in all: about 4 Mbit/s.
const ANSWERS_IN_ALL: Rate = Rate {
    per_second: 5_000,
    burst: 5_000,
};
/// Addresses are counted in so many groups, by a hash that strangers cannot predict. So nothing grows with their number.
const ADDRESS_GROUPS: u64 = 4_096;

/// Counts allocations. Clones share them.
#[derive(Debug, Clone)]
pub struct Quotas {
    max: usize,
    counted: Arc<Mutex<Counted>>,
}

#[derive(Debug, Default)]
struct Counted {
    by_name: Counts<Arc<str>>,
    by_project: Counts<ProjectId>,
    by_address: Counts<ClientAddress>,
}

/// An allocation that is counted until this is dropped.
#[derive(Debug)]
pub struct Permit {
    quotas: Quotas,
    member: Arc<Member>,
    address: ClientAddress,
}

/// What a further allocation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// The quota of the participant, the project or the address.
    Quota,
    /// The limit of all allocations.
    Capacity,
}

impl Quotas {
    /// No allocation exists, and this many may.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            counted: Arc::default(),
        }
    }

    /// Counts an allocation of a participant. A project may have as many as it leaves to others: alone half of all, beside another that
    /// wants as many a third.
    ///
    /// # Errors
    /// What it would exceed.
    pub fn admit(&self, member: &Arc<Member>, address: IpAddr) -> Result<Permit, Excess> {
        let address = ClientAddress::from(address);
        let mut counted = self.counted.lock();
        let free = self.max.saturating_sub(counted.by_name.total());
        if free == 0 {
            return Err(Excess::Capacity);
        }
        let of_address = OF_ADDRESS.min(self.max.div_ceil(SHARE_OF_ADDRESS));
        if counted.by_name.get(&member.name) >= OF_PARTICIPANT
            || counted.by_project.get(&member.project) >= free
            || counted.by_address.get(&address) >= of_address
        {
            return Err(Excess::Quota);
        }
        counted.by_name.add(Arc::clone(&member.name));
        counted.by_project.add(member.project.clone());
        counted.by_address.add(address);
        Ok(Permit {
            quotas: self.clone(),
            member: Arc::clone(member),
            address,
        })
    }

    /// Returns the number of allocations.
    #[cfg(test)]
    pub fn total(&self) -> usize {
        self.counted.lock().by_name.total()
    }
}

impl Permit {
    /// Returns the participant whose allocation is counted.
    pub fn member(&self) -> &Arc<Member> {
        &self.member
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counted = self.quotas.counted.lock();
        counted.by_name.subtract(&self.member.name);
        counted.by_project.subtract(&self.member.project);
        counted.by_address.subtract(&self.address);
    }
}

/// Limits answers to strangers, by address and in all. Over UDP anyone can write any address as the sender.
#[derive(Debug)]
pub struct Strangers {
    hasher: RandomState,
    groups: RateLimits<u64>,
    all: RateLimit,
}

impl Strangers {
    /// Nothing has been answered.
    pub fn new(clock: &Clock) -> Self {
        let (groups, all) = (
            RateLimits::new(clock, ANSWERS_TO_ADDRESS),
            RateLimit::new(clock, ANSWERS_IN_ALL),
        );
        Self {
            hasher: RandomState::new(),
            groups,
            all,
        }
    }

    /// Counts an answer to an address; returns whether it may be sent.
    pub fn may_answer(&self, address: IpAddr) -> bool {
        let group = self.hasher.hash_one(ClientAddress::from(address)) % ADDRESS_GROUPS;
        self.groups.take(&group, 1) && self.all.take(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use conclave_model::Timestamp;

    use super::*;
    use crate::members::member;

    fn address(host: usize) -> IpAddr {
        Ipv4Addr::from_bits(u32::try_from(host).unwrap()).into()
    }

    /// Counts one allocation of each of many participants of a project, each from an address of its own.
    fn fill(quotas: &Quotas, project: usize) -> Vec<Permit> {
        let project_id = format!("prj_{project:012}");
        let admit = |number: usize| {
            let member = member(&format!("PA_{project}_{number}"), &project_id);
            quotas
                .admit(&member, address(project * 100_000 + number))
                .ok()
        };
        (0..10_000).map_while(admit).collect()
    }

    #[test]
    fn allocations_are_limited_by_participant_and_by_address() {
        let quotas = Quotas::new(MAX_ALLOCATIONS);
        let admit = |name: usize, host| {
            quotas.admit(
                &member(&format!("PA_{name}"), "prj_000000000001"),
                address(host),
            )
        };
        let mut permits: Vec<_> = (0..OF_PARTICIPANT)
            .map(|host| admit(0, 10_000 + host).unwrap())
            .collect();
        assert_eq!(admit(0, 1).unwrap_err(), Excess::Quota);
        permits.extend((0..OF_ADDRESS).map(|name| admit(1 + name, 1).unwrap()));
        assert_eq!(admit(1_000, 1).unwrap_err(), Excess::Quota);
        permits.remove(0);
        permits.push(admit(0, 1_000).unwrap());
        assert_eq!(quotas.total(), OF_PARTICIPANT + OF_ADDRESS);
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
        let quotas = Quotas::new(3_000);
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
        let quotas = Quotas::new(64);
        let permits: Vec<_> = (0..200)
            .flat_map(|project| fill(&quotas, project))
            .collect();
        assert_eq!((permits.len(), quotas.total()), (64, 64));
        let last = quotas.admit(&member("PA_last", "prj_000000000999"), address(1));
        assert_eq!(last.unwrap_err(), Excess::Capacity);
    }

    /// Proves S-30.
    #[test]
    fn one_address_takes_a_quarter_of_few_allocations() {
        let quotas = Quotas::new(64);
        let admit = |name: usize| {
            quotas
                .admit(
                    &member(&format!("PA_{name}"), &format!("prj_{name:012}")),
                    address(1),
                )
                .ok()
        };
        assert_eq!((0..64).filter_map(admit).collect::<Vec<_>>().len(), 16);
    }

    #[test]
    fn answers_are_limited_by_address_and_in_all() {
        let clock = Clock::manual(Timestamp::from_millis(0));
        let strangers = Strangers::new(&clock);
        let answered = |address: u32| strangers.may_answer(Ipv4Addr::from_bits(address).into());
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 500);
        assert_eq!(
            (2..100_000).filter(|address| answered(*address)).count(),
            4_500
        );
        clock.advance(Duration::from_secs(1));
        assert_eq!((0..10_000).filter(|_| answered(1)).count(), 50);
    }
}
