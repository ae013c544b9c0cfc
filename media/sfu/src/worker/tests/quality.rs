//! Quality of sessions.

use std::time::Duration;

use conclave_model::quality::{MediaConnection, QualitySummary, ReconnectReason};
use str0m::format::Codec;

use super::commands::new_peer;
use super::fixture::Fixture;
use super::{MODES, alice_and_bob};
use crate::command::{Command, ConnectionMode, PeerCommand};
use crate::event::QualityReport;

impl Fixture {
    fn reports(&self, name: &str) -> Vec<&QualityReport> {
        let of = |report: &&QualityReport| report.peer.as_str() == name;
        self.quality_reports.iter().filter(of).collect()
    }

    /// Returns the summary in a participant's last report.
    fn last_summary(&self, name: &str) -> QualitySummary {
        let reports = self.reports(name);
        let last = reports.last().unwrap();
        assert!(last.is_last, "{reports:?}");
        last.summary.clone().unwrap()
    }
}

#[test]
fn a_session_is_sampled_each_ten_seconds_and_at_its_end() {
    for mode in MODES {
        let (mut fixture, alice, bob) = alice_and_bob(mode);
        let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
        fixture.subscribe(bob, &camera);
        // 25 frames a second.
        for frame in 0..600 {
            fixture.send_vp8(&mut camera, None, frame % 50 == 0);
            fixture.run(Duration::from_millis(40));
        }
        assert_eq!(fixture.reports("PA_alice").len(), 2, "{mode:?}");
        fixture.leave(alice);
        fixture.leave(bob);
        let (sent, received) = (fixture.reports("PA_alice"), fixture.reports("PA_bob"));
        let ends: Vec<_> = sent.iter().map(|report| report.is_last).collect();
        assert_eq!(ends, [false, false, true], "{mode:?}");
        // Summaries are in the first report, then once a minute, and in the last one.
        let summaries: Vec<_> = received
            .iter()
            .map(|report| report.summary.is_some())
            .collect();
        assert_eq!(summaries, [true, false, true], "{mode:?}");
        let sample = sent[1].sample;
        assert!((10_000..11_100).contains(&sample.millis), "{sample:?}");
        // The simulated time of a step is a little longer than 40 ms.
        assert!(
            (24..=25).contains(&sample.sent.frame_rate),
            "{mode:?}: {sample:?}"
        );
        assert_eq!(sample.sent.freezes, 0, "{mode:?}: {sample:?}");
        assert!(
            (240..=280).contains(&sample.sent.packets),
            "{mode:?}: {sample:?}"
        );
        assert_eq!(
            (sample.received.packets, sample.sent.lost),
            (0, 0),
            "{mode:?}: {sample:?}"
        );
        assert_eq!(sample.connection, Some(MediaConnection::Udp), "{mode:?}");
        assert!(
            sample.score.is_some_and(|score| score > 400),
            "{mode:?}: {sample:?}"
        );
        let sample = received[1].sample;
        assert!(
            (24..=25).contains(&sample.received.frame_rate),
            "{mode:?}: {sample:?}"
        );
        assert_eq!(sample.sent.packets, 0, "{mode:?}: {sample:?}");
        assert!(
            (240..=280).contains(&sample.received.packets),
            "{mode:?}: {sample:?}"
        );
        let summary = fixture.last_summary("PA_bob");
        assert_eq!(summary.received.codecs, ["VP8"], "{mode:?}");
        assert_eq!(summary.failure, None, "{mode:?}");
        let packets: u32 = received
            .iter()
            .map(|report| report.sample.received.packets)
            .sum();
        assert_eq!(summary.received.packets, u64::from(packets), "{mode:?}");
        assert_eq!(summary.received.packets, 600, "{mode:?}");
    }
}

