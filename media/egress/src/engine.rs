//! What starts egresses, with the settings of all.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use conclave_model::egress::{CompositeMedia, EgressOutput, EgressPlan, EgressSource};
use conclave_model::filepath::FilePath;
use conclave_model::permits::{PermitLimits, ProjectPermit, ProjectPermits};
use conclave_model::rtmp::RtmpUrl;
use conclave_model::settings::EgressConfig;
use conclave_model::{EgressId, ProjectId, TrackSid};
use conclave_sfu::Codec;
use parking_lot::Mutex;

use crate::codec::Content;
use crate::decode::{DecoderPlaces, Transcoders};
use crate::ffmpeg::{Capacity, DiskBuffer, Ffmpeg, FfmpegError, Priority, StopDeadline};
use crate::job::{
    Arrangement, CompositeJob, Composition, EgressHost, Inputs, Job, JobHandle, Limits, TrackJob,
    channel, run,
};
use crate::output::{
    self, BROADCAST, FileSink, Media, OutputFile, ReserveError, Sink, StreamSink, arguments,
};
use crate::progress::Totals;
use crate::rtmp::Dialler;

/// Settings of recordings and broadcasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Section `egress`.
    pub egress: EgressConfig,
    /// The directory of recordings, with a directory for each project.
    pub recordings: PathBuf,
}

impl Settings {
    /// Returns the bounds of what waits for the ffmpeg of a recording.
    pub(crate) fn backlog(&self) -> Capacity {
        DiskBuffer {
            directory: self.recordings.clone(),
            bytes: u64::from(self.egress.buffer_mib) * 1024 * 1024,
        }
        .into()
    }

    /// Returns the priority of egresses and their ffmpeg processes, and of those of ingress.
    pub(crate) const fn priority(&self) -> Priority {
        Priority::new(self.egress.nice)
    }

    /// Returns the number of egresses that encode at once. Recordings of single tracks do not count.
    pub(crate) fn max_composites(&self) -> usize {
        usize::try_from(self.egress.max_composites).unwrap_or(usize::MAX)
    }
}

/// Starts egresses, with the ffmpeg of this machine.
pub struct Engine {
    settings: Settings,
    /// What was found last.
    ffmpeg: Mutex<Option<Ffmpeg>>,
    /// Of the egresses that encode.
    composites: ProjectPermits,
    /// Of the decoders of all egresses.
    decoders: DecoderPlaces,
    transcoders: Transcoders,
    stop: StopDeadline,
    totals: Arc<Totals>,
    /// What connects to the receivers of broadcasts.
    dialler: Dialler,
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
    /// This ffmpeg cannot encode it.
    #[error("{0}")]
    Unsupported(String),
    /// As many egresses encode as may, or as may of this project while others ask.
    #[error("as many recordings and broadcasts are encoded as this server allows")]
    Busy,
    /// The file cannot be created.
    #[error("the file cannot be created: {0}")]
    File(String),
    /// No file can have the path that was asked for.
    #[error("{0}")]
    Path(String),
}

/// An egress that can be started.
pub struct Prepared {
    settings: Settings,
    ffmpeg: Ffmpeg,
    work: Work,
    /// That of an egress that encodes, until it has ended.
    permit: Option<ProjectPermit>,
    decoders: DecoderPlaces,
    stop: StopDeadline,
    totals: Arc<Totals>,
    /// The path of the file, which may differ from the one that was asked for; `None` for a broadcast.
    pub filepath: Option<FilePath>,
}

enum Work {
    Track(TrackSid, Codec, OutputFile),
    Composition(Arrangement, Media, Output),
}

enum Output {
    File(OutputFile),
    Streams(Vec<RtmpUrl>, Dialler),
}

/// Returns how a composition is arranged.
const fn arrangement(source: &EgressSource) -> Arrangement {
    match source {
        EgressSource::RoomComposite { layout, .. } => Arrangement::Room(*layout),
        EgressSource::Participant(_) | EgressSource::Track(_) => Arrangement::Single,
    }
}

