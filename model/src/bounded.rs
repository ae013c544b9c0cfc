//! Bounded integers, so that a role's numbers are checked while they are parsed and the error names
//! the allowed range.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr};

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident, $from:literal ..= $to:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        // From `i64`, so that a number outside `i32` gets the same message.
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i32);

        impl $name {
            /// The number, if it lies in the range.
            pub const fn new(value: i64) -> Option<Self> {
                // Both bounds fit into `i32`, so the conversion cannot truncate.
                if value >= $from && value <= $to { Some(Self(value as i32)) } else { None }
            }

            /// A number known to lie in the range when the program is compiled.
            pub const fn known(value: i64) -> Self {
                match Self::new(value) {
                    Some(number) => number,
                    None => panic!("out of range"),
                }
            }

            /// Returns the number, which lies in the range.
            pub const fn get(self) -> i32 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;

            fn try_from(value: i64) -> Result<Self, String> {
                Self::new(value).ok_or_else(|| {
                    let (from, to): (i64, i64) = ($from, $to);
                    format!("must be an integer from {from} to {to}")
                })
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let (from, to): (i32, i32) = ($from, $to);
                let format = SchemaFormat::KnownFormat(KnownFormat::Int32);
                let integer = ObjectBuilder::new().schema_type(Type::Integer).format(Some(format));
                integer.minimum(Some(from)).maximum(Some(to)).into()
            }
        }

        impl utoipa::ToSchema for $name {}

        impl From<$name> for i64 {
            fn from(number: $name) -> i64 {
                number.0.into()
            }
        }
    };
}

// The ranges of the contract, in kbit/s, frames and pixels.
bounded!(
    /// A bitrate in kilobits a second.
    Kbps, 16 ..= 50_000
);
bounded!(
    /// Frames a second.
    FrameRate, 1 ..= 60
);
bounded!(
    /// A width or a height in pixels.
    Pixels, 16 ..= 7_680
);
bounded!(
    /// A role's priority: 1 is the most important.
    Priority, 1 ..= 2_147_483_647
);
bounded!(
    /// Maximum duration of a room in seconds, from its first join: at most seven days, 0 is unlimited.
    MaxDuration, 0 ..= 604_800
);
// -1 closes a role without deleting it (contract).
bounded!(
    /// Maximum number of concurrent holders of a role in one room: -1 admits no participant, 0 is unlimited.
    PeerCount, -1 ..= 2_147_483_647
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_range_belong_to_it() {
        assert!(Kbps::new(15).is_none() && Kbps::new(16).is_some());
        assert!(Kbps::new(50_000).is_some() && Kbps::new(50_001).is_none());
        assert!(PeerCount::new(-2).is_none() && PeerCount::new(-1).is_some());
        assert!(Priority::new(0).is_none() && Priority::new(i64::from(i32::MAX) + 1).is_none());
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let refusal = serde_json::from_str::<FrameRate>("61")
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("must be an integer from 1 to 60"),
            "{refusal}"
        );
    }
}
