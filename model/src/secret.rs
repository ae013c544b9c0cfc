//! Secrets that are never printed, and random text.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// Text that `Debug` shows as `***` and whose memory is zeroed on drop. There is no `Display`:
/// every use calls [`Secret::reveal`].
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(SecretString::new(text.into()))
    }

    /// Returns the text, to sign with it, send it or show it once.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.reveal() == other.reveal()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Returns `N` random bytes from the operating system.
///
/// # Panics
/// If the operating system provides no random bytes. Predictable secrets would be worse.
#[expect(
    clippy::expect_used,
    reason = "without random bytes, secrets would be predictable"
)]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// Returns `len` characters, drawn uniformly from `alphabet`.
pub fn random_text(len: usize, alphabet: &[u8]) -> String {
    let mut text = String::with_capacity(len);
    // A draw may yield too few characters: for base62, 8 of the 256 byte values are skipped.
    while text.len() < len {
        let drawn: [u8; 32] = random_bytes();
        text.extend(fair_characters(&drawn, alphabet).take(len - text.len()));
    }
    text
}

/// Maps random bytes to characters. Bytes beyond the largest multiple of the alphabet's length are
/// skipped, since they would favor its first characters.
fn fair_characters(drawn: &[u8], alphabet: &[u8]) -> impl Iterator<Item = char> {
    let limit = 256 - 256 % alphabet.len();
    let fair = drawn
        .iter()
        .map(|b| usize::from(*b))
        .filter(move |b| *b < limit);
    // Every remaining byte value stands for one character equally often.
    fair.map(|b| alphabet[b % alphabet.len()] as char)
}

/// Digits and letters, for API keys and sids.
pub const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// 32 lower-case characters without the similar `0`, `1`, `i` and `l`, for codes that are read
/// aloud or typed.
pub const UNAMBIGUOUS: &[u8] = b"abcdefghjkmnopqrstuvwxyz23456789";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unambiguous_alphabet_has_32_distinct_characters_without_similar_ones() {
        let distinct: std::collections::BTreeSet<_> = UNAMBIGUOUS.iter().collect();
        assert_eq!((UNAMBIGUOUS.len(), distinct.len()), (32, 32));
        assert!(
            UNAMBIGUOUS
                .iter()
                .all(|b| !b.is_ascii_uppercase() && !b"01il".contains(b))
        );
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        assert_eq!(format!("{:?}", Secret::new("whsec_abc")), "***");
    }

    #[test]
    fn each_character_is_drawn_from_equally_many_bytes() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for (alphabet, bytes) in [(BASE62, 4), (UNAMBIGUOUS, 8)] {
            let drawn: Vec<char> = fair_characters(&every_byte, alphabet).collect();
            for character in alphabet {
                assert_eq!(
                    drawn
                        .iter()
                        .filter(|drawn| **drawn == char::from(*character))
                        .count(),
                    bytes
                );
            }
        }
    }

    #[test]
    fn secrets_are_equal_if_their_texts_are() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
    }

    #[test]
    fn random_text_has_the_requested_length_and_alphabet() {
        let text = random_text(43, BASE62);
        assert_eq!(text.len(), 43);
        assert!(text.bytes().all(|b| BASE62.contains(&b)));
        assert_ne!(text, random_text(43, BASE62));
    }
}
