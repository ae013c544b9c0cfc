//! A template's destinations: each type of storage, and broadcasts, with a form of its fields. Inputs have the API's names, so that an
//! error of the API is shown beside its field.

use conclave_model::Problem;
use conclave_model::destination::HIDDEN;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::parts::{badge, danger, empty, facts, field, form, select, time};
use super::route::{self, Route};
use super::visit::{PageResult, Visit, encoded};
use crate::http::api::v1::destinations::{self as api, DestinationJson};

pub fn routes() -> Vec<Route> {
    vec![
        route::action("/projects/{project}/templates/{id}/destinations", create),
        route::action(
            "/projects/{project}/templates/{id}/destinations/{name}",
            change,
        ),
        route::action(
            "/projects/{project}/templates/{id}/destinations/{name}/delete",
            delete,
        ),
    ]
}

/// Type of a destination, with the fields of its configuration.
struct DestinationType {
    /// The value of `type` in the form. Only a recording's is also in the configuration.
    word: &'static str,
    kind: &'static str,
    name: &'static str,
    fields: &'static [ConfigField],
}

/// Field of a configuration.
struct ConfigField {
    /// Name in the API, below `config`.
    name: &'static str,
    label: &'static str,
    input: Input,
    is_required: bool,
    help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Text,
    Url,
    /// Credential of one line.
    Secret,
    /// Credential of many lines.
    SecretText,
    /// URLs with stream keys, one per line.
    StreamUrls,
    /// Optional boolean.
    Choice,
}

impl Input {
    /// Returns whether the API keeps the stored value if none is sent.
    const fn is_kept(self) -> bool {
        matches!(self, Self::Secret | Self::SecretText)
    }
}

const fn required(
    name: &'static str,
    label: &'static str,
    input: Input,
    help: &'static str,
) -> ConfigField {
    ConfigField {
        name,
        label,
        input,
        is_required: true,
        help,
    }
}

const fn optional(
    name: &'static str,
    label: &'static str,
    input: Input,
    help: &'static str,
) -> ConfigField {
    ConfigField {
        is_required: false,
        ..required(name, label, input, help)
    }
}

const PREFIX: ConfigField = optional(
    "prefix",
    "Prefix",
    Input::Text,
    "A folder for the files, such as calls/",
);
const BUCKET: ConfigField = required("bucket", "Bucket", Input::Text, "");

static TYPES: [DestinationType; 4] = [
    DestinationType {
        word: "rtmp",
        kind: "rtmp",
        name: "Broadcasts: RTMP",
        fields: &[required(
            "urls",
            "URLs with their stream keys",
            Input::StreamUrls,
            "1 to 8 rtmp:// or rtmps:// URLs, one per line; stored encrypted and never shown again",
        )],
    },
    DestinationType {
        word: "s3",
        kind: "recording",
        name: "Recordings: S3 or compatible",
        fields: &[
            BUCKET,
            optional("region", "Region", Input::Text, "Such as eu-central-1"),
            optional(
                "endpoint",
                "Endpoint",
                Input::Url,
                "The service's URL, if it is not Amazon's",
            ),
            PREFIX,
            required("access_key", "Access key", Input::Text, "Its id"),
            required("secret", "Secret", Input::Secret, "Of the access key"),
            optional(
                "session_token",
                "Session token",
                Input::Secret,
                "For temporary credentials only",
            ),
            optional(
                "force_path_style",
                "Bucket in the URL",
                Input::Choice,
                "Most compatible services have it in the path",
            ),
        ],
    },
    DestinationType {
        word: "gcp",
        kind: "recording",
        name: "Recordings: Google Cloud Storage",
        fields: &[
            BUCKET,
            PREFIX,
            required(
                "credentials",
                "Service account key (JSON)",
                Input::SecretText,
                "The file from Google",
            ),
        ],
    },
    DestinationType {
        word: "azure",
        kind: "recording",
        name: "Recordings: Azure Blob Storage",
        fields: &[
            required("container", "Container", Input::Text, ""),
            PREFIX,
            required("account_name", "Account name", Input::Text, ""),
            required("account_key", "Account key", Input::Secret, ""),
        ],
    },
];
const PATH_STYLES: [(&str, &str); 3] = [
    ("", "by the service"),
    ("true", "in the path"),
    ("false", "in the host name"),
];

