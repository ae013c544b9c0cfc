//! Ids of objects in a room.

use std::str::FromStr;

use conclave_model::secret::{BASE62, random_text};

/// Returns an unused id: the prefix and 12 random characters.
pub(super) fn unused_id<Id: FromStr>(prefix: &str, is_used: impl Fn(&Id) -> bool) -> Id {
    loop {
        // Parsing never fails, since the text is short and printable. 62^12 values make a second iteration all but
        // impossible.
        if let Ok(id) = format!("{prefix}{}", random_text(12, BASE62)).parse()
            && !is_used(&id)
        {
            return id;
        }
    }
}