/// Returns what a composition contains.
const fn media_of(source: &EgressSource) -> Media {
    match source {
        EgressSource::RoomComposite { media, .. } => Media {
            has_video: !matches!(media, CompositeMedia::AudioOnly),
            has_audio: !matches!(media, CompositeMedia::VideoOnly),
        },
        EgressSource::Participant(_) | EgressSource::Track(_) => Media {
            has_video: true,
            has_audio: true,
        },
    }
}

impl Engine {
    /// Creates an engine, whose broadcasts are sent by `dialler`. ffmpeg is looked for when it is needed.
    pub fn new(settings: Settings, dialler: Dialler) -> Self {
        let transcoders = Transcoders::beside(settings.max_composites());
        let composites = ProjectPermits::new(PermitLimits::of_all(settings.max_composites()));
        let (decoders, stop) = (DecoderPlaces::of_server(), StopDeadline::default());
        let totals = Arc::default();
        Self {
            settings,
            ffmpeg: Mutex::new(None),
            composites,
            decoders,
            transcoders,
            stop,
            totals,
            dialler,
        }
    }

    /// Gives running egresses a time for their files, because the server stops, and returns that. A file that could still be made
    /// seekable after it plays as it is.
    pub fn begin_stop(&self) -> Duration {
        let timeout = self.settings.egress.stop_timeout;
        self.stop.set(Instant::now() + timeout);
        timeout
    }

    /// Returns the priority of what runs beside calls.
    pub const fn priority(&self) -> Priority {
        self.settings.priority()
    }

    /// Returns the video frames of all egresses since the server was started.
    pub const fn totals(&self) -> &Arc<Totals> {
        &self.totals
    }

    /// Returns the places of what is transcoded for encoders.
    pub const fn transcoders(&self) -> &Transcoders {
        &self.transcoders
    }

    /// Returns the ffmpeg of this machine. Once one was found, it is not looked for again. Blocks for a moment.
    ///
    /// # Errors
    /// There is none, or it does not work.
    pub fn ffmpeg(&self) -> Result<Ffmpeg, FfmpegError> {
        let mut found = self.ffmpeg.lock();
        if let Some(ffmpeg) = &*found {
            return Ok(ffmpeg.clone());
        }
        let detected = Ffmpeg::detect(&self.settings.egress.ffmpeg)?;
        Ok(found.insert(detected).clone())
    }

    /// Creates the file of an egress, and checks that everything is there that it needs. `codec` is that of the track, if a single
    /// track is recorded and published. Blocks for a moment.
    ///
    /// # Errors
    /// Something is missing, or too many egresses encode.
    pub fn prepare(&self, plan: &EgressPlan, codec: Option<Codec>) -> Result<Prepared, StartError> {
        let (project, _) = plan.room.split();
        if let EgressSource::Track(track) = &plan.source {
            let codec = codec.ok_or(StartError::NoSuchTrack)?;
            let EgressOutput::File { filepath, taken } = &plan.output else {
                return Err(StartError::Unsupported(
                    "a single track is not broadcast".into(),
                ));
            };
            let ffmpeg = self.ffmpeg()?;
            let (file, filepath) =
                self.reserve(&project, (filepath, taken), Content::Track(codec), &ffmpeg)?;
            return Ok(self.prepared(
                ffmpeg,
                (Work::Track(track.clone(), codec, file), None),
                Some(filepath),
            ));
        }
        let ffmpeg = self.ffmpeg()?;
        let permit = self
            .composites
            .take(&project, Instant::now())
            .ok_or(StartError::Busy)?;
        let media = media_of(&plan.source);
        let content = if media.has_video {
            Content::Video
        } else {
            Content::Audio
        };
        let container = match &plan.output {
            EgressOutput::File { filepath, .. } => output::container(filepath, content),
            EgressOutput::Streams(_) => BROADCAST,
        };
        arguments(&ffmpeg, container, media, &self.settings.egress).map_err(|codec| {
            StartError::Unsupported(format!("this ffmpeg has no encoder for {codec}"))
        })?;
        let (output, filepath) = match &plan.output {
            EgressOutput::File { filepath, taken } => {
                let (file, filepath) =
                    self.reserve(&project, (filepath, taken), content, &ffmpeg)?;
                (Output::File(file), Some(filepath))
            }
            EgressOutput::Streams(urls) => {
                (Output::Streams(urls.clone(), self.dialler.clone()), None)
            }
        };
        let work = Work::Composition(arrangement(&plan.source), media, output);
        Ok(self.prepared(ffmpeg, (work, Some(permit)), filepath))
    }

