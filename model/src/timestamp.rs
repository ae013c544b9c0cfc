//! Instants in the API's format: RFC 3339 in UTC with milliseconds and `Z`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use serde::{Serialize, Serializer};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Months that ended with a leap second. None has been announced since (IERS Bulletin C).
// A `:60` in any other month is refused.
const LEAP_SECONDS: [(i16, i8); 27] = [
    (1972, 6),
    (1972, 12),
    (1973, 12),
    (1974, 12),
    (1975, 12),
    (1976, 12),
    (1977, 12),
    (1978, 12),
    (1979, 12),
    (1981, 6),
    (1982, 6),
    (1983, 6),
    (1985, 6),
    (1987, 12),
    (1989, 12),
    (1990, 12),
    (1992, 6),
    (1993, 6),
    (1994, 6),
    (1995, 12),
    (1997, 6),
    (1998, 12),
    (2005, 12),
    (2008, 12),
    (2012, 6),
    (2015, 6),
    (2016, 12),
];

/// Instant in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates an instant from milliseconds since the epoch, clamped to the years 1970 to 9999.
    pub const fn from_millis(millis: i64) -> Self {
        // 9999-12-31T23:59:59.999Z
        const LAST: i64 = 253_402_300_799_999;
        // The API's format has years with four digits, and no times before the epoch.
        Self(if millis < 0 {
            0
        } else if millis > LAST {
            LAST
        } else {
            millis
        })
    }

    /// Returns the milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the instant that is `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        // Clamped, so that a time too far away sorts after all others.
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Returns the instant that is `span` earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_sub(millis))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        // Both are in the clamped range, so the difference cannot overflow.
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Returns when the instant's calendar month started, in UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        Self::from_millis(millis_of(self.civil().date().first_of_month().into()))
    }

    /// Returns date and time in UTC. `jiff::Timestamp` excludes the last day of 9999, so that each
    /// value fits into any time zone.
    fn civil(self) -> DateTime {
        EPOCH
            .checked_add(SignedDuration::from_millis(self.0))
            // Never in practice: the range ends in 9999.
            .unwrap_or(DateTime::MAX)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Always three digits, so that texts sort like times.
        write!(f, "{:.3}Z", self.civil())
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

/// The text is not an RFC 3339 timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 timestamp, like 2026-01-31T12:00:00Z")]
pub struct ParseTimestampError;

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text.as_bytes())
            .map(Self::from_millis)
            .ok_or(ParseTimestampError)
    }
}

/// Returns the milliseconds from the epoch to a date and time in UTC.
fn millis_of(at: DateTime) -> i64 {
    i64::try_from(at.duration_since(EPOCH).as_millis()).unwrap_or(i64::MAX)
}

/// Parses `date-time` in RFC 3339, section 5.6. jiff's parser accepts more (spaces, commas, other
/// offsets, time zone names) and less (at most nine fractional digits, not the last day of 9999).
fn parse(text: &[u8]) -> Option<i64> {
    // `T` and `Z` may be lower case (RFC 3339, section 5.6, note).
    let (
        &[
            y1,
            y2,
            y3,
            y4,
            b'-',
            m1,
            m2,
            b'-',
            d1,
            d2,
            b'T' | b't',
            h1,
            h2,
            b':',
            n1,
            n2,
            b':',
            s1,
            s2,
        ],
        rest,
    ) = text.split_first_chunk::<19>()?
    else {
        return None;
    };
    // Rejects days such as February 30.
    let date = Date::new(
        i16::from(two(y1, y2)?) * 100 + i16::from(two(y3, y4)?),
        two(m1, m2)?,
        two(d1, d2)?,
    )
    .ok()?;
    let second = two(s1, s2)?;
    let (fraction, offset) = match rest {
        [b'.', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.split_at_checked(digits).filter(|_| digits > 0)?
        }
        _ => (&[][..], rest),
    };
    // A leap second maps to the second before it.
    let local = date.to_datetime(Time::new(two(h1, h2)?, two(n1, n2)?, second.min(59), 0).ok()?);
    let (hours, minutes) = offset_of(offset)?;
    let at = millis_of(local) - (hours * 60 + minutes) * 60_000;
    // Leap seconds are inserted in UTC, at another local time (RFC 3339, section 5.7).
    if second > 59 && (second > 60 || !is_before_leap_second(at)) {
        return None;
    }
    // Any number of digits is valid; those after the third are cut off.
    Some(
        at + (0..3).fold(0, |millis, digit| {
            millis * 10 + i64::from(fraction.get(digit).map_or(0, |byte| byte - b'0'))
        }),
    )
}

