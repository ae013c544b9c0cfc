//! A client's allocation: lifetime, permissions and channels.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use stun_types::message::{IntegrityKey, TransactionId};

use crate::admission::AdmittedParticipant;
use crate::limits::AllocationPermit;

/// Lifetime without a refresh: the default in RFC 8656, whatever a client requests.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// Permission lifetime (RFC 8656, section 9).
const PERMISSION_LIFETIME: Duration = Duration::from_secs(300);
/// Channel lifetime (RFC 8656, section 12).
const CHANNEL_LIFETIME: Duration = Duration::from_secs(600);

/// Channel numbers. RFC 8656 ends them at 0x4fff; RFC 5766 allowed them up to 0x7ffe.
const CHANNEL_NUMBERS: std::ops::RangeInclusive<u16> = 0x4000..=0x7ffe;

/// A client's right to have datagrams relayed. Times are on a monotonic clock.
#[derive(Debug)]
pub struct Allocation {
    /// User name in the client's credentials.
    pub username: String,
    /// Key for the client's signatures.
    pub key: IntegrityKey,
    /// Transaction id of the Allocate request, which may be repeated.
    pub request: TransactionId,
    /// Socket address.
    pub relayed: SocketAddr,
    expires: Duration,
    permissions: Vec<(IpAddr, Duration)>,
    channels: Vec<Channel>,
    /// Permit, which counts towards the quotas.
    permit: AllocationPermit,
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    number: u16,
    peer: SocketAddr,
    expires: Duration,
}

/// The channel has another peer, the peer has another channel, or the number is not a channel
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelConflict;

impl Allocation {
    /// Creates an allocation without permissions.
    pub fn new(
        (username, key): (String, IntegrityKey),
        request: TransactionId,
        relayed: SocketAddr,
        permit: AllocationPermit,
        now: Duration,
    ) -> Self {
        let (expires, permissions, channels) = (now + LIFETIME, Vec::new(), Vec::new());
        Self {
            username,
            key,
            request,
            relayed,
            expires,
            permissions,
            channels,
            permit,
        }
    }

    /// Extends the lifetime to [`LIFETIME`] from now.
    pub fn refresh(&mut self, now: Duration) {
        // Whatever lifetime the client requested: RFC 8656 lets the server decide.
        self.expires = now + LIFETIME;
    }

    /// Returns whether the lifetime is over or the participant has left.
    pub fn has_ended(&self, now: Duration) -> bool {
        self.expires <= now || self.participant().has_left()
    }

    pub fn participant(&self) -> &Arc<AdmittedParticipant> {
        self.permit.participant()
    }

    /// Permits a peer, at all its ports. The caller only passes media workers' addresses, which
    /// bounds the list.
    pub fn permit(&mut self, peer: IpAddr, now: Duration) {
        // Permissions are few, so a list is faster than a map.
        self.permissions.retain(|(permitted, _)| *permitted != peer);
        // Renewed, rather than added: the list has one entry per media worker address.
        self.permissions.push((peer, now + PERMISSION_LIFETIME));
    }

    pub fn permits(&self, peer: IpAddr, now: Duration) -> bool {
        self.permissions
            .iter()
            .any(|(permitted, expires)| *permitted == peer && now < *expires)
    }

    /// Binds a channel to a peer, or renews it, and permits the peer.
    ///
    /// # Errors
    /// [`ChannelConflict`]
    pub fn bind(
        &mut self,
        number: u16,
        peer: SocketAddr,
        now: Duration,
    ) -> Result<(), ChannelConflict> {
        // Expired channels must not conflict with new ones, nor fill the list.
        self.channels.retain(|channel| now < channel.expires);
        // Exactly one of the two matches: RFC 8656 allows to renew a binding, not to change it.
        let is_other = |channel: &Channel| (channel.number == number) != (channel.peer == peer);
        if !CHANNEL_NUMBERS.contains(&number) || self.channels.iter().any(is_other) {
            return Err(ChannelConflict);
        }
        // A renewed channel replaces itself. Peers are checked, so there are few channels.
        self.channels.retain(|channel| channel.number != number);
        self.channels.push(Channel {
            number,
            peer,
            expires: now + CHANNEL_LIFETIME,
        });
        // ChannelBind also installs a permission (RFC 8656, section 12.2).
        self.permit(peer.ip(), now);
        Ok(())
    }

