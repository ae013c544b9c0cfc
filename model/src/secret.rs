//! Values that must never be printed, and where random ones come from.

use std::fmt;

/// Text that neither `Debug` nor `Display` shows. [`Secret::reveal`] is the one way to its inside, so that every use can
/// be found by that name.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself. Only for what must be signed, sent or shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `N` bytes from the operating system's generator.
///
/// # Panics
/// When the operating system has no randomness to give: nothing secret can be made then, and going on would be worse.
#[must_use]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// `len` characters drawn evenly from `alphabet`, by refusing bytes past its last whole multiple.
#[must_use]
pub fn random_text(len: usize, alphabet: &[u8]) -> String {
    let limit = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(len);
    while text.len() < len {
        let drawn: [u8; 32] = random_bytes();
        let fair = drawn.iter().map(|b| *b as usize).filter(|b| *b < limit);
        text.extend(fair.take(len - text.len()).map(|b| alphabet[b % alphabet.len()] as char));
    }
    text
}

/// Letters and digits: the alphabet of API keys and sids.
pub const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// 32 lower-case characters that nobody takes for one another, for what is read out or typed: `0`, `1`, `i` and `l` are
/// not among them.
pub const UNAMBIGUOUS: &[u8] = b"abcdefghjkmnopqrstuvwxyz23456789";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unambiguous_alphabet_has_32_characters_none_of_them_twice_or_easily_mistaken() {
        let distinct: std::collections::BTreeSet<_> = UNAMBIGUOUS.iter().collect();
        assert_eq!((UNAMBIGUOUS.len(), distinct.len()), (32, 32));
        assert!(UNAMBIGUOUS.iter().all(|b| !b.is_ascii_uppercase() && !b"01il".contains(b)));
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("whsec_abc")), "***");
    }

    #[test]
    fn random_text_has_the_length_and_alphabet_asked_for() {
        let text = random_text(43, BASE62);
        assert_eq!(text.len(), 43);
        assert!(text.bytes().all(|b| BASE62.contains(&b)));
        assert_ne!(text, random_text(43, BASE62));
    }
}
