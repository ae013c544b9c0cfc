//! Which API keys were used today, as far as this process has recorded it.

use std::collections::HashMap;

use conclave_model::key::ApiKeyPrefix;
use conclave_model::usage::Day;
use parking_lot::Mutex;

/// Maximum number of keys that [`KeyUses`] remembers.
const MOST_KEYS: usize = 10_000;

/// Keys whose use today is being recorded, so that concurrent requests with a key cause one write.
#[derive(Debug, Default)]
pub struct KeyUses(Mutex<HashMap<ApiKeyPrefix, Day>>);

impl KeyUses {
    /// Returns whether this is the key's first use on a day.
    pub fn is_first(&self, prefix: &ApiKeyPrefix, today: Day) -> bool {
        let mut uses = self.0.lock();
        // Cleared rather than evicted one by one: a forgotten key costs one write, which changes nothing.
        if uses.len() >= MOST_KEYS && !uses.contains_key(prefix) {
            uses.clear();
        }
        uses.insert(prefix.clone(), today) != Some(today)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_used_first_once_a_day_and_a_bounded_number_is_remembered() {
        let (uses, day) = (KeyUses::default(), Day::from_number(1));
        let prefix = |number: usize| {
            let text: String = format!("vk_test_{number:04x}");
            text.parse::<ApiKeyPrefix>().unwrap()
        };
        assert!(uses.is_first(&prefix(0), day) && !uses.is_first(&prefix(0), day));
        assert!(uses.is_first(&prefix(0), day.plus(1)));
        for number in 0..=MOST_KEYS {
            uses.is_first(&prefix(number), day);
        }
        assert_eq!(uses.0.lock().len(), 1);
    }
}
