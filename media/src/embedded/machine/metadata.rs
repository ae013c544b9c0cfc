//! What clients say of their own participants.

use conclave_model::ParticipantSid;

use super::Machine;
use crate::embedded::effect::ClientNotice;
use crate::embedded::own_metadata::{OwnMetadata, OwnMetadataError};

impl Machine {
    /// A client changes the name, metadata or attributes of its participant. All who see it are notified, and then the client that its
    /// request has been carried out.
    pub fn update_own_metadata(
        &mut self,
        sid: &ParticipantSid,
        change: OwnMetadata,
        request_id: u32,
    ) -> Result<(), OwnMetadataError> {
        let local = self
            .participants
            .get_mut(sid)
            .filter(|local| local.is_present())
            .ok_or(OwnMetadataError::Gone)?;
        if local.set_own_metadata(change)? {
            self.notify_changed_beside_tracks(sid);
        }
        self.notify(sid, ClientNotice::MetadataUpdated { request_id });
        Ok(())
    }
}
