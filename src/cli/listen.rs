//! `conclave listen`: prints a project's events as they are committed, and forwards them to a receiver on this machine.
//!
//! Each event is posted once, and the next one after the response. After an outage of the server, the command continues from the last
//! event.

use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use conclave_model::event::EventType;
use conclave_model::visible::Visible;
use conclave_model::webhook::AttemptOutcome;
use conclave_model::{ProjectId, RoomName, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::admin_client::{AdminClient, CallError, ServerArgs};
use super::follower::{
    FollowedEvent, Follower, Forwarder, Gap, StartPoint, delivery_id, shown, signing_secret,
};
use super::output::{print, print_json};
use crate::config::Config;
use crate::error::CliError;

/// First delay before an unavailable server is called again. Doubled each time, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// Events to show, and the receiver to forward them to.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// URL to post each event to, as the server posts to webhook endpoints.
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    /// Server and project.
    #[command(flatten)]
    server: ServerArgs,
    /// Show only events of this type; can be repeated.
    #[arg(long, value_name = "TYPE", value_parser = event_type())]
    event: Vec<EventType>,
    /// Show only events of this room.
    #[arg(long, value_name = "NAME")]
    room: Option<RoomName>,
    /// Start after the event with this number, instead of with the next event.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Start with the event with this number, or with the first event since a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME|EVENT", conflicts_with = "after")]
    from: Option<FirstEvent>,
    /// Event output format.
    #[arg(long, value_enum, default_value = "lines")]
    print: EventFormat,
}

/// First event to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstEvent {
    /// Event with this number, or the next one if it does not exist.
    Number(u64),
    /// First event that was recorded at this time or later.
    Since(Timestamp),
}

impl FromStr for FirstEvent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().map(Self::Number);
        number
            .or_else(|_| text.parse().map(Self::Since))
            .map_err(|_| "must be an event's number, or a time such as 2026-01-31T12:00:00Z")
    }
}

impl ListenArgs {
    fn start(&self) -> StartPoint {
        match (self.from, self.after) {
            (Some(FirstEvent::Since(time)), _) => StartPoint::Since(time),
            // A position is the number of the event before.
            (Some(FirstEvent::Number(number)), _) => {
                StartPoint::After(position(number.saturating_sub(1)))
            }
            (None, Some(number)) => StartPoint::After(position(number)),
            // The history may have weeks of events.
            (None, None) => StartPoint::Now,
        }
    }
}

/// Returns an event's number as a position. Beyond the largest one, it is after the newest event all the same.
fn position(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Event output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EventFormat {
    /// One line per event: number, time, type, room, and the receiver's response.
    Lines,
    /// One line of JSON per event, with the whole event.
    Json,
}

/// Event with `--print json`.
#[derive(Serialize)]
struct EventView<'a> {
    id: i64,
    event: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Returns the parser for event names, which lists them for shell completion.
pub(super) fn event_type() -> impl TypedValueParser<Value = EventType> {
    PossibleValuesParser::new(EventType::ALL.iter().map(|event| event.as_str()))
        .try_map(|name| name.parse::<EventType>())
}

/// Runs until it is interrupted.
///
/// # Errors
/// If the server refuses the token or the project, or stdout is closed.
pub(super) fn run(args: &ListenArgs, config: &Config, data: &Path) -> Result<(), CliError> {
    let server = AdminClient::new(&args.server, config, data)?;
    let project = patiently(|| server.project())?;
    let secret = patiently(|| signing_secret(&server, &project))?;
    // The position is read now, so events during the messages below are not missed.
    let mut follower = patiently(|| Follower::new(&server, &project, args.start()))?;
    let forwarder = args.forward.as_deref().map(|url| {
        Forwarder::new(
            "--forward",
            url,
            &project,
            secret.clone(),
            config.webhooks.timeout,
        )
    });
    let listener = Listener {
        args,
        project,
        forwarder: forwarder.transpose()?,
    };
    print_note(&format!(
        "following the events of {} after number {}",
        listener.project,
        follower.position()
    ));
    if let Some(url) = &args.forward {
        print_note(&format!(
            "forwarding them to {url}, signed with {}",
            secret.reveal()
        ));
    }
    loop {
        let page = patiently(|| follower.read())?;
        // Before the page's events, which follow the gap.
        match page.gap {
            Some(Gap::Deleted) => {
                print_note("events older than events.retention were missed");
            }
            Some(Gap::Restored) => {
                print_note(
                    "the server's records are older than the last event; continuing after the newest record",
                );
            }
            None => {}
        }
        page.events
            // Filtered here, since the server's page has all events in the project.
            .iter()
            .filter(|event| listener.wants(event))
            .try_for_each(|event| listener.handle(event))?;
    }
}

/// Repeats a call until the server responds. Prints one line when the server is unavailable, and one when it is back.
fn patiently<T>(mut call: impl FnMut() -> Result<T, CallError>) -> Result<T, CliError> {
    let mut wait = FIRST_WAIT;
    loop {
        match call() {
            Ok(done) => {
                // At least one call has failed before.
                if wait > FIRST_WAIT {
                    print_note("the server is available again");
                }
                return Ok(done);
            }
            Err(CallError::Unavailable(reason)) => {
                if wait == FIRST_WAIT {
                    print_note(&format!("waiting for the server: {reason}"));
                }
                thread::sleep(wait);
                wait = LONGEST_WAIT.min(wait * 2);
            }
            // A wrong token or project stays wrong; waiting would hide it.
            Err(refused @ CallError::Refused { .. }) => return Err(refused.into()),
        }
    }
}

/// Prints a message that is not an event to stderr.
fn print_note(text: &str) {
    // An error means that stderr is closed, so it cannot be reported.
    let _ = writeln!(std::io::stderr(), "conclave: {}", Visible(text));
}

/// Prints and forwards events.
struct Listener<'a> {
    args: &'a ListenArgs,
    project: ProjectId,
    forwarder: Option<Forwarder>,
}