/// Parses two digits.
fn two(tens: u8, ones: u8) -> Option<i8> {
    let digit = |byte: u8| {
        byte.is_ascii_digit()
            .then(|| i8::try_from(byte - b'0').ok())
            .flatten()
    };
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Parses an offset from UTC into hours and minutes, which have the same sign.
fn offset_of(text: &[u8]) -> Option<(i64, i64)> {
    // `-00:00` is valid and means an unknown local offset (RFC 3339, section 4.3).
    let sign = match text {
        [b'Z' | b'z'] => return Some((0, 0)),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    // The colon is required (RFC 3339, section 5.6).
    let &[_, h1, h2, b':', m1, m2] = text else {
        return None;
    };
    // The grammar allows offsets up to 23:59, more than any time zone has.
    let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
    (hours < 24 && minutes < 60).then(|| (sign * i64::from(hours), sign * i64::from(minutes)))
}

/// Returns whether a leap second follows this second.
fn is_before_leap_second(millis: i64) -> bool {
    let Some(next) = EPOCH
        .checked_add(SignedDuration::from_millis(millis.saturating_add(1_000)))
        .ok()
    else {
        return false;
    };
    // Only the last second of a month can precede a leap second.
    let Some(month) = next
        .date()
        .yesterday()
        .ok()
        .filter(|_| next == next.date().first_of_month().into())
    else {
        return false;
    };
    LEAP_SECONDS.contains(&(month.year(), month.month()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_reads_as_milliseconds_and_z() {
        assert_eq!(
            Timestamp::from_millis(1_700_000_000_000).to_string(),
            "2023-11-14T22:13:20.000Z"
        );
        assert_eq!(
            Timestamp::from_millis(1_700_000_000_123).to_string(),
            "2023-11-14T22:13:20.123Z"
        );
    }

    #[test]
    fn an_instant_outside_the_years_1970_to_9999_is_brought_into_them() {
        assert_eq!(
            [i64::MIN, -1, 0, 1].map(|millis| Timestamp::from_millis(millis).millis()),
            [0, 0, 0, 1]
        );
        let last = 253_402_300_799_999;
        assert_eq!(
            [last - 1, last, last + 1, i64::MAX]
                .map(|millis| Timestamp::from_millis(millis).millis()),
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
    fn all_of_rfc_3339_is_taken_and_nothing_else() {
        for (text, expected) in [
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
            (
                "9999-12-31T23:59:59.999999999999Z",
                "9999-12-31T23:59:59.999Z",
            ),
            ("9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00+23:59", "1970-01-01T00:00:00.000Z"),
            ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500Z"),
            (
                "2026-01-31T12:00:00.1239999999999999999999999999Z",
                "2026-01-31T12:00:00.123Z",
            ),
            ("2026-01-31t12:00:00z", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00.000Z"),
            ("2026-01-31T00:30:00+23:59", "2026-01-30T00:31:00.000Z"),
            ("2026-01-31T12:00:00-05:30", "2026-01-31T17:30:00.000Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"),
            ("2016-12-31T23:59:60.25Z", "2016-12-31T23:59:59.250Z"),
            ("1990-12-31T15:59:60-08:00", "1990-12-31T23:59:59.000Z"),
            ("2015-07-01T05:29:60+05:30", "2015-06-30T23:59:59.000Z"),
        ] {
            assert_eq!(
                text.parse::<Timestamp>().map(|at| at.to_string()),
                Ok(expected.to_owned()),
                "{text}"
            );
        }
        for text in [
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00+23:60",
            "2026-01-31T12:00:00+0200",
            "2026-01-31T12:00:00+02",
            "2026-01-31T12:00:00+02:00:00",
            "2026-01-31T12:00:00 02:00",
            "2026-01-31T12:00:00,5Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.5",
            "2026-01-31T12:00:00",
            "2026-01-31T12:00:00Z[UTC]",
            "2026-01-31T12:00:00+00:00[Europe/London]",
            "2026-01-31T12:00:00Z ",
            " 2026-01-31T12:00:00Z",
            "2026-01-31T12:00Z",
            "2026-01-31 12:00:00Z",
            "2026-01-31_12:00:00Z",
            "20260131T120000Z",
            "2026-W05-6T12:00:00Z",
            "+002026-01-31T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:60Z",
            "2026-12-31T23:59:60Z",
            "2016-12-31T23:59:61Z",
            "2016-12-31T22:59:60Z",
            "2016-12-31T23:59:60-01:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-32T00:00:00Z",
            "2026-01-31T12:00:00٠Z",
            "",
        ] {
            assert_eq!(
                text.parse::<Timestamp>(),
                Err(ParseTimestampError),
                "{text}"
            );
        }
    }

    #[test]
    fn a_month_starts_on_its_first_day() {
        let at: Timestamp = "2024-02-29T23:59:59.999Z".parse().unwrap();
        assert_eq!(at.month_start().to_string(), "2024-02-01T00:00:00.000Z");
    }

    proptest! {
        #[test]
        fn what_is_shown_parses_to_the_same(millis in 0_i64..=253_402_300_799_999) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }

        #[test]
        fn an_offset_and_the_digits_beyond_milliseconds_change_nothing(
            millis in 86_400_000_i64..253_402_207_200_000,
            offset in -1_439_i64..=1_439,
            more in "[0-9]{0,30}",
        ) {
            let shifted = Timestamp::from_millis(millis + offset * 60_000).to_string();
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs());
            let local = shifted.trim_end_matches('Z');
            let text = format!("{local}{more}{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            prop_assert_eq!(text.parse(), Ok(Timestamp::from_millis(millis)));
        }

        #[test]
        fn what_is_taken_has_the_form_of_rfc_3339(text in "[0-9]{4}-[01][0-9]-[0-3][0-9][Tt_ ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,][0-9]{0,4})?(Z|z|[+-][0-2][0-9]:?[0-6][0-9]|\\[UTC\\])?") {
            let known = text.to_ascii_uppercase().replace(":60", ":59").parse::<jiff::Timestamp>();
            if let Ok(taken) = text.parse::<Timestamp>() {
                let is_form = !text.contains([',', ' ', '_', '[']) && text.matches(':').count() + text.matches(['Z', 'z']).count() == 3;
                prop_assert!(is_form);
                prop_assert_eq!(Some(taken), known.ok().map(|at| Timestamp::from_millis(at.as_millisecond())));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = text.parse::<Timestamp>();
        }
    }
}