#[test]
fn a_gap_in_a_received_video_is_a_freeze_and_a_mute_is_none() {
    let (mut fixture, alice, bob) = alice_and_bob(ConnectionMode::Single);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    fixture.subscribe(bob, &camera);
    let stream = |fixture: &mut Fixture, camera: &mut _| {
        for frame in 0..50 {
            fixture.send_vp8(camera, None, frame % 25 == 0);
            fixture.run(Duration::from_millis(40));
        }
    };
    stream(&mut fixture, &mut camera);
    fixture.run(Duration::from_millis(700));
    stream(&mut fixture, &mut camera);
    for muted in [true, false] {
        let track = "TR_camera".parse().unwrap();
        fixture
            .command(PeerCommand::SetMuted { track, muted }.for_peer("PA_alice".parse().unwrap()));
        fixture.run(Duration::from_secs(2));
    }
    stream(&mut fixture, &mut camera);
    fixture.leave(bob);
    let received = fixture.last_summary("PA_bob").received;
    assert_eq!(received.freezes, 1, "{received:?}");
    assert!((700..=800).contains(&received.frozen_ms), "{received:?}");
}

#[test]
fn loss_is_counted_in_its_direction_and_lowers_the_score() {
    let mut fixture = Fixture::new();
    fixture.abilities.estimates = true;
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    let mut count = 0;
    fixture.loses = Box::new(move |is_to_server, _, _| {
        count += u32::from(is_to_server);
        is_to_server && count % 3 == 0
    });
    for _ in 0..600 {
        fixture.send_vp8(&mut camera, None, true);
        fixture.run(Duration::from_millis(40));
    }
    fixture.loses = Box::new(|_, _, _| false);
    fixture.leave(alice);
    let summary = fixture.last_summary("PA_alice");
    let (packets, lost) = (summary.sent.packets, summary.sent.lost);
    // A lost third of the sent packets equals half of the arrived packets.
    assert!(
        (packets * 3 / 10..packets * 7 / 10).contains(&lost),
        "{summary:?}"
    );
    assert_eq!(summary.received.lost, 0, "{summary:?}");
    assert!(
        summary.lowest_score.is_some_and(|score| score < 400),
        "{summary:?}"
    );
}

#[test]
fn reconnects_interruptions_and_failures_are_recorded() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let peer = || "PA_alice".parse().unwrap();
    fixture.command(PeerCommand::RecordReconnect(ReconnectReason::Publisher).for_peer(peer()));
    for _ in 0..2 {
        fixture.command(PeerCommand::Resume.for_peer(peer()));
        fixture.offer(alice, None, [0, 0], true);
        fixture.run(Duration::from_secs(1));
    }
    fixture.loses = Box::new(|_, _, _| true);
    fixture.run(Duration::from_secs(17));
    fixture.leave(alice);
    let summary = fixture.last_summary("PA_alice");
    let reconnects = summary.reconnects;
    assert_eq!(
        (reconnects.total, reconnects.publisher, reconnects.signal),
        (2, 1, 0)
    );
    assert_eq!(
        (summary.interruptions, summary.failure.as_deref()),
        (1, Some("silent"))
    );
}

#[test]
fn a_participant_that_was_never_connected_has_no_report() {
    let mut fixture = Fixture::new();
    fixture.command(Command::AddPeer(new_peer("PA_eve", ConnectionMode::Single)));
    fixture.run(Duration::from_secs(12));
    fixture.command(PeerCommand::Remove.for_peer("PA_eve".parse().unwrap()));
    assert_eq!(fixture.reports("PA_eve").len(), 0);
}

#[test]
fn a_failed_connection_is_reported_once_with_its_reason() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    fixture.run(Duration::from_secs(3));
    fixture.receiver(alice).rtc.close().unwrap();
    fixture.run(Duration::from_millis(100));
    fixture.leave(alice);
    assert_eq!(fixture.reports("PA_alice").len(), 1);
    assert_eq!(
        fixture.last_summary("PA_alice").failure.as_deref(),
        Some("closed")
    );
}
