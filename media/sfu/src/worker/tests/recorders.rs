//! Recorders receive packets like clients do, and never delay them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use str0m::format::Codec;

use super::fixture::Fixture;
use crate::command::{ConnectionMode, NewRecorder, PeerCommand, TrackSettings};
use crate::recorder::{PacketSink, RecordedPacket};

/// Queue that can be full.
#[derive(Default)]
pub struct Queue(Mutex<(Vec<RecordedPacket>, bool)>);

impl PacketSink for Queue {
    fn try_send(&self, packet: RecordedPacket) -> bool {
        let (packets, is_full) = &mut *self.0.lock().unwrap();
        if !*is_full {
            packets.push(packet);
        }
        !*is_full
    }
}

impl Queue {
    pub fn take(&self) -> Vec<RecordedPacket> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    fn set_full(&self, is_full: bool) {
        self.0.lock().unwrap().1 = is_full;
    }
}

pub fn recorder(sink: &Arc<Queue>) -> NewRecorder {
    let sink: Arc<dyn PacketSink> = Arc::<Queue>::clone(sink);
    NewRecorder {
        egress: "EG_1".parse().unwrap(),
        settings: TrackSettings::default(),
        sink,
    }
}

#[test]
fn a_recorder_gets_a_video_from_a_key_frame_on_and_after_lost_packets_from_the_next_one() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut camera = fixture.publish(alice, "TR_camera", Codec::Vp8, &[]);
    let (peer, track) = ("PA_alice".parse().unwrap(), "TR_camera".parse().unwrap());
    let queue = Arc::new(Queue::default());
    let recorder = recorder(&queue);
    fixture.send_vp8(&mut camera, None, false);
    fixture.command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
    fixture.send_vp8(&mut camera, None, false);
    fixture.run(Duration::from_millis(200));
    assert!(
        queue.take().is_empty(),
        "a recording would begin with pictures that cannot be decoded"
    );
    fixture.send_vp8(&mut camera, None, true);
    fixture.send_vp8(&mut camera, None, false);
    fixture.run(Duration::from_millis(40));
    let begun = queue.take();
    assert!(
        begun.first().is_some_and(|packet| packet.is_entry_point),
        "{begun:?}"
    );
    assert!(
        begun
            .windows(2)
            .all(|pair| pair[1].sequence == pair[0].sequence + 1)
    );

    queue.set_full(true);
    fixture.send_vp8(&mut camera, None, false);
    fixture.run(Duration::from_millis(40));
    queue.set_full(false);
    fixture.clients[alice].publisher.key_frame_requests.clear();
    fixture.send_vp8(&mut camera, None, false);
    fixture.run(Duration::from_secs(1));
    assert!(
        queue.take().is_empty(),
        "pictures between a loss and a key frame cannot be decoded"
    );
    assert!(
        !fixture.clients[alice]
            .publisher
            .key_frame_requests
            .is_empty(),
        "no key frame was requested"
    );
    fixture.send_vp8(&mut camera, None, true);
    fixture.run(Duration::from_millis(40));
    assert!(!queue.take().is_empty());
}

#[test]
fn nothing_of_a_muted_track_is_recorded_and_nothing_after_a_recorder_is_detached() {
    let mut fixture = Fixture::new();
    let alice = fixture.join_connected("PA_alice", ConnectionMode::Single);
    let mut microphone = fixture.publish(alice, "TR_microphone", Codec::Opus, &[]);
    let (peer, track) = (
        "PA_alice".parse().unwrap(),
        "TR_microphone".parse().unwrap(),
    );
    let queue = Arc::new(Queue::default());
    let recorder = recorder(&queue);
    let mute = |muted| {
        PeerCommand::SetMuted {
            track: "TR_microphone".parse().unwrap(),
            muted,
        }
        .for_peer("PA_alice".parse().unwrap())
    };
    fixture.command(PeerCommand::AttachRecorder { track, recorder }.for_peer(peer));
    fixture.send(&mut microphone, None, &[0xfc, 0xff, 0xfe]);
    fixture.run(Duration::from_millis(40));
    assert_eq!(queue.take().len(), 1);
    fixture.command(mute(true));
    fixture.send(&mut microphone, None, &[0xfc, 0xff, 0xfe]);
    fixture.run(Duration::from_millis(40));
    assert!(queue.take().is_empty());
    fixture.command(mute(false));
    fixture.send(&mut microphone, None, &[0xfc, 0xff, 0xfe]);
    fixture.run(Duration::from_millis(40));
    assert_eq!(queue.take().len(), 1);
    let (peer, track) = (
        "PA_alice".parse().unwrap(),
        "TR_microphone".parse().unwrap(),
    );
    fixture.command(
        PeerCommand::DetachRecorder {
            track,
            egress: "EG_1".parse().unwrap(),
        }
        .for_peer(peer),
    );
    fixture.send(&mut microphone, None, &[0xfc, 0xff, 0xfe]);
    fixture.run(Duration::from_millis(40));
    assert!(queue.take().is_empty());
}
