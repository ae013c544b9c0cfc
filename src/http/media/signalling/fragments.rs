//! Messages of a websocket that come in fragments.

use actix_web::web::Bytes;
use actix_ws::Item;
use conclave_media::embedded::SignalFrame;

/// The fragments of a message that is not complete, joined. Many small ones take no more memory than their bytes.
#[derive(Debug)]
pub struct Fragments {
    joined: Vec<u8>,
    is_text: bool,
    max_bytes: usize,
}

/// Why fragments are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentError {
    /// It is larger than it may be.
    TooLarge,
    /// It is a text, and not UTF-8.
    NotUtf8,
}

impl Fragments {
    /// Returns no fragments of a message that may have this size.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            joined: Vec::new(),
            is_text: false,
            max_bytes,
        }
    }

    /// Adds a fragment, and returns the message if it was the last one.
    pub fn add(&mut self, item: Item) -> Result<Option<SignalFrame>, FragmentError> {
        let (bytes, is_last) = match item {
            Item::FirstText(bytes) => (self.begin(true, bytes), false),
            Item::FirstBinary(bytes) => (self.begin(false, bytes), false),
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        if self.joined.len() + bytes.len() > self.max_bytes {
            return Err(FragmentError::TooLarge);
        }
        self.joined.extend_from_slice(&bytes);
        if is_last {
            self.complete().map(Some)
        } else {
            Ok(None)
        }
    }

    fn begin(&mut self, is_text: bool, bytes: Bytes) -> Bytes {
        self.joined.clear();
        self.is_text = is_text;
        bytes
    }

    fn complete(&mut self) -> Result<SignalFrame, FragmentError> {
        let joined = std::mem::take(&mut self.joined);
        match self.is_text {
            true => String::from_utf8(joined)
                .map(SignalFrame::Text)
                .map_err(|_| FragmentError::NotUtf8),
            false => Ok(SignalFrame::Binary(joined)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_joined_to_a_message_of_bounded_size() {
        let mut fragments = Fragments::new(6);
        assert!(
            fragments
                .add(Item::FirstBinary("ab".into()))
                .unwrap()
                .is_none()
        );
        assert!(
            fragments
                .add(Item::Continue("cd".into()))
                .unwrap()
                .is_none()
        );
        let message = fragments.add(Item::Last("ef".into())).unwrap().unwrap();
        assert_eq!(message, SignalFrame::Binary(b"abcdef".to_vec()));

        fragments.add(Item::FirstText("abcd".into())).unwrap();
        assert_eq!(
            fragments.add(Item::Last("ef".into())).unwrap(),
            Some(SignalFrame::Text("abcdef".into()))
        );
        fragments.add(Item::FirstText("abcd".into())).unwrap();
        assert_eq!(
            fragments.add(Item::Continue("efg".into())),
            Err(FragmentError::TooLarge)
        );
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_refused() {
        let mut fragments = Fragments::new(6);
        fragments
            .add(Item::FirstText(Bytes::from_static(&[0xff])))
            .unwrap();
        assert_eq!(
            fragments.add(Item::Last(Bytes::new())),
            Err(FragmentError::NotUtf8)
        );
    }
}
