//! Ids that a room gives to what is in it.

use std::str::FromStr;

use conclave_model::secret::{BASE62, random_text};

/// Returns an id that is not in use: the prefix and 12 random characters.
pub(super) fn unused_id<Id: FromStr>(prefix: &str, is_used: impl Fn(&Id) -> bool) -> Id {
    loop {
        // Parsing never fails, since the text is short and printable. A second iteration is all but impossible.
        if let Ok(id) = format!("{prefix}{}", random_text(12, BASE62)).parse()
            && !is_used(&id)
        {
            return id;
        }
    }
}
