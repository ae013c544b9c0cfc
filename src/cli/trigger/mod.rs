//! `conclave trigger EVENT`: causes an event in a room with simulated participants, or sends an example event.
//!
//! The room is a new one, and ends afterwards. The command creates it by the API, with the key in `CONCLAVE_KEY`, or with a key of its
//! own in the data directory, which is valid while the command runs.

mod room;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use conclave_model::event::{Event, EventContext, EventType};
use conclave_model::{Clock, DeliveryId, ProjectId, Secret};
use conclave_outbound::webhook::generate_secret;
use serde_json::value::RawValue;

use super::admin_client::{AdminClient, ServerArgs, checked_url};
use super::follower::{Follower, Forwarder, StartPoint, shown};
use super::listen::event_type;
use super::output::{print, print_json_text};
use super::store::with_store;
use crate::config::Config;
use crate::error::CliError;
use room::{Api, TriggerRoom};

/// Label of the command's API key.
const KEY_LABEL: &str = "conclave trigger";
/// Time after which the key expires, far longer than the command runs.
const KEY_LIFE: Duration = Duration::from_secs(60 * 60);

/// Event to trigger, and its target.
#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// Event type, such as `participant.joined`.
    #[arg(value_parser = event_type())]
    event: EventType,
    /// Server and project.
    #[command(flatten)]
    server: ServerArgs,
    /// Send an example event to this URL, without a server.
    #[arg(long, value_name = "URL", conflicts_with_all = ["server", "project"])]
    sample: Option<String>,
    /// Signing secret for the example, `whsec_…` [default: a random one, which is printed].
    #[arg(long, value_name = "SECRET", requires = "sample")]
    secret: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// If the server refused a step, the event did not happen, or the receiver rejected the example.
pub(super) fn run(args: &TriggerArgs, config: &Config, data: &Path) -> Result<(), CliError> {
    match &args.sample {
        Some(url) => send_example(args, url, config),
        None => make_happen(args, config, data),
    }
}

fn send_example(args: &TriggerArgs, url: &str, config: &Config) -> Result<(), CliError> {
    let secret = args
        .secret
        .as_deref()
        .map_or_else(generate_secret, Secret::new);
    if args.secret.is_none() {
        eprintln!("conclave: signed with {}", secret.reveal());
    }
    let event = example(args.event).ok_or_else(|| CliError::failed("the example is not valid"))?;
    let payload = serde_json::to_string(&event)?;
    let forwarder = Forwarder::new(
        "--sample",
        url,
        &event.context().project_id,
        secret,
        config.webhooks.timeout,
    )?;
    // Before the post, so that a failing receiver can be debugged with the body.
    print(&format!("{payload}\n"))?;
    // A new id each time: receivers must not take it for a duplicate.
    let outcome = forwarder.post(DeliveryId::new(), args.event.as_str(), &payload);
    if outcome.error.is_some() {
        return Err(CliError::failed(format!(
            "the receiver rejected the event: {}",
            shown(&outcome)
        )));
    }
    eprintln!("conclave: accepted with {}", shown(&outcome));
    Ok(())
}

/// Returns an example event with the current time. Its project and its room mark it as an example.
fn example(event: EventType) -> Option<Event> {
    let context = EventContext {
        project_id: "prj_000000000000".parse().ok()?,
        room: "example".parse().ok()?,
        occurred_at: Clock::system().now(),
    };
    Event::example(event, context)
}

fn make_happen(args: &TriggerArgs, config: &Config, data: &Path) -> Result<(), CliError> {
    let server = AdminClient::new(&args.server, config, data)?;
    let project = server.project()?;
    match (variable("CONCLAVE_URL"), variable("CONCLAVE_KEY")) {
        (url, Some(key)) => {
            let url = url
                .map(|url| checked_url("CONCLAVE_URL", &url))
                .transpose()?;
            let missing = "CONCLAVE_URL is required: the API's URL";
            let url = url
                .map_or_else(|| server.api(), |url| Ok(Some(url)))?
                .ok_or_else(|| CliError::failed(missing))?;
            in_new_room(
                args.event,
                &server,
                &project,
                Api::new(url, Secret::new(key)),
            )
        }
        // Without a key, the command needs the data directory, where it can create one.
        (_, None) => {
            let missing = "CONCLAVE_URL and CONCLAVE_KEY are required: the API's URL and an API key of the project";
            let url = server.api()?.ok_or_else(|| CliError::failed(missing))?;
            with_own_key(config, data, &project, |key| {
                in_new_room(args.event, &server, &project, Api::new(url, key))
            })
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Renews the secret of the command's API key in the data directory, and revokes the key after its use, so that the secret is never stored.
/// The project has one such key, unless several commands run at once. Other valid keys stay, whatever their label: they may belong to another
/// command that is running, or to an operator.
fn with_own_key(
    config: &Config,
    data: &Path,
    project: &ProjectId,
    with: impl FnOnce(Secret) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let created = with_store(config, data, async |store| {
        // In case that the command is killed before it revokes the key.
        let expires_at = store.clock().now().after(KEY_LIFE);
        store
            .api_keys()
            .create_or_renew(project.clone(), KEY_LABEL.into(), expires_at)
            .await
    })?;
    let done = with(Secret::new(created.key.reveal()));
    let revoked = with_store(config, data, async |store| {
        store.api_keys().revoke(created.record.prefix).await
    });
    // If both fail, the operation's error is reported.
    done.and(revoked.map(drop))
}

fn in_new_room(
    event: EventType,
    server: &AdminClient,
    project: &ProjectId,
    api: Api,
) -> Result<(), CliError> {
    // Before the room exists, so that it misses none of its events.
    let follower = Follower::new(server, project, StartPoint::Now)?;
    let mut room = TriggerRoom::create(api, server, follower)?;
    eprintln!("conclave: in the room {}", room.name());
    // The room ends in any case, so a failed step leaves none behind.
    let happened = room.trigger(event);
    let ended = room.end();
    let payload = happened?;
    ended?;
    // Printed as received, which is the exact body of a webhook.
    print_json_text(serde_json::from_str::<&RawValue>(&payload)?.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_example_of_each_event() {
        for event in EventType::ALL {
            let example = serde_json::to_value(example(*event).unwrap()).unwrap();
            assert_eq!(example["type"], event.as_str());
            assert_eq!(
                (&example["room"], &example["project_id"]),
                (&"example".into(), &"prj_000000000000".into())
            );
        }
    }
}