    fn prepared(
        &self,
        ffmpeg: Ffmpeg,
        (work, permit): (Work, Option<ProjectPermit>),
        filepath: Option<FilePath>,
    ) -> Prepared {
        let (settings, decoders) = (self.settings.clone(), self.decoders.clone());
        let (stop, totals) = (self.stop.clone(), Arc::clone(&self.totals));
        Prepared {
            settings,
            ffmpeg,
            work,
            permit,
            decoders,
            stop,
            totals,
            filepath,
        }
    }

    fn reserve(
        &self,
        project: &ProjectId,
        names: (&FilePath, &[FilePath]),
        content: Content,
        ffmpeg: &Ffmpeg,
    ) -> Result<(OutputFile, FilePath), StartError> {
        let file = output::reserve(&self.settings.recordings, project, names, content).map_err(
            |error| match error {
                ReserveError::Path => StartError::Path(error.to_string()),
                ReserveError::Io(error) => StartError::File(error.to_string()),
            },
        )?;
        let filepath = file.filepath.clone();
        Ok((
            OutputFile::new(ffmpeg.clone(), file, self.stop.clone()),
            filepath,
        ))
    }
}

impl Prepared {
    /// Starts the egress on a thread of its own. Nothing happens before the participants are known.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(self, egress: EgressId, host: Arc<dyn EgressHost>) -> io::Result<JobHandle> {
        let (handle, inputs) = channel(Arc::clone(&self.totals));
        thread::Builder::new()
            .name("egress".into())
            .spawn(move || {
                self.settings.priority().apply();
                let limits = Limits {
                    max_duration: self.settings.egress.max_duration,
                    empty_timeout: self.settings.egress.empty_timeout,
                };
                let mut prepared = self;
                let permit = prepared.permit.take();
                let on_event = |event| host.handle(&egress, event);
                run(
                    || prepared.job(&egress, &host, &inputs),
                    &inputs,
                    limits,
                    on_event,
                );
                drop(permit);
            })?;
        Ok(handle)
    }

    fn job(
        self,
        egress: &EgressId,
        host: &Arc<dyn EgressHost>,
        inputs: &Inputs,
    ) -> Result<Box<dyn Job>, String> {
        let (host, progress, egress) = (
            Arc::clone(host),
            Arc::clone(&inputs.progress),
            egress.clone(),
        );
        match self.work {
            Work::Track(track, codec, output) => {
                let output = (output, self.settings.backlog());
                Ok(Box::new(TrackJob::new(
                    (egress, track, codec),
                    output,
                    host,
                    progress,
                )))
            }
            Work::Composition(arrangement, media, output) => {
                let (backlog, encoding, stop) =
                    (self.settings.backlog(), self.settings.egress, self.stop);
                let is_live = matches!(output, Output::Streams(..));
                let sink: Box<dyn Sink> = match output {
                    Output::File(file) => Box::new(FileSink::start(
                        &self.ffmpeg,
                        file,
                        media,
                        &encoding,
                        backlog,
                    )?),
                    Output::Streams(urls, dialler) => {
                        let (progress, receivers) = (Arc::clone(&progress), (&urls[..], dialler));
                        Box::new(StreamSink::start(
                            &self.ffmpeg,
                            receivers,
                            (media, &encoding),
                            backlog,
                            progress,
                        )?)
                    }
                };
                let (ffmpeg, decoders) = (self.ffmpeg, self.decoders);
                let composition = Composition {
                    arrangement,
                    media,
                    encoding,
                    ffmpeg,
                    decoders,
                    is_live,
                    stop,
                };
                Ok(Box::new(CompositeJob::new(
                    egress,
                    composition,
                    sink,
                    host,
                    progress,
                )))
            }
        }
    }
}
