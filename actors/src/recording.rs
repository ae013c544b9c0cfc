//! The file of a recording that is about to start, for requests of the API and for recordings that start by themselves, and the way to the
//! actor that starts both.

use std::sync::Arc;

use conclave_db::{Store, StoreError};
use conclave_media::MediaPlane;
use conclave_model::Clock;
use conclave_model::TrackSid;
use conclave_model::egress::{
    CompositeMedia, EgressOutput, EgressPlan, EgressSource, UsedDestination,
};
use conclave_model::filepath::FilePath;
use conclave_model::participant::TrackKind;
use conclave_model::room::Room;

use crate::egress::EgressReply;

/// Sends a start to the project's actor, on which the starts of all egresses run.
#[derive(Clone)]
pub struct EgressStarter(Arc<dyn Fn(Arc<EgressPlan>, EgressReply) + Send + Sync>);

impl EgressStarter {
    /// Creates a starter that sends with `send`.
    pub fn new(send: impl Fn(Arc<EgressPlan>, EgressReply) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Starts an egress. `reply` receives its record, or nothing if the project has stopped.
    pub fn start(&self, plan: Arc<EgressPlan>, reply: EgressReply) {
        (self.0)(plan, reply);
    }
}

/// Services for choosing a recording's file.
#[derive(Clone, Copy)]
pub struct FileChooser<'a> {
    /// Durable records.
    pub store: &'a Store,
    /// Media plane, which knows tracks whose report has not been recorded yet.
    pub media: &'a dyn MediaPlane,
    /// Time source.
    pub clock: &'a Clock,
}

impl FileChooser<'_> {
    /// Returns a recording's output: at `filepath`, or at the default path.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn output(
        self,
        room: &Room,
        source: &EgressSource,
        filepath: Option<FilePath>,
        destination: Option<&UsedDestination>,
    ) -> Result<EgressOutput, StoreError> {
        let filepath = match filepath {
            Some(filepath) => filepath,
            None => self.default_path(room, source).await?,
        };
        // An upload would replace an earlier file with the same name at the destination.
        let taken = self.taken_paths(room, destination, &filepath).await?;
        Ok(EgressOutput::File { filepath, taken })
    }

    /// Returns the output of a recording that starts by itself, or together with others. A participant's recording has a path of its own.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn automatic_output(
        self,
        room: &Room,
        source: &EgressSource,
        destination: Option<&UsedDestination>,
    ) -> Result<EgressOutput, StoreError> {
        // Participants may join in the same millisecond, and LiveKit writes files with the same name over each other.
        let filepath = match source {
            EgressSource::Participant(_) => Some(FilePath::unique(&room.name, self.clock.now())),
            EgressSource::RoomComposite { .. } | EgressSource::Track(_) => None,
        };
        self.output(room, source, filepath, destination).await
    }

    /// Returns the paths of earlier recordings at a destination that this file could overwrite.
    async fn taken_paths(
        self,
        room: &Room,
        used: Option<&UsedDestination>,
        filepath: &FilePath,
    ) -> Result<Vec<FilePath>, StoreError> {
        let Some(used) = used else {
            return Ok(Vec::new());
        };
        let stem = filepath.split_extension().0.to_owned();
        self.store
            .uploads()
            .filepaths_at(room.project_id.clone(), used.id.clone(), stem)
            .await
    }

    async fn default_path(
        self,
        room: &Room,
        source: &EgressSource,
    ) -> Result<FilePath, StoreError> {
        let audio_only = match source {
            EgressSource::RoomComposite { media, .. } => *media == CompositeMedia::AudioOnly,
            EgressSource::Track(track) => self.is_audio(room, track).await?,
            EgressSource::Participant(_) => false,
        };
        Ok(FilePath::timestamped(
            &room.name,
            self.clock.now(),
            audio_only,
        ))
    }

    /// Returns whether a track is audio. The media plane also knows tracks whose report has not been recorded yet.
    async fn is_audio(self, room: &Room, track: &TrackSid) -> Result<bool, StoreError> {
        let recorded = self
            .store
            .tracks()
            .kind(room.project_id.clone(), room.id, track.clone())
            .await?;
        if let Some(kind) = recorded {
            return Ok(kind == TrackKind::Audio);
        }
        // If the media plane is unreachable, the start fails next, so the default here does not matter.
        let participants = self
            .media
            .participants(&room.namespaced_name())
            .await
            .unwrap_or_default();
        let published = participants
            .iter()
            .flat_map(|participant| &participant.tracks)
            .find(|found| found.sid == *track);
        Ok(published.is_some_and(|track| track.kind == TrackKind::Audio))
    }
}