    /// Returns the peer that a channel is bound to.
    pub fn peer(&self, number: u16, now: Duration) -> Option<SocketAddr> {
        let mut channels = self.channels.iter();
        channels
            .find(|channel| channel.number == number && now < channel.expires)
            .map(|channel| channel.peer)
    }

    /// Returns the channel bound to a peer.
    pub fn channel(&self, peer: SocketAddr, now: Duration) -> Option<u16> {
        let mut channels = self.channels.iter();
        channels
            .find(|channel| channel.peer == peer && now < channel.expires)
            .map(|channel| channel.number)
    }
}

#[cfg(test)]
mod tests {
    use stun_types::message::{IntegrityAlgorithm, LongTermCredentials};

    use super::*;
    use crate::admission::participant;
    use crate::limits::{AllocationQuotas, MAX_ALLOCATIONS};

    const SECOND: Duration = Duration::from_secs(1);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn allocation(now: Duration) -> Allocation {
        let key = LongTermCredentials::new("a".into(), "b".into()).to_key("c".into());
        let key = key.make_key(IntegrityAlgorithm::Sha1);
        let quotas = AllocationQuotas::new(MAX_ALLOCATIONS);
        let permit = quotas
            .admit(
                &participant("a", "prj_000000000001"),
                address("192.0.2.9:1").ip(),
            )
            .unwrap();
        Allocation::new(
            ("a".into(), key),
            1.into(),
            address("192.0.2.1:1"),
            permit,
            now,
        )
    }

    #[test]
    fn an_allocation_lasts_as_long_as_it_is_refreshed() {
        let mut made = allocation(SECOND);
        assert!(!made.has_ended(LIFETIME) && made.has_ended(LIFETIME + SECOND));
        made.refresh(LIFETIME);
        assert!(!made.has_ended(2 * LIFETIME - SECOND) && made.has_ended(2 * LIFETIME));
    }

    #[test]
    fn a_permission_lasts_five_minutes() {
        let (mut made, peer, other) = (
            allocation(SECOND),
            address("192.0.2.1:1").ip(),
            address("192.0.2.2:1").ip(),
        );
        assert!(!made.permits(peer, SECOND));
        made.permit(peer, SECOND);
        assert!(made.permits(peer, PERMISSION_LIFETIME) && !made.permits(other, SECOND));
        assert!(!made.permits(peer, PERMISSION_LIFETIME + SECOND));
        made.permit(peer, PERMISSION_LIFETIME);
        assert!(made.permits(peer, PERMISSION_LIFETIME + SECOND));
        assert_eq!(made.permissions.len(), 1);
    }

    #[test]
    fn a_channel_has_one_peer_for_ten_minutes_and_a_peer_one_channel() {
        let (mut made, peer, other) = (
            allocation(SECOND),
            address("192.0.2.1:1"),
            address("192.0.2.1:2"),
        );
        assert_eq!(made.bind(0x4000, peer, SECOND), Ok(()));
        assert!(made.permits(peer.ip(), SECOND));
        assert_eq!(
            (
                made.peer(0x4000, CHANNEL_LIFETIME),
                made.channel(peer, CHANNEL_LIFETIME)
            ),
            (Some(peer), Some(0x4000))
        );
        assert_eq!(
            (made.peer(0x4001, SECOND), made.channel(other, SECOND)),
            (None, None)
        );
        assert_eq!(made.bind(0x4000, other, SECOND), Err(ChannelConflict));
        assert_eq!(made.bind(0x4001, peer, SECOND), Err(ChannelConflict));
        for number in [0, 0x3fff, 0x7fff, 0xffff] {
            assert_eq!(
                made.bind(number, other, SECOND),
                Err(ChannelConflict),
                "{number}"
            );
        }
        assert_eq!(made.bind(0x4000, peer, CHANNEL_LIFETIME), Ok(()));
        assert_eq!(made.peer(0x4000, CHANNEL_LIFETIME + SECOND), Some(peer));
        let later = 3 * CHANNEL_LIFETIME;
        assert_eq!(
            (made.peer(0x4000, later), made.channel(peer, later)),
            (None, None)
        );
        assert_eq!(made.bind(0x4000, other, later), Ok(()));
        assert_eq!(made.channels.len(), 1);
    }
}
