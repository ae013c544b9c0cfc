//! A LiveKit with other users: another Conclave deployment, or an operator. Resources without a record in this server are left alone.

use livekit_double::{Double, Joining};
use serde_json::json;

use super::{livekit, proto};
use crate::support::{TestApp, eventually};
use crate::tools::other_project;

/// Another deployment's room, with a participant, an egress and an ingress endpoint.
struct Foreign {
    room: String,
    egress: String,
    ingress: String,
}

impl Foreign {
    fn new(double: &Double, room: String) -> Self {
        // An identity that this server would not allow.
        double.join(&room, &Joining::participant("carol#1"));
        double.join(&room, &Joining::participant("dave"));
        let (egress, ingress) = (
            double.start_egress(&room, "theirs.mp4"),
            double.create_ingress(&room),
        );
        Self {
            room,
            egress,
            ingress,
        }
    }

    #[track_caller]
    fn assert_untouched(&self, double: &Double) {
        let participants = double.room(&self.room).map(|room| room.num_participants);
        assert_eq!(participants, Some(2), "{}", self.room);
        assert!(!double.is_stopped(&self.egress), "{}", self.room);
        assert!(double.has_ingress(&self.ingress), "{}", self.room);
    }
}

/// Returns the number of unfiltered list calls for rooms, egresses and ingress endpoints.
fn surveys(double: &Double) -> [usize; 3] {
    [
        double
            .calls::<proto::ListRoomsRequest>("ListRooms")
            .iter()
            .filter(|call| call.names.is_empty())
            .count(),
        double
            .calls::<proto::ListEgressRequest>("ListEgress")
            .iter()
            .filter(|call| call.egress_id.is_empty())
            .count(),
        double
            .calls::<proto::ListIngressRequest>("ListIngress")
            .iter()
            .filter(|c| c.ingress_id.is_empty())
            .count(),
    ]
}

/// Advances to the next reconciliation round and waits until it has listed all live resources.
fn surveyed(app: &TestApp, double: &Double) {
    let [.., before] = surveys(double);
    app.next_round();
    eventually(|| surveys(double)[2] > before);
}

/// Proves S-84.
#[test]
fn what_is_in_no_record_is_left_alone() {
    let (app, double) = livekit();
    app.room("standup");
    let foreign = [
        Foreign::new(&double, "prj_ffffffffffff.standup".into()),
        Foreign::new(&double, format!("{}.unrecorded", app.project)),
    ];
    // An operator records this server's room and keeps an endpoint in it.
    let standup = format!("{}.standup", app.project);
    let (egress, ingress) = (
        double.start_egress(&standup, "operator.mp4"),
        double.create_ingress(&standup),
    );
    // Webhooks arrive in order: once this join is recorded, the other rooms' webhooks have been processed.
    double.join(&standup, &Joining::participant("alice"));
    app.wait_until_joined(1);
    foreign
        .iter()
        .for_each(|foreign| foreign.assert_untouched(&double));
    for _ in 0..3 {
        surveyed(&app, &double);
    }
    foreign
        .iter()
        .for_each(|foreign| foreign.assert_untouched(&double));
    assert!(!double.is_stopped(&egress) && double.has_ingress(&ingress));
    let actors = app.actors("?kind=project");
    assert_eq!(actors["actors"].as_array().unwrap().len(), 1, "{actors}");
}

#[test]
fn what_has_a_record_that_ended_is_closed() {
    let (app, double) = livekit();
    app.room("standup");
    let standup = format!("{}.standup", app.project);
    let started = app
        .post("/v1/rooms/standup/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    let egress = started["egress_id"].as_str().unwrap();
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    eventually(|| double.room(&standup).is_none() && double.is_stopped(egress));
    // A client with a valid token opens the room again by its join, without a webhook.
    double.join(&standup, &Joining::participant("alice"));
    eventually(|| {
        double
            .room(&standup)
            .is_some_and(|room| room.num_participants == 0)
    });
    surveyed(&app, &double);
    eventually(|| double.room(&standup).is_none());
}

#[test]
fn one_survey_of_livekit_serves_all_projects() {
    let (app, double) = livekit();
    app.room("standup");
    let others: Vec<_> = (0..3).map(|_| other_project(&app, "self_hosted")).collect();
    for other in &others {
        app.post("/v1/rooms")
            .bearer(&other.key)
            .json(json!({"name": "standup"}))
            .send()
            .expect(201);
        // Opened by a recording, and left open because LiveKit did not respond.
        let record = app.post("/v1/rooms/standup/recordings").bearer(&other.key);
        record
            .json(json!({"type": "room_composite"}))
            .send()
            .expect(201);
    }
    surveyed(&app, &double);
    let before = surveys(&double);
    double.drop_webhooks();
    for other in &others {
        double.join(
            &format!("{}.standup", other.project),
            &Joining::participant("alice"),
        );
    }
    app.next_round();
    for other in &others {
        eventually(|| {
            let open = app
                .get("/v1/sessions?active=true")
                .bearer(&other.key)
                .send()
                .expect(200);
            open["sessions"]
                .as_array()
                .is_some_and(|open| open.len() == 1)
        });
    }
    assert_eq!(surveys(&double), before.map(|count| count + 1));
}
