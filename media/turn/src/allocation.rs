//! The allocation of a client: how long it lasts, whom it may send to, and the numbers of its channels.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use stun_types::message::{IntegrityKey, TransactionId};

use crate::limits::Permit;
use crate::members::Member;

/// How long an allocation lasts without a refresh: the default of RFC 8656, whatever a client asks for.
pub const LIFETIME: Duration = Duration::from_secs(600);
/// How long a permission lasts.
const PERMISSION: Duration = Duration::from_secs(300);
/// How long a channel lasts.
const CHANNEL: Duration = Duration::from_secs(600);

/// The numbers that clients give to channels. Those of RFC 8656 end at 0x4fff.
const CHANNELS: std::ops::RangeInclusive<u16> = 0x4000..=0x7ffe;

/// A client's right to have datagrams relayed. Times are those of a clock that never goes back.
#[derive(Debug)]
pub struct Allocation {
    /// The user name of its client.
    pub username: String,
    /// The key that this client signs with.
    pub key: IntegrityKey,
    /// The request that made it, which may come twice.
    pub request: TransactionId,
    /// The address of its socket.
    pub relayed: SocketAddr,
    expires: Duration,
    permissions: Vec<(IpAddr, Duration)>,
    channels: Vec<Channel>,
    /// Counts it until it is dropped.
    permit: Permit,
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    number: u16,
    peer: SocketAddr,
    expires: Duration,
}

/// A channel has another peer, or a peer another channel, or the number is none of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelConflict;

impl Allocation {
    /// Begins an allocation without permissions.
    pub fn new(
        (username, key): (String, IntegrityKey),
        request: TransactionId,
        relayed: SocketAddr,
        permit: Permit,
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

    /// Lets it last for another [`LIFETIME`].
    pub fn refresh(&mut self, now: Duration) {
        self.expires = now + LIFETIME;
    }

    /// Returns whether it is over: its time is, or its participant has left.
    pub fn has_ended(&self, now: Duration) -> bool {
        self.expires <= now || self.member().has_left()
    }

    /// Returns the participant that it belongs to.
    pub fn member(&self) -> &Arc<Member> {
        self.permit.member()
    }

    /// Permits a peer, at all of its ports. The number of permissions is bounded by the number of addresses of media workers, which the
    /// caller checks.
    pub fn permit(&mut self, peer: IpAddr, now: Duration) {
        self.permissions.retain(|(permitted, _)| *permitted != peer);
        self.permissions.push((peer, now + PERMISSION));
    }

    /// Returns whether a peer is permitted.
    pub fn permits(&self, peer: IpAddr, now: Duration) -> bool {
        self.permissions
            .iter()
            .any(|(permitted, expires)| *permitted == peer && now < *expires)
    }

    /// Binds a channel to a peer, or again, and permits the peer.
    ///
    /// # Errors
    /// [`ChannelConflict`].
    pub fn bind(
        &mut self,
        number: u16,
        peer: SocketAddr,
        now: Duration,
    ) -> Result<(), ChannelConflict> {
        self.channels.retain(|channel| now < channel.expires);
        let is_other = |channel: &Channel| (channel.number == number) != (channel.peer == peer);
        if !CHANNELS.contains(&number) || self.channels.iter().any(is_other) {
            return Err(ChannelConflict);
        }
        self.channels.retain(|channel| channel.number != number);
        self.channels.push(Channel {
            number,
            peer,
            expires: now + CHANNEL,
        });
        self.permit(peer.ip(), now);
        Ok(())
    }

    /// Returns the peer of a channel.
    pub fn peer(&self, number: u16, now: Duration) -> Option<SocketAddr> {
        let mut channels = self.channels.iter();
        channels
            .find(|channel| channel.number == number && now < channel.expires)
            .map(|channel| channel.peer)
    }

    /// Returns the channel of a peer.
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
    use crate::limits::{MAX_ALLOCATIONS, Quotas};
    use crate::members::member;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn allocation(now: Duration) -> Allocation {
        let key = LongTermCredentials::new("a".into(), "b".into()).to_key("c".into());
        let key = key.make_key(IntegrityAlgorithm::Sha1);
        let quotas = Quotas::new(MAX_ALLOCATIONS);
        let permit = quotas
            .admit(
                &member("a", "prj_000000000001"),
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
        assert!(made.permits(peer, PERMISSION) && !made.permits(other, SECOND));
        assert!(!made.permits(peer, PERMISSION + SECOND));
        made.permit(peer, PERMISSION);
        assert!(made.permits(peer, PERMISSION + SECOND));
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
            (made.peer(0x4000, CHANNEL), made.channel(peer, CHANNEL)),
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
        assert_eq!(made.bind(0x4000, peer, CHANNEL), Ok(()));
        assert_eq!(made.peer(0x4000, CHANNEL + SECOND), Some(peer));
        let later = 3 * CHANNEL;
        assert_eq!(
            (made.peer(0x4000, later), made.channel(peer, later)),
            (None, None)
        );
        assert_eq!(made.bind(0x4000, other, later), Ok(()));
        assert_eq!(made.channels.len(), 1);
    }
}
