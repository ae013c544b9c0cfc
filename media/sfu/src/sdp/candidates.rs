//! The ICE candidates in a session description.

use std::borrow::Cow;
use std::net::IpAddr;

/// Removes the candidates whose address is not to be kept, and those without an address, such as names of mDNS.
pub fn filter_candidates(sdp: &str, mut keep: impl FnMut(IpAddr) -> bool) -> Cow<'_, str> {
    if !sdp.contains("a=candidate") {
        return Cow::Borrowed(sdp);
    }
    let is_kept =
        |line: &&str| !line.starts_with("a=candidate") || address(line).is_some_and(&mut keep);
    Cow::Owned(sdp.split_inclusive('\n').filter(is_kept).collect())
}

/// Returns the address of a candidate: `a=candidate:foundation component transport priority address port ...`.
fn address(line: &str) -> Option<IpAddr> {
    line.split(' ').nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_candidates_with_a_wanted_address_are_kept() {
        let candidate =
            |address: &str| format!("a=candidate:1 1 udp 2130706431 {address} 5000 typ host\r\n");
        let text = |addresses: &[&str]| {
            let candidates: String = addresses.iter().map(|address| candidate(address)).collect();
            format!("v=0\r\nm=audio 9 X 0\r\n{candidates}a=end-of-candidates\r\na=mid:0\r\n")
        };
        let hidden = "a=candidate:1\t1\t1\t1\t192.0.2.1\t1 1 udp 1 10.0.0.1 1 typ host\n";
        let offered = text(&["192.0.2.1", "10.0.0.1", "x.local", "2001:db8::1", ""])
            + hidden
            + "a=candidate:1";
        let kept = filter_candidates(&offered, |address| address != IpAddr::from([10, 0, 0, 1]));
        assert_eq!(kept, text(&["192.0.2.1", "2001:db8::1"]));
        assert_eq!(filter_candidates(&offered, |_| false), text(&[]));
        assert!(matches!(
            filter_candidates(&text(&[]), |_| false),
            Cow::Borrowed(_)
        ));
    }
}
