//! Instants, as the wire shows them: RFC 3339, UTC, milliseconds, `Z`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// An instant in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// An instant from milliseconds since the epoch, brought into the years 1970 to 9999.
    pub const fn from_millis(millis: i64) -> Self {
        const LAST: i64 = 253_402_207_200_000;
        Self(if millis < 0 {
            0
        } else if millis > LAST {
            LAST
        } else {
            millis
        })
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This instant and `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// This instant and `span` earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_sub(millis))
    }

    /// How long from `earlier` to this; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// The first instant of this instant's calendar month, in UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        let date = self.zoned().date().first_of_month();
        Self::from_millis(date.to_zoned(jiff::tz::TimeZone::UTC).map_or(self.0, |z| z.timestamp().as_millisecond()))
    }

    fn zoned(self) -> jiff::Zoned {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{at:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let doc = "An instant in UTC: RFC 3339 with milliseconds and `Z`.";
        crate::schema::formatted(doc, utoipa::openapi::KnownFormat::DateTime)
    }
}

crate::schema::read_by_from_str!(Timestamp);

/// A text that is not an RFC 3339 timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 timestamp, like 2026-01-31T12:00:00Z")]
pub struct ParseTimestampError;

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        // jiff would also take a space for the `T` and other ISO 8601 forms that RFC 3339 lacks.
        let shaped = text.len() >= 20 && text.is_ascii() && matches!(text.as_bytes()[10], b'T' | b't');
        if !shaped {
            return Err(ParseTimestampError);
        }
        text.parse::<jiff::Timestamp>()
            .map(|at| Self::from_millis(at.as_millisecond()))
            .map_err(|_| ParseTimestampError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_reads_as_milliseconds_and_z() {
        assert_eq!(Timestamp::from_millis(1_700_000_000_000).to_string(), "2023-11-14T22:13:20.000Z");
        assert_eq!(Timestamp::from_millis(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123Z");
    }

    #[test]
    fn an_instant_outside_the_years_1970_to_9999_is_brought_into_them() {
        assert_eq!([i64::MIN, -1, 0, 1].map(|millis| Timestamp::from_millis(millis).millis()), [0, 0, 0, 1]);
        let last = 253_402_207_200_000;
        assert_eq!(
            [last - 1, last, last + 1, i64::MAX].map(|millis| Timestamp::from_millis(millis).millis()),
            [last - 1, last, last, last]
        );
    }

    #[test]
    fn an_offset_is_taken_and_brought_to_utc() {
        let at: Timestamp = "2023-11-15T00:13:20+02:00".parse().unwrap();
        assert_eq!(at, Timestamp::from_millis(1_700_000_000_000));
        assert!("2023-11-15".parse::<Timestamp>().is_err());
        assert!("2023-11-15 00:13:20Z".parse::<Timestamp>().is_err());
    }

    #[test]
    fn a_month_starts_on_its_first_day() {
        let at: Timestamp = "2024-02-29T23:59:59.999Z".parse().unwrap();
        assert_eq!(at.month_start().to_string(), "2024-02-01T00:00:00.000Z");
    }

    proptest! {
        #[test]
        fn what_is_shown_parses_to_the_same(millis in 0i64..253_402_207_200_000) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = text.parse::<Timestamp>();
        }
    }
}