impl DestinationType {
    fn find(word: &str) -> Option<&'static Self> {
        TYPES.iter().find(|known| known.word == word)
    }

    /// Returns a stored destination's type.
    fn from_stored(destination: &DestinationJson) -> Option<&'static Self> {
        Self::find(destination.config["type"].as_str().unwrap_or("rtmp"))
    }

    /// Returns the type in a form.
    fn from_form(visit: &Visit) -> Result<&'static Self, Problem> {
        Self::find(visit.field("type")).ok_or_else(|| {
            let words = TYPES.each_ref().map(|known| known.word).join(", ");
            Problem::invalid("type", format!("must be one of {words}"))
        })
    }

    /// Renders the inputs. `stored` is the configuration to change.
    fn inputs(&self, id: &str, stored: Option<&Value>) -> Markup {
        html! {
            input type="hidden" name="type" value=(self.word);
            div.fields {
                @for one in self.fields { (one.render(&format!("{id}-{}", one.name), stored)) }
            }
        }
    }

    /// Returns the configuration in a form.
    fn config(&self, visit: &Visit) -> Value {
        let mut config = Map::new();
        if self.kind == "recording" {
            config.insert("type".into(), json!(self.word));
        }
        for one in self.fields {
            if let Some(value) = one.value(visit) {
                config.insert(one.name.into(), value);
            }
        }
        Value::Object(config)
    }
}

impl ConfigField {
    /// Returns the field's path in the API's errors, which is also its input's name.
    fn path(&self) -> String {
        format!("config.{}", self.name)
    }

    /// Returns the name of the checkbox that removes a stored value.
    fn removal(&self) -> String {
        format!("remove.{}", self.name)
    }

    fn render(&self, id: &str, stored: Option<&Value>) -> Markup {
        let value = stored.and_then(|stored| stored.get(self.name));
        let text = value
            .and_then(Value::as_str)
            .filter(|text| *text != HIDDEN)
            .unwrap_or_default();
        let is_kept = stored.is_some() && self.input.is_kept();
        // An empty credential keeps the stored one, so only another field is required in a change.
        let is_required = self.is_required && !is_kept;
        let hint = if is_kept && value.is_some() {
            "unchanged"
        } else {
            ""
        };
        let style = match value.and_then(Value::as_bool) {
            Some(true) => "true",
            Some(false) => "false",
            None => "",
        };
        let path = self.path();
        let input = html! {
            @match self.input {
                Input::Text => {
                    input id=(id) name=(path) value=(text) required[is_required] autocomplete="off" spellcheck="false";
                }
                Input::Url => {
                    input id=(id) type="url" name=(path) value=(text) required[is_required] placeholder="https://…" autocomplete="off";
                }
                Input::Secret => {
                    // `new-password`: a password manager must not fill in the operator's own.
                    input id=(id) type="password" name=(path) required[is_required] placeholder=(hint) autocomplete="new-password";
                }
                Input::SecretText => {
                    textarea id=(id) name=(path) required[is_required] placeholder=(hint) spellcheck="false" autocomplete="off" {}
                }
                Input::StreamUrls => {
                    textarea id=(id) name=(path) required placeholder="rtmp://…" spellcheck="false" autocomplete="off" {}
                }
                Input::Choice => (select(id, &path, &PATH_STYLES, style)),
            }
        };
        html! {
            (field(id, self.label, &input, self.help))
            @if is_kept && value.is_some() && !self.is_required {
                p.field {
                    label.check { input type="checkbox" name=(self.removal()); "Remove the stored " (self.label.to_lowercase()) }
                }
            }
        }
    }

    /// Returns the field's value in a form; `None` to leave it out.
    fn value(&self, visit: &Visit) -> Option<Value> {
        let path = self.path();
        match self.input {
            // Sent if empty, since the operation states how many are allowed.
            Input::StreamUrls => {
                let lines = visit.field(&path).lines().map(str::trim);
                Some(lines.filter(|line| !line.is_empty()).collect())
            }
            // For the API, an empty text removes the stored value.
            _ if visit.has(&self.removal()) => Some(json!("")),
            Input::Choice => visit.optional(&path).map(|text| json!(text == "true")),
            _ => visit.optional(&path).map(Value::from),
        }
    }

