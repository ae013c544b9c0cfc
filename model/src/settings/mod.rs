//! The operator's settings as types: the kinds of settings, and the declaration of a section.
//!
//! [`settings!`](crate::settings!) declares a section once: names, doc comments, types, defaults and allowed values. It derives the struct
//! that the code uses, its default, the check of its values, and its [`SectionReference`], from which the server generates
//! `config/conclave.toml`, the table in `docs/configuration.md` and the JSON schema. So a setting has one name everywhere.
//!
//! Sections that several crates use are here; the server's own are in its `config`.

mod egress;
mod events;
mod media;
mod rule;
mod text;
pub mod value;
mod webhooks;

pub use egress::{EgressConfig, RecordingsConfig};
pub use events::EventsConfig;
pub use media::{MediaConfig, MediaKind, PortRange, RtcConfig, TURN_PORT, TurnConfig, TurnMode};
pub use rule::{InvalidSetting, Rule};
pub use text::TextSetting;
pub use value::{KeyFile, SettingValue};
pub use webhooks::WebhooksConfig;

/// Section of settings, declared by [`settings!`](crate::settings!).
pub trait Section {
    /// Returns the declaration of the section and its settings, in order.
    fn reference() -> SectionReference;

    /// Checks each setting by itself; the first invalid one is returned. `path` is the section's, such as `media.rtc`.
    ///
    /// # Errors
    /// If a value is not allowed.
    fn check(&self, path: &str) -> Result<(), InvalidSetting>;
}

/// Declaration of a section.
#[derive(Debug, Clone)]
pub struct SectionReference {
    /// Doc comment.
    pub doc: &'static str,
    /// The section's own settings.
    pub own: Vec<SettingReference>,
    /// Inner sections, by key.
    pub sections: Vec<(&'static str, SectionReference)>,
}

/// Declaration of a setting. Its default is in the section's struct.
#[derive(Debug, Clone)]
pub struct SettingReference {
    /// Name in the section.
    pub key: &'static str,
    /// Doc comment: a summary, and further paragraphs with details.
    pub doc: &'static str,
    /// JSON schema of its type.
    pub schema: serde_json::Value,
    /// Whether an empty string leaves it unset.
    pub is_optional: bool,
    /// Allowed values beyond its type.
    pub rule: Rule,
}

impl SectionReference {
    /// Returns all settings with their dotted paths; inner sections' settings come last.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, &SettingReference)> {
        let own = self
            .own
            .iter()
            .map(|setting| (setting.key.to_owned(), setting));
        let inner = self.sections.iter().flat_map(|(section, reference)| {
            let settings = reference.settings().into_iter();
            settings.map(move |(name, setting)| (join(section, &name), setting))
        });
        // The order of the settings file.
        own.chain(inner).collect()
    }
}

impl SettingReference {
    /// Returns whether its value must not be shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        // The schema's own mark for secrets, so there is no second list of them.
        self.schema["writeOnly"] == true
    }

    /// Returns the JSON schema of the allowed values.
    #[must_use]
    pub fn allowed(&self) -> serde_json::Value {
        let schema = self.rule.narrow(self.schema.clone());
        // An empty string leaves the setting unset, but its schema may not allow that.
        if self.is_optional && schema.as_object().is_some_and(|keys| keys.len() > 1) {
            serde_json::json!({"anyOf": [schema, {"const": ""}]})
        } else {
            schema
        }
    }
}

/// Joins a setting's name with its section's path, which is empty for the root.
#[must_use]
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Declares a section: a struct with a public field per setting.
///
/// ```
/// use conclave_model::settings::{Rule, Section};
/// use std::time::Duration;
///
/// conclave_model::settings! {
///     /// Deliveries.
///     pub struct DeliveriesConfig {
///         /// Interval at which due deliveries are sent.
///         ///
///         /// Ticks are at whole multiples of it.
///         pub tick: Duration = Duration::from_secs(5);
///         /// Deliveries that are sent at once.
///         pub parallel: u32 = 4, Rule::Numbers(1, 16);
///     }
/// }
///
/// let mut section = DeliveriesConfig::default();
/// assert!(section.check("deliveries").is_ok() && section.tick.as_secs() == 5);
/// section.parallel = 17;
/// let error = section.check("deliveries").unwrap_err();
/// assert_eq!(error.setting, "deliveries.parallel");
/// assert_eq!(error.problem, "must be 1 to 16, not 17");
/// ```
///
/// A setting is `pub NAME: TYPE = DEFAULT;` or `pub NAME: TYPE = DEFAULT, RULE;` after its doc comment. Its type is a
/// [`SettingValue`](crate::settings::SettingValue). The first paragraph of the comment is the summary, which is in the documentation; the
/// others are details, which are in the file, too. `section NAME: TYPE;` at the end declares an inner section.
#[macro_export]
macro_rules! settings {
    (
        $(#[doc = $doc:literal])*
        pub struct $section:ident {
            $(
                $(#[doc = $setting_doc:literal])*
                pub $key:ident: $type:ty = $default:expr $(, $rule:expr)?;
            )*
            $( section $inner:ident: $inner_type:ty; )*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        // A misspelled setting would otherwise have no effect.
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $(
                $(#[doc = $setting_doc])*
                #[serde(with = "conclave_model::settings::value")]
                pub $key: $type,
            )*
            $(
                #[doc = concat!("Section `", stringify!($inner), "`.")]
                pub $inner: $inner_type,
            )*
        }

        impl Default for $section {
            fn default() -> Self {
                Self {
                    $( $key: $default, )*
                    $( $inner: <$inner_type>::default(), )*
                }
            }
        }

        impl $crate::settings::Section for $section {
            fn reference() -> $crate::settings::SectionReference {
                $crate::settings::SectionReference {
                    doc: concat!($($doc, "\n"),*),
                    own: vec![$(
                        $crate::settings::SettingReference {
                            key: stringify!($key),
                            doc: concat!($($setting_doc, "\n"),*),
                            schema: <$type as $crate::settings::SettingValue>::schema(),
                            is_optional: <$type as $crate::settings::SettingValue>::IS_OPTIONAL,
                            rule: $crate::settings!(@rule $($rule)?),
                        },
                    )*],
                    sections: vec![$(
                        (stringify!($inner), <$inner_type as $crate::settings::Section>::reference()),
                    )*],
                }
            }

            fn check(&self, path: &str) -> Result<(), $crate::settings::InvalidSetting> {
                $(
                    $crate::settings::SettingValue::check(&self.$key, &$crate::settings!(@rule $($rule)?))
                        .map_err(|invalid| invalid.of(path, stringify!($key)))?;
                )*
                $(
                    $crate::settings::Section::check(
                        &self.$inner,
                        &$crate::settings::join(path, stringify!($inner)),
                    )?;
                )*
                Ok(())
            }
        }
    };
    (@rule) => { $crate::settings::Rule::Any };
    (@rule $rule:expr) => { $rule };
}
