//! Other users of the same LiveKit: another deployment, or an operator. The app has no record of the egresses and endpoints that they
//! create.

use livekit_protocol as proto;
use proto::egress_info::Request;

use crate::Double;

impl Double {
    /// Starts an egress that records a room into a file. Returns its id.
    pub fn start_egress(&self, room: &str, filepath: &str) -> String {
        let file = proto::EncodedFileOutput {
            filepath: filepath.to_owned(),
            ..Default::default()
        };
        let request = proto::RoomCompositeEgressRequest {
            room_name: room.to_owned(),
            file_outputs: vec![file],
            ..Default::default()
        };
        let mut state = self.lock();
        state.open(room, self);
        state.start(Request::RoomComposite(request), self);
        state
            .egresses
            .keys()
            .next_back()
            .cloned()
            .expect("an egress was started")
    }

    /// Creates an ingress endpoint for a room. Returns its id.
    pub fn create_ingress(&self, room: &str) -> String {
        let mut state = self.lock();
        state.create_ingress(proto::CreateIngressRequest {
            room_name: room.to_owned(),
            ..Default::default()
        });
        state
            .ingresses
            .keys()
            .next_back()
            .cloned()
            .expect("an endpoint was made")
    }

    /// Returns the egresses in start order.
    #[must_use]
    pub fn egresses(&self) -> Vec<proto::EgressInfo> {
        self.lock().egresses.values().cloned().collect()
    }

    /// Returns whether an egress was stopped or has ended.
    #[must_use]
    pub fn is_stopped(&self, egress: &str) -> bool {
        let running = proto::EgressStatus::EgressActive as i32;
        self.lock()
            .egresses
            .get(egress)
            .is_none_or(|info| info.status > running)
    }

    /// Returns whether an ingress endpoint exists.
    #[must_use]
    pub fn has_ingress(&self, ingress: &str) -> bool {
        self.lock().ingresses.contains_key(ingress)
    }

    /// Removes a participant from the list of participants, or adds it again. It stays connected, and is counted.
    pub fn set_listed(&self, room: &str, identity: &str, listed: bool) {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room).expect("a room that is live");
        if listed {
            room.unlisted.remove(identity);
        } else {
            room.unlisted.insert(identity.to_owned());
        }
    }
}
