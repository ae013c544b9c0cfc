//! Secrets that are never printed, and random text.

use std::cell::RefCell;
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

/// Random bytes that are drawn at once.
const DRAW: usize = 32;
/// Random bytes that a thread takes from the operating system at once for [`unique_text`].
const SUPPLY: usize = 16 * DRAW;

/// Returns `len` characters, drawn uniformly from `alphabet`.
pub fn random_text(len: usize, alphabet: &[u8]) -> String {
    drawn_text(len, alphabet, random_bytes::<DRAW>)
}

/// Returns `len` characters, drawn uniformly from `alphabet`, that only have to differ from all others. Not for secrets: the random bytes of
/// the next texts are in the thread's memory, which saves most calls of the operating system.
pub fn unique_text(len: usize, alphabet: &[u8]) -> String {
    SUPPLIES.with_borrow_mut(|supply| drawn_text(len, alphabet, || supply.draw()))
}

fn drawn_text(len: usize, alphabet: &[u8], mut draw: impl FnMut() -> [u8; DRAW]) -> String {
    let mut text = String::with_capacity(len);
    // A draw may yield too few characters: for base62, 8 of the 256 byte values are skipped.
    while text.len() < len {
        text.extend(fair_characters(&draw(), alphabet).take(len - text.len()));
    }
    text
}

/// A thread's random bytes.
struct Supply {
    bytes: [u8; SUPPLY],
    /// Number of bytes that were drawn.
    drawn: usize,
}

thread_local! {
    static SUPPLIES: RefCell<Supply> = const {
        RefCell::new(Supply {
            bytes: [0; SUPPLY],
            drawn: SUPPLY,
        })
    };
}

impl Supply {
    /// Returns bytes that were not drawn before.
    fn draw(&mut self) -> [u8; DRAW] {
        if self.drawn == SUPPLY {
            *self = Self {
                bytes: random_bytes(),
                drawn: 0,
            };
        }
        let mut bytes = [0; DRAW];
        bytes.copy_from_slice(&self.bytes[self.drawn..self.drawn + DRAW]);
        self.drawn += DRAW;
        bytes
    }
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
    fn unique_texts_differ_beyond_a_supply_of_random_bytes() {
        let texts = 4 * SUPPLY / DRAW;
        let distinct: std::collections::BTreeSet<_> =
            (0..texts).map(|_| unique_text(16, BASE62)).collect();
        assert_eq!(distinct.len(), texts);
        assert!(distinct.iter().all(|text| text.len() == 16));
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
