//! Settings that are strings in the file: durations, networks, addresses, paths, secrets.
//!
//! Fields name [`required`], [`optional`] or [`list`] in `serde(with)`. An empty string leaves an optional setting unset,
//! because compose files turn an unset variable into an empty one.

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conclave_model::Secret;
use ipnet::IpNet;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type whose settings are strings.
pub(super) trait TextSetting: Sized {
    /// What is allowed, as the end of the message "must be …".
    const EXPECTED: &'static str;

    /// Parses the string of a setting.
    fn parse(text: &str) -> Result<Self, String>;

    /// Formats the setting for display; a secret becomes `***`.
    fn format(&self) -> String;
}

fn must_be<T: TextSetting>(text: &str) -> String {
    format!("must be {}, not {text:?}", T::EXPECTED)
}

impl TextSetting for Duration {
    const EXPECTED: &'static str =
        "a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \"30d\"";

    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|_| must_be::<Self>(text))
    }

    fn format(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

impl TextSetting for IpNet {
    const EXPECTED: &'static str = "a network such as \"10.0.0.0/8\" or \"fd00::/8\"";

    fn parse(text: &str) -> Result<Self, String> {
        // A single address stands for the network that contains only it.
        let single_address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse()
            .or_else(|_| single_address())
            .map_err(|_| must_be::<Self>(text))
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

impl TextSetting for SocketAddr {
    const EXPECTED: &'static str =
        "an address and a port such as \"127.0.0.1:8080\" or \"[::]:8080\"";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| must_be::<Self>(text))
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

impl TextSetting for PathBuf {
    const EXPECTED: &'static str = "a path";

    fn parse(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            Err(must_be::<Self>(text))
        } else {
            Ok(text.into())
        }
    }

    fn format(&self) -> String {
        self.display().to_string()
    }
}

impl TextSetting for String {
    const EXPECTED: &'static str = "a string in quotes";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn format(&self) -> String {
        self.clone()
    }
}

impl TextSetting for Secret {
    const EXPECTED: &'static str = "a string in quotes";

    fn parse(text: &str) -> Result<Self, String> {
        // Other characters cannot be sent in an HTTP header. The message must not contain the secret.
        if text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self::new(text))
        } else {
            Err("must be printable ASCII without spaces".into())
        }
    }

    fn format(&self) -> String {
        "***".into()
    }
}

impl<T: TextSetting> TextSetting for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Ok(None)
        } else {
            T::parse(text).map(Some)
        }
    }

    fn format(&self) -> String {
        self.as_ref().map(T::format).unwrap_or_default()
    }
}

/// Adapts a [`TextSetting`] to serde.
struct Text<T>(T);

struct TextVisitor<T>(PhantomData<T>);

impl<T: TextSetting> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
        T::parse(text).map(Text).map_err(E::custom)
    }
}

impl<'de, T: TextSetting> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor(PhantomData))
    }
}

impl<T: TextSetting> Serialize for Text<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.format())
    }
}

/// A setting that always has a value.
pub(super) mod required {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Text, TextSetting};

    pub(in crate::config) fn serialize<T: TextSetting, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Text(value).serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, T: TextSetting, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        Text::deserialize(from).map(|text| text.0)
    }
}

/// A setting that may be missing or empty.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Text, TextSetting};

    pub(in crate::config) fn serialize<T: TextSetting, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Text).serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, T: TextSetting, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Text<Option<T>>>::deserialize(from)?.and_then(|text| text.0))
    }
}

/// A list. Elements are parsed one by one, so that an error names the index of the invalid one.
pub(super) mod list {
    use super::{Deserialize, Deserializer, Serializer, Text, TextSetting};

    pub(in crate::config) fn serialize<T: TextSetting, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(Text))
    }

    pub(in crate::config) fn deserialize<'de, T: TextSetting, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Text<T>>::deserialize(from)?
            .into_iter()
            .map(|text| text.0)
            .collect())
    }
}

/// Returns the loopback networks 127.0.0.0/8 and ::1/128.
pub(super) fn loopback() -> Vec<IpNet> {
    let v4 = ipnet::Ipv4Net::new(Ipv4Addr::LOCALHOST, 8).map(|net| IpNet::from(net.trunc()));
    v4.into_iter()
        .chain([IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_covers_ipv4_and_ipv6() {
        let shown: Vec<_> = loopback().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn a_formatted_setting_parses_to_the_same_value() {
        for text in ["500ms", "5s", "1m", "2h", "30d"] {
            let span = Duration::parse(text).unwrap();
            assert_eq!(Duration::parse(&span.format()), Ok(span));
        }
        assert_eq!(IpNet::parse("10.1.2.3").unwrap().format(), "10.1.2.3/32");
        assert_eq!(Secret::new("hush").format(), "***");
    }
}
