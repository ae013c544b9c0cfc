//! Settings that are strings in the file: durations, networks, addresses, paths, secrets.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::{InvalidSetting, Rule};
use crate::Secret;

/// Maximum duration of a setting: ten years.
const MAX_DURATION: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// Units in which durations are shown, in seconds, largest first.
const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// Type of a setting that is a string.
pub trait TextSetting: Sized {
    /// Allowed values, as the end of the message "must be …".
    const EXPECTED: &'static str;
    /// Regular expression for editors, which allowed texts match. Others may match, too.
    const PATTERN: Option<&'static str> = None;
    /// Whether a value must not be shown.
    const IS_SECRET: bool = false;

    /// Parses the setting's string.
    ///
    /// # Errors
    /// If the text is not allowed. The message has the allowed values.
    fn parse(text: &str) -> Result<Self, String>;

    /// Formats the setting for display; a secret becomes `***`.
    fn format(&self) -> String;

    /// Checks a parsed setting.
    ///
    /// # Errors
    /// If the rule does not allow the value.
    fn check(&self, _rule: &Rule) -> Result<(), InvalidSetting> {
        Ok(())
    }
}

fn must_be<T: TextSetting>(text: &str) -> String {
    format!("must be {}, not {text:?}", T::EXPECTED)
}

impl TextSetting for Duration {
    const EXPECTED: &'static str =
        "a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \"30d\"";
    const PATTERN: Option<&'static str> = Some("^([0-9]+ *[A-Za-z]+ *)+$");

    fn parse(text: &str) -> Result<Self, String> {
        // humantime's own message names neither the setting's form nor an example.
        humantime::parse_duration(text).map_err(|_| must_be::<Self>(text))
    }

    /// Formats whole seconds in the largest unit that divides them: `75s`, `5m`, `30d`.
    fn format(&self) -> String {
        let (seconds, rest) = (self.as_secs(), self.subsec_nanos());
        let unit = UNITS
            .iter()
            .find(|(length, _)| rest == 0 && seconds > 0 && seconds.is_multiple_of(*length));
        unit.map_or_else(
            // For example `1m 30s`, or `500ms`.
            || humantime::format_duration(*self).to_string(),
            |(length, unit)| format!("{}{unit}", seconds / length),
        )
    }

    /// Whatever the rule, a duration must be more than 0, and at most ten years.
    fn check(&self, _rule: &Rule) -> Result<(), InvalidSetting> {
        if *self > Self::ZERO && *self <= MAX_DURATION {
            return Ok(());
        }
        Err(InvalidSetting::new(format!(
            "must be more than 0s and at most 3650d, not {}",
            humantime::format_duration(*self)
        )))
    }
}

impl TextSetting for IpNet {
    const EXPECTED: &'static str = "a network such as \"10.0.0.0/8\" or \"fd00::/8\"";

    fn parse(text: &str) -> Result<Self, String> {
        // A single address stands for the network that contains only it.
        let single_address = || text.parse::<IpAddr>().map(Self::from);
        text.parse()
            .or_else(|_| single_address())
            .map_err(|_| must_be::<Self>(text))
    }

    fn format(&self) -> String {
        self.to_string()
    }
}

impl TextSetting for IpAddr {
    const EXPECTED: &'static str = "an address such as \"192.0.2.1\" or \"2001:db8::1\"";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| must_be::<Self>(text))
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
        // The operating system ends paths there.
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

    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting> {
        rule.check_text(self)
    }
}

impl TextSetting for Secret {
    const EXPECTED: &'static str = "a string in quotes";
    const IS_SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        // Other characters cannot be sent in an HTTP header. The message must not contain the secret.
        if text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self::new(text))
        } else {
            Err("must be printable ASCII without spaces".into())
        }
    }

    fn format(&self) -> String {
        // A fixed length, which reveals nothing.
        "***".into()
    }

    fn check(&self, rule: &Rule) -> Result<(), InvalidSetting> {
        rule.check_text(self.reveal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_setting_parses_to_the_same_value() {
        for text in ["500ms", "5s", "1m", "2h", "30d"] {
            let span = Duration::parse(text).unwrap();
            assert_eq!(Duration::parse(&span.format()), Ok(span));
            assert_eq!(span.format(), text);
        }
        for (text, shown) in [("24h", "1d"), ("1m 15s", "75s"), ("1500ms", "1s 500ms")] {
            assert_eq!(Duration::parse(text).unwrap().format(), shown);
        }
        assert_eq!(IpNet::parse("10.1.2.3").unwrap().format(), "10.1.2.3/32");
        assert_eq!(Secret::new("hush").format(), "***");
    }
}
