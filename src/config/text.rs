//! Settings that are written as text: durations, networks, addresses, secrets. Parsed here once, so that the rest of
//! the program gets them as types, and written back so that a configuration can be shown.
//!
//! Fields use [`one`], [`optional`] or [`list`] as their `serde(with)`. An empty text is an optional setting that is not
//! set, which is what an unset variable in a compose file turns into.

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use conclave_model::Secret;
use ipnet::IpNet;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type that settings write as text.
pub(super) trait FromText: Sized {
    /// What is allowed, for error messages: "must be …".
    const WHAT: &'static str;

    /// Reads it.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Writes it, for people; secrets stay hidden.
    fn to_text(&self) -> String;
}

fn must_be<T: FromText>(text: &str) -> String {
    format!("must be {}, not {text:?}", T::WHAT)
}

impl FromText for Duration {
    const WHAT: &'static str = "a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \"30d\"";

    fn from_text(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|_| must_be::<Self>(text))
    }

    fn to_text(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

impl FromText for IpNet {
    const WHAT: &'static str = "a network such as \"10.0.0.0/8\" or \"fd00::/8\"";

    fn from_text(text: &str) -> Result<Self, String> {
        // A lone address is the network that holds nothing else.
        let lone = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(|_| lone()).map_err(|_| must_be::<Self>(text))
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl FromText for SocketAddr {
    const WHAT: &'static str = "an address and a port such as \"127.0.0.1:8080\" or \"[::]:8080\"";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| must_be::<Self>(text))
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl FromText for PathBuf {
    const WHAT: &'static str = "a path";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.contains('\0') { Err(must_be::<Self>(text)) } else { Ok(text.into()) }
    }

    fn to_text(&self) -> String {
        self.display().to_string()
    }
}

impl FromText for String {
    const WHAT: &'static str = "a text in quotes";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn to_text(&self) -> String {
        self.clone()
    }
}

impl FromText for Secret {
    const WHAT: &'static str = "a text in quotes";

    fn from_text(text: &str) -> Result<Self, String> {
        // What does not fit into a header could never be sent. The message must not show the secret.
        if text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self::new(text))
        } else {
            Err("must be printable ASCII without spaces".into())
        }
    }

    fn to_text(&self) -> String {
        "***".into()
    }
}

impl<T: FromText> FromText for Option<T> {
    const WHAT: &'static str = T::WHAT;

    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::from_text(text).map(Some) }
    }

    fn to_text(&self) -> String {
        self.as_ref().map(T::to_text).unwrap_or_default()
    }
}

/// A value on its way through serde.
struct Text<T>(T);

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
        T::from_text(text).map(Text).map_err(E::custom)
    }
}

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor(PhantomData))
    }
}

impl<T: FromText> Serialize for Text<&T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0.to_text())
    }
}

/// A setting that is always there.
pub(super) mod one {
    use super::{Deserialize, Deserializer, FromText, Serialize, Serializer, Text};

    pub(in crate::config) fn serialize<T: FromText, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        Text(value).serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, T: FromText, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        Text::deserialize(from).map(|text| text.0)
    }
}

/// A setting that may be left out, or empty.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, FromText, Serialize, Serializer, Text};

    pub(in crate::config) fn serialize<T: FromText, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Text).serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, T: FromText, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<Text<Option<T>>>::deserialize(from)?.and_then(|text| text.0))
    }
}

/// A list of such texts. Elements are read one by one, so that an error names the one it is about.
pub(super) mod list {
    use super::{Deserialize, Deserializer, FromText, Serializer, Text};

    pub(in crate::config) fn serialize<T: FromText, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(Text))
    }

    pub(in crate::config) fn deserialize<'de, T: FromText, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Text<T>>::deserialize(from)?.into_iter().map(|text| text.0).collect())
    }
}

/// This machine itself: 127.0.0.0/8 and ::1/128.
pub(super) fn loopback() -> Vec<IpNet> {
    let v4 = ipnet::Ipv4Net::new(Ipv4Addr::LOCALHOST, 8).map(|net| IpNet::from(net.trunc()));
    v4.into_iter().chain([IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_both_families() {
        let shown: Vec<_> = loopback().iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn a_text_reads_back_as_it_was_written() {
        for text in ["500ms", "5s", "1m", "2h", "30d"] {
            let span = Duration::from_text(text).unwrap();
            assert_eq!(Duration::from_text(&span.to_text()), Ok(span));
        }
        assert_eq!(IpNet::from_text("10.1.2.3").unwrap().to_text(), "10.1.2.3/32");
        assert_eq!(Secret::new("hush").to_text(), "***");
    }
}
