//! Packets of data tracks. Only their beginning is read: the payload is the publisher's, and perhaps encrypted.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | V   |S|F|X|     reserved      |            handle             |
//! |        sequence number        |         frame number          |
//! |                           timestamp                           |
//! ```

/// The bytes of a packet before its extensions and its payload.
const HEADER: usize = 12;
/// Where the handle is.
const HANDLE: std::ops::Range<usize> = 2..4;
/// The bits of the version in the first byte. It is 0.
const VERSION: u8 = 0b1110_0000;

/// Returns the handle by which a publisher names the track of a packet; `None` if it is no packet that is known.
pub fn handle(packet: &[u8]) -> Option<u16> {
    let header = packet.get(..HEADER)?;
    let handle = u16::from_be_bytes(header[HANDLE].try_into().ok()?);
    (header[0] & VERSION == 0 && handle != 0).then_some(handle)
}

/// Sets the handle by which a subscriber knows the track of a packet that has one.
pub fn set_handle(packet: &mut [u8], handle: u16) {
    if let Some(field) = packet.get_mut(HANDLE) {
        field.copy_from_slice(&handle.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_packet_is_as_long_as_its_header_and_of_the_known_version() {
        let packet = [0x18, 0, 1, 2, 0, 3, 0, 4, 0, 0, 0, 5, 9, 9];
        assert_eq!(handle(&packet), Some(0x0102));
        assert_eq!(
            handle(&packet[..HEADER]),
            Some(0x0102),
            "a frame may be empty"
        );
        assert_eq!(handle(&packet[..HEADER - 1]), None);
        assert_eq!(handle(&[0; HEADER]), None, "0 is no handle");
        for version in 1..8 {
            let mut other = packet;
            other[0] |= version << 5;
            assert_eq!(handle(&other), None);
        }
    }

    proptest! {
        #[test]
        fn a_handle_is_replaced_and_all_else_stays(bytes in prop::collection::vec(any::<u8>(), 0..40), new in 1_u16..) {
            let mut replaced = bytes.clone();
            set_handle(&mut replaced, new);
            if handle(&bytes).is_some() {
                prop_assert_eq!(handle(&replaced), Some(new));
                prop_assert_eq!((&replaced[..2], &replaced[4..]), (&bytes[..2], &bytes[4..]));
            }
        }
    }
}