    /// Renders the stored value, if it may be shown.
    fn fact(&self, config: &Value) -> Option<(&'static str, Markup)> {
        let value = config.get(self.name)?;
        let shown = match self.input {
            Input::Text | Input::Url => html! { code { (value.as_str()?) } },
            Input::Choice => {
                let word = if value.as_bool()? { "true" } else { "false" };
                let style = PATH_STYLES.iter().find(|(known, _)| *known == word)?;
                html! { (style.1) }
            }
            Input::Secret | Input::SecretText => html! { "stored" },
            Input::StreamUrls => return None,
        };
        Some((self.label, shown))
    }
}

/// Renders the destinations, each with its configuration without secrets, and the forms that create one.
pub fn section(visit: &Visit, path: &str, destinations: &[DestinationJson]) -> Markup {
    html! {
        h2 { "Destinations" }
        @if destinations.is_empty() {
            (empty("There is no destination.", "With one, recordings go to object storage and broadcasts to stored URLs."))
        }
        div.cards { @for destination in destinations { (card(visit, path, destination)) } }
        section.card {
            h2 { "Create a destination" }
            @for known in &TYPES {
                @let id = format!("new-{}", known.word);
                // Browsers keep at most one `details` element per name open.
                details.choice name="new-destination" {
                    summary id=(id) { (known.name) }
                    (form(visit, &format!("{path}/destinations"), &html! {
                        div.fields {
                            (field(&format!("{id}-name"), "Name", &html! {
                                input id={ (id) "-name" } name="name" required maxlength="64" autocomplete="off";
                            }, "By which recordings and broadcasts refer to it: letters, digits, _ and -"))
                        }
                        (known.inputs(&id, None))
                        p { button type="submit" { "Create destination" } }
                    }))
                }
            }
        }
    }
}

fn card(visit: &Visit, path: &str, destination: &DestinationJson) -> Markup {
    let DestinationJson { name, config, .. } = destination;
    let path = format!("{path}/destinations/{}", encoded(name.as_str()));
    let id = format!("edit-{name}");
    let known = DestinationType::from_stored(destination);
    let fields = known.map_or(&[][..], |known| known.fields);
    let shown: Vec<_> = fields.iter().filter_map(|one| one.fact(config)).collect();
    let urls: Vec<_> = config["urls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    html! {
        section.card {
            h2 { (name) " " (badge(destination.kind.as_str())) }
            p { small { @if let Some(known) = known { (known.name) ". " } "Changed " (time(destination.updated_at)) } }
            @if !shown.is_empty() { (facts(&shown)) }
            @if !urls.is_empty() { ul { @for url in urls { li { code { (url) } } } } }
            @if let Some(known) = known {
                details.choice {
                    summary id=(id) { "Change " (name) }
                    (form(visit, &path, &html! {
                        (known.inputs(&id, Some(config)))
                        p { small { "Empty fields are removed, except credentials, which are kept." } }
                        p { button type="submit" { "Save " (name) } }
                    }))
                }
            }
            (danger(visit, &format!("{path}/delete"), "Delete", &format!("Delete the destination {name}?")))
        }
    }
}

/// Redirects to the template's page.
fn done(visit: &Visit, note: &'static str) -> PageResult {
    let (project, template) = (visit.project_id()?, visit.param("id"));
    Ok(visit.done(&format!("/projects/{project}/templates/{template}"), note))
}

async fn create(visit: Visit) -> PageResult {
    let known = DestinationType::from_form(&visit)?;
    let config = known.config(&visit);
    let body = json!({"name": visit.field("name"), "kind": known.kind, "config": config});
    visit
        .call(api::create, &visit.project_id()?)
        .path("id", &visit.param("id"))
        .body(body)
        .send()
        .await?;
    done(&visit, "destination-created")
}

async fn change(visit: Visit) -> PageResult {
    let config = DestinationType::from_form(&visit)?.config(&visit);
    let call = visit
        .call(api::update, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("name"))
        .body(json!({"config": config}))
        .send()
        .await?;
    done(&visit, "destination-changed")
}

async fn delete(visit: Visit) -> PageResult {
    let call = visit
        .call(api::delete, &visit.project_id()?)
        .path("id", &visit.param("id"));
    call.path("name", &visit.param("name")).send().await?;
    done(&visit, "destination-deleted")
}
