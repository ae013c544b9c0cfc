//! What starts egresses.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use conclave_model::egress::EgressSource;
use conclave_model::filepath::FilePath;
use conclave_model::{EgressId, NamespacedRoom, TrackSid};
use conclave_rtc::Codec;

use crate::ffmpeg::{Ffmpeg, FfmpegError};
use crate::files;
use crate::job::{EgressHost, Inputs, Job, JobHandle, TrackJob, channel, run};
use crate::output::OutputFile;
use crate::settings::Settings;

/// Starts egresses, with the ffmpeg of this machine.
pub struct Engine {
    settings: Settings,
    /// What was found last.
    ffmpeg: Mutex<Option<Ffmpeg>>,
}

/// An egress to start.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The room.
    pub room: NamespacedRoom,
    /// What of the room is recorded.
    pub source: EgressSource,
    /// The codec of the track, if a single track is recorded and published.
    pub codec: Option<Codec>,
    /// The path of the file within the directory of the project.
    pub filepath: FilePath,
}

/// Why an egress cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// ffmpeg cannot be used.
    #[error("{0}")]
    Ffmpeg(#[from] FfmpegError),
    /// The track that is to be recorded is not published.
    #[error("the room has no such track")]
    NoSuchTrack,
    /// It cannot be recorded on this server.
    #[error("{0}")]
    Unsupported(String),
    /// The file cannot be created.
    #[error("the file cannot be created: {0}")]
    File(String),
}

/// An egress that can be started.
pub struct Prepared {
    settings: Settings,
    work: Work,
    /// The path of the file, which may differ from the one that was asked for.
    pub filepath: FilePath,
}

enum Work {
    Track(TrackSid, Codec, OutputFile),
}

impl Engine {
    /// Creates an engine. ffmpeg is looked for when it is needed.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ffmpeg: Mutex::new(None) }
    }

    /// Returns the ffmpeg of this machine. Once one was found, it is not looked for again. Blocks for a moment.
    ///
    /// # Errors
    /// There is none, or it does not work.
    pub fn ffmpeg(&self) -> Result<Ffmpeg, FfmpegError> {
        let mut found = self.ffmpeg.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ffmpeg) = &*found {
            return Ok(ffmpeg.clone());
        }
        let detected = Ffmpeg::detect(&self.settings.ffmpeg)?;
        Ok(found.insert(detected).clone())
    }

    /// Creates the file of an egress, and checks that everything is there that it needs. Blocks for a moment.
    ///
    /// # Errors
    /// Something is missing.
    pub fn prepare(&self, plan: &Plan) -> Result<Prepared, StartError> {
        let EgressSource::Track(track) = &plan.source else {
            self.ffmpeg()?;
            return Err(StartError::Unsupported("only single tracks are recorded".into()));
        };
        let codec = plan.codec.ok_or(StartError::NoSuchTrack)?;
        let ffmpeg = self.ffmpeg()?;
        let project = plan.room.split().0;
        let file = files::reserve(&self.settings.recordings, &project, &plan.filepath, codec)
            .map_err(|error| StartError::File(error.to_string()))?;
        let filepath = file.filepath.clone();
        let work = Work::Track(track.clone(), codec, OutputFile::new(ffmpeg, file));
        Ok(Prepared { settings: self.settings.clone(), work, filepath })
    }
}

impl Prepared {
    /// Starts the egress on a thread of its own. Nothing happens before it is told who attends.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(self, egress: EgressId, host: Arc<dyn EgressHost>) -> io::Result<JobHandle> {
        let (handle, inputs) = channel();
        thread::Builder::new().name("egress".into()).spawn(move || {
            let longest = self.settings.longest;
            let job = self.job(&egress, &host, &inputs);
            run(job, &inputs, longest, |event| host.handle(&egress, event));
        })?;
        Ok(handle)
    }

    fn job(self, egress: &EgressId, host: &Arc<dyn EgressHost>, inputs: &Inputs) -> Box<dyn Job> {
        let (host, progress) = (Arc::clone(host), Arc::clone(&inputs.progress));
        match self.work {
            Work::Track(track, codec, output) => {
                Box::new(TrackJob::new((egress.clone(), track, codec), output, host, progress))
            }
        }
    }
}