impl Listener<'_> {
    fn wants(&self, event: &FollowedEvent) -> bool {
        let types = &self.args.event;
        // Without `--event`, every type.
        let is_of_type = types.is_empty()
            || types
                .iter()
                .any(|wanted| wanted.as_str() == event.event_type);
        is_of_type
            && self
                .args
                .room
                .as_ref()
                .is_none_or(|room| room.as_str() == event.room)
    }

    fn handle(&self, event: &FollowedEvent) -> Result<(), CliError> {
        let started = Instant::now();
        let post = |forwarder: &Forwarder| {
            forwarder.post(
                delivery_id(&self.project, event.id),
                &event.event_type,
                &event.payload,
            )
        };
        // Before the line is printed, which has the response.
        let outcome = self.forwarder.as_ref().map(post);
        match self.args.print {
            EventFormat::Json => print_event(event, outcome.as_ref()),
            EventFormat::Lines => print(&line(event, outcome.as_ref(), started.elapsed())),
        }
    }
}

fn print_event(event: &FollowedEvent, outcome: Option<&AttemptOutcome>) -> Result<(), CliError> {
    print_json(&EventView {
        id: event.id,
        event: serde_json::from_str(&event.payload)?,
        response_status: outcome.and_then(|outcome| outcome.response_status),
        error: outcome.and_then(|outcome| outcome.error.as_deref()),
    })
}

/// Returns a line such as `42  2026-01-31T12:00:00.000Z  room.started  standup  200 in 3 ms`.
fn line(event: &FollowedEvent, outcome: Option<&AttemptOutcome>, took: Duration) -> String {
    // The event's time is in its body only.
    let payload: serde_json::Value = serde_json::from_str(&event.payload).unwrap_or_default();
    let occurred_at = payload["occurred_at"].as_str().unwrap_or_default();
    let answer = outcome
        .map(|outcome| format!("  {} in {} ms", shown(outcome), took.as_millis()))
        .unwrap_or_default();
    // Escaped, since `--server` may name an untrusted server.
    format!(
        "{}\n",
        Visible(format_args!(
            "{}  {occurred_at}  {}  {}{answer}",
            event.id, event.event_type, event.room
        ))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_a_number_or_a_time() {
        let time = "2026-01-31T12:00:00Z";
        // The events of all projects are numbered together, so a busy server passes 32 bits.
        for number in [42, 4_294_967_296] {
            assert_eq!(number.to_string().parse(), Ok(FirstEvent::Number(number)));
        }
        assert_eq!(time.parse(), Ok(FirstEvent::Since(time.parse().unwrap())));
        for text in ["", "-1", "yesterday", "2026-01-31", "18446744073709551616"] {
            let refused = text.parse::<FirstEvent>().unwrap_err();
            assert!(refused.contains("2026-01-31T12:00:00Z"), "{text}");
        }
    }

    /// Proves S-10.
    #[test]
    fn a_line_has_the_event_and_what_came_back() {
        let payload =
            r#"{"type":"room.started","occurred_at":"2026-01-31T12:00:00.000Z"}"#.to_owned();
        let event = FollowedEvent {
            id: 42,
            event_type: "room.started".into(),
            room: "standup".into(),
            payload,
        };
        let answered = |status, error: Option<&str>| AttemptOutcome {
            response_status: status,
            error: error.map(str::to_owned),
            timed_out: false,
        };
        let line =
            |outcome: Option<&AttemptOutcome>| line(&event, outcome, Duration::from_millis(3));
        let start = "42  2026-01-31T12:00:00.000Z  room.started  standup";
        assert_eq!(line(None), format!("{start}\n"));
        assert_eq!(
            line(Some(&answered(Some(204), None))),
            format!("{start}  204 in 3 ms\n")
        );
        let failed = answered(Some(500), Some("the receiver answered 500"));
        assert_eq!(line(Some(&failed)), format!("{start}  500 in 3 ms\n"));
        let hostile = FollowedEvent {
            id: 42,
            event_type: "room.started\u{1b}]0;title\u{7}".into(),
            room: "stand\u{202e}up\n43  room.finished".into(),
            payload: r#"{"occurred_at":"\u001b[2J"}"#.into(),
        };
        assert_eq!(
            super::line(&hostile, None, Duration::ZERO),
            "42  \\u{1b}[2J  room.started\\u{1b}]0;title\\u{7}  stand\\u{202e}up\\n43  room.finished\n"
        );
        let refused = answered(None, Some("the connection was refused"));
        assert_eq!(
            line(Some(&refused)),
            format!("{start}  the connection was refused in 3 ms\n")
        );
    }
}
