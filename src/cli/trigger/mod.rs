//! `conclave trigger EVENT`: makes an event happen in a room with simulated participants, or sends an example of it.
//!
//! The room is a new one, and ends afterwards. It is created by the API with an API key: that of `CONCLAVE_KEY`, or one that the
//! command creates in the data directory and revokes at its end.

mod room;

use std::path::Path;

use clap::Args;
use conclave_model::event::{Event, EventContext, EventType};
use conclave_model::{Clock, DeliveryId, ProjectId, Secret};
use conclave_outbound::webhook::generate_secret;
use serde_json::value::RawValue;

use super::admin_client::{AdminClient, ServerArgs, checked_url};
use super::follower::{Follower, Forwarder, shown};
use super::listen::event_type;
use super::output::{print, print_json_text};
use super::store::with_store;
use crate::config::Config;
use crate::error::CliError;
use room::{Api, TriggerRoom};

/// The label of the API keys that the command creates.
const KEY_LABEL: &str = "conclave trigger";

/// What to trigger, and where.
#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// The type of the event, such as `participant.joined`.
    #[arg(value_parser = event_type())]
    event: EventType,
    /// The server and the project.
    #[command(flatten)]
    server: ServerArgs,
    /// Send an example of the event to this url, without a server.
    #[arg(long, value_name = "URL", conflicts_with_all = ["server", "project"])]
    sample: Option<String>,
    /// The signing secret of the example, `whsec_…` [default: a random one, which is printed].
    #[arg(long, value_name = "SECRET", requires = "sample")]
    secret: Option<String>,
}

/// Runs the command. `url` and `key` are those of the API, if the environment has them.
///
/// # Errors
/// The server refused a step, the event did not happen, or the receiver did not accept the example.
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
    print(&format!("{payload}\n"))?;
    let outcome = forwarder.post(DeliveryId::new(), args.event.as_str(), &payload);
    if outcome.error.is_some() {
        return Err(CliError::failed(format!(
            "the receiver did not accept it: {}",
            shown(&outcome)
        )));
    }
    eprintln!("conclave: accepted with {}", shown(&outcome));
    Ok(())
}

/// Returns an example of an event that happens now. Its project and its room say that it is one.
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
            let missing = "CONCLAVE_URL is needed: the url of the API";
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
        (_, None) => {
            let missing = "CONCLAVE_URL and CONCLAVE_KEY are needed: the url of the API and a key of the project";
            let url = server.api()?.ok_or_else(|| CliError::failed(missing))?;
            with_new_key(config, data, &project, |key| {
                in_new_room(args.event, &server, &project, Api::new(url, key))
            })
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Creates an API key in the data directory, and revokes it after its use. Other keys stay, whatever their label: they may be those of a
/// command that runs, or an operator's.
fn with_new_key(
    config: &Config,
    data: &Path,
    project: &ProjectId,
    with: impl FnOnce(Secret) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let created = with_store(config, data, async |store| {
        store
            .api_keys()
            .create(project.clone(), KEY_LABEL.into())
            .await
    })?;
    let done = with(Secret::new(created.key.reveal()));
    let revoked = with_store(config, data, async |store| {
        store.api_keys().revoke(created.record.prefix).await
    });
    done.and(revoked.map(drop))
}

fn in_new_room(
    event: EventType,
    server: &AdminClient,
    project: &ProjectId,
    api: Api,
) -> Result<(), CliError> {
    let follower = Follower::new(server, project, None)?;
    let mut room = TriggerRoom::create(api, server, follower)?;
    eprintln!("conclave: in the room {}", room.name());
    let happened = room.trigger(event);
    let ended = room.end();
    let payload = happened?;
    ended?;
    // The server has sent it.
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
