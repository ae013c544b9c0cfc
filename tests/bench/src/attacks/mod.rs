//! The test behind `scripts/check attacks`: an unauthenticated client or a participant attacks the server at full speed, and another
//! project must not notice.
//!
//! Each attack has its own server, and an attacker in a process at idle priority, so that the attacker takes no processor time from the
//! server. An unauthenticated client attacks from one address, a participant with one token of one project. Meanwhile another project's
//! call continues, its participants join, and its backend calls the API. All traffic is on loopback, and time and connections are
//! bounded.

mod attacker;
mod data;
mod flood;
mod messages;
mod neighbour;
mod participant;
mod report;
mod stranger;
mod turn;

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::BenchError;
use crate::overload::{Deployment, Helper, most_memory};
use attacker::{AttackOptions, attack};
use neighbour::Neighbour;
use report::Outcome;

/// One media worker on loopback, shared by all rooms; a TURN server; and an admin listener that requires a token.
const SETTINGS: [(&str, &str); 6] = [
    ("CONCLAVE_ADMIN__TOKEN", "a-token-that-nobody-guesses"),
    ("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1"),
    ("CONCLAVE_MEDIA__RTC__UDP_PORTS", "0"),
    ("CONCLAVE_MEDIA__RTC__TURN__SERVER", "on"),
    ("CONCLAVE_MEDIA__RTC__TURN__UDP_PORT", "0"),
    ("CONCLAVE_MEDIA__RTC__WORKERS", "1"),
];
/// Time for the attacker to start.
const BEGIN: Duration = Duration::from_secs(1);
/// Time after an attack until everything must be as before.
const RECOVERY: Duration = Duration::from_secs(2);

#[derive(Args)]
pub struct Options {
    /// Duration of each attack in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The attacks to run; all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Attack>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// The program's role when it starts itself.
#[derive(Subcommand)]
enum Role {
    /// The attacker.
    Attack(AttackOptions),
}

/// Kinds of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// An unauthenticated client sends empty packets to the media port, over TCP.
    EmptyPackets,
    /// An unauthenticated client sends random packets to the media port, over TCP.
    StrangePackets,
    /// An unauthenticated client sends join requests that inflate to many messages, without a valid token.
    JoinRequests,
    /// An unauthenticated client pipelines requests for large files and reads nothing.
    PipelinedUnread,
    /// An unauthenticated client pipelines requests and reads the responses.
    Pipelined,
    /// An unauthenticated client guesses the admin listener's token.
    AdminTokens,
    /// A participant sends offers with thousands of candidates.
    CandidateOffers,
    /// A participant sends offers with many media sections.
    SectionOffers,
    /// A participant sends offers with so many media sections that they are refused.
    HugeOffers,
    /// A participant sends small offers.
    SmallOffers,
    /// A participant mutes and unmutes a track.
    Mutes,
    /// A participant announces tracks that it never sends.
    Tracks,
    /// A participant sends large lists of participants who may receive its tracks.
    Permissions,
    /// A participant sends large states, as if it resumed.
    SyncStates,
    /// A participant repeatedly requests the same messages, by states that name one sender many times.
    NamedSenders,
    /// A participant sends settings for many tracks that do not exist.
    TrackSettings,
    /// A participant opens data channels with long names.
    DataChannels,
    /// A participant sends short and empty messages to the TURN server, over TCP.
    TurnMessages,
    /// A participant rejoins repeatedly, and takes all TURN allocations that it gets.
    TurnAllocations,
    /// A participant sends requests that are refused, and reads nothing.
    Unread,
    /// A participant joins, sends many messages, and leaves.
    Rejoins,
}

/// Runs the attacks, and returns whether all promises are kept.
pub fn run(conclave: &Path, options: &Options) -> Result<bool, BenchError> {
    if let Some(Role::Attack(options)) = &options.role {
        println!("{}", serde_json::to_string(&attack(options)?)?);
        return Ok(true);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut outcomes = Vec::new();
    for attack in Attack::value_variants() {
        if !options.only.is_empty() && !options.only.contains(attack) {
            continue;
        }
        if !options.json {
            println!("{}", attack.name());
        }
        let outcome = runtime.block_on(measure(
            conclave,
            *attack,
            Duration::from_secs(options.seconds),
        ))?;
        if !options.json {
            outcome.print();
        }
        outcomes.push(outcome);
    }
    if options.json {
        println!(
            "{:#}",
            Value::from_iter(outcomes.iter().map(Outcome::to_json))
        );
    }
    Ok(outcomes.iter().all(|outcome| outcome.broken().is_empty()))
}

impl Attack {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// Measures an attack's effect on another project.
async fn measure(conclave: &Path, attack: Attack, time: Duration) -> Result<Outcome, BenchError> {
    let scratch = tempfile::tempdir()?;
    let deployment = Deployment::start(conclave, scratch.path(), &SETTINGS)?;
    let token = deployment.token_of_first("attacked", "mallory").await?;
    let neighbour = Neighbour::start(&deployment).await?;
    let quiet = neighbour.observe(&deployment, time / 2).await?;
    let before = deployment.server.resident()?;
    let attacker = Helper::start(&attacker_arguments(
        &deployment,
        attack,
        &token,
        BEGIN + time,
    ))?;
    tokio::time::sleep(BEGIN).await;
    let (during, most) = tokio::join!(
        neighbour.observe(&deployment, time),
        most_memory(&deployment.server, time)
    );
    let attacker: Value = serde_json::from_str(&attacker.output().await?)?;
    tokio::time::sleep(RECOVERY).await;
    let afterwards = neighbour.observe(&deployment, time / 2).await?;
    Ok(Outcome {
        attack: attack.name(),
        attacker,
        quiet,
        during: during?,
        afterwards,
        memory: [before, most?, deployment.server.resident()?],
    })
}

fn attacker_arguments(
    deployment: &Deployment,
    attack: Attack,
    token: &str,
    time: Duration,
) -> Vec<String> {
    vec![
        "attacks".into(),
        "attack".into(),
        format!("--attack={}", attack.name()),
        format!("--api={}", deployment.server.api()),
        format!("--admin={}", deployment.server.admin()),
        format!("--token={token}"),
        format!("--seconds={}", time.as_secs_f64()),
    ]
}
