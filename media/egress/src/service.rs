//! Preparing and starting egresses within the server's limits.

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
use crate::decode::{DecoderSlots, TranscoderPermits};
use crate::ffmpeg::{BacklogCapacity, DiskBuffer, Ffmpeg, FfmpegError, Priority, StopDeadline};
use crate::output::{
    // FLV takes the same codecs as MP4.
    self,
    BROADCAST_CONTAINER,
    FileSink,
    Media,
    OutputFile,
    ReserveError,
    Sink,
    StreamSink,
    arguments,
};
use crate::pipeline::{
    Arrangement, CompositeConfig, CompositePipeline, EgressHandle, EgressHost, EgressLimits,
    EgressQueues, Pipeline, TrackPipeline, egress_queues, run,
};
use crate::progress::EgressTotals;
use crate::rtmp::RtmpDialler;

/// Settings for recordings and broadcasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressSettings {
    /// Section `egress` in the configuration.
    pub egress: EgressConfig,
    /// Root directory for recordings, with one subdirectory per project.
    pub recordings: PathBuf,
}

impl EgressSettings {
    /// Returns the bounds for an encoder's queue.
    pub(crate) fn backlog(&self) -> BacklogCapacity {
        DiskBuffer {
            directory: self.recordings.clone(),
            bytes: u64::from(self.egress.buffer_mib) * 1024 * 1024,
        }
        .into()
    }

    /// Returns the scheduling priority for egress and ingress threads and their ffmpeg processes.
    pub(crate) const fn priority(&self) -> Priority {
        Priority::new(self.egress.nice)
    }

    /// Returns how many egresses may encode at once. Track recordings do not count.
    pub(crate) fn max_composites(&self) -> usize {
        usize::try_from(self.egress.max_composites).unwrap_or(usize::MAX)
    }
}

/// Prepares and starts the server's egresses.
pub struct EgressService {
    settings: EgressSettings,
    /// Last ffmpeg that was detected; `None` until then.
    ffmpeg: Mutex<Option<Ffmpeg>>,
    /// Permits for egresses that encode.
    composites: ProjectPermits,
    /// Decoder slots shared by all egresses.
    decoders: DecoderSlots,
    transcoders: TranscoderPermits,
    stop: StopDeadline,
    totals: Arc<EgressTotals>,
    /// Connects to broadcast receivers.
    dialler: RtmpDialler,
}

/// Error when an egress cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartEgressError {
    /// ffmpeg is missing or does not work.
    #[error("{0}")]
    Ffmpeg(#[from] FfmpegError),
    /// The track to record is not published.
    #[error("the room has no such track")]
    NoSuchTrack,
    /// This ffmpeg lacks an encoder, or the source and output cannot be combined.
    #[error("{0}")]
    Unsupported(String),
    /// All permits for encoding are taken, on the server or, while other projects wait, in this
    /// project.
    #[error("the maximum number of recordings and broadcasts is being encoded")]
    Busy,
    /// The file or its directory cannot be created.
    #[error("the file cannot be created: {0}")]
    File(String),
    /// The requested path is not usable: a component is a file, or a name is too long.
    #[error("{0}")]
    Path(String),
}

/// Egress whose resources are reserved, ready to start.
pub struct PreparedEgress {
    settings: EgressSettings,
    ffmpeg: Ffmpeg,
    pipeline: PreparedPipeline,
    /// Permit for encoding, held until the egress ends; `None` for a track recording.
    permit: Option<ProjectPermit>,
    decoders: DecoderSlots,
    stop: StopDeadline,
    totals: Arc<EgressTotals>,
    /// Actual file path, which may differ from the requested one; `None` for a broadcast.
    pub filepath: Option<FilePath>,
}

enum PreparedPipeline {
    Track(TrackSid, Codec, OutputFile),
    Composite(Arrangement, Media, CompositeDestination),
}

enum CompositeDestination {
    File(OutputFile),
    Streams(Vec<RtmpUrl>, RtmpDialler),
}

const fn arrangement(source: &EgressSource) -> Arrangement {
    match source {
        EgressSource::RoomComposite { layout, .. } => Arrangement::Room(*layout),
        EgressSource::Participant(_) | EgressSource::Track(_) => Arrangement::Single,
    }
}

const fn media_of(source: &EgressSource) -> Media {
    match source {
        EgressSource::RoomComposite { media, .. } => Media {
            // The contract makes `audio_only` and `video_only` exclusive.
            has_video: !matches!(media, CompositeMedia::AudioOnly),
            has_audio: !matches!(media, CompositeMedia::VideoOnly),
        },
        EgressSource::Participant(_) | EgressSource::Track(_) => Media {
            has_video: true,
            has_audio: true,
        },
    }
}

impl EgressService {
    /// Creates the service. ffmpeg is detected on first use; `dialler` connects to broadcast
    /// receivers.
    pub fn new(settings: EgressSettings, dialler: RtmpDialler) -> Self {
        let transcoders = TranscoderPermits::new(settings.max_composites());
        let composites = ProjectPermits::new(PermitLimits::new(settings.max_composites()));
        let (decoders, stop) = (DecoderSlots::for_server(), StopDeadline::default());
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

    /// Sets the deadline by which running egresses must finish their files, and returns the time
    /// until then (`egress.stop_timeout`). An MP4 file that is not seekable by then stays playable
    /// as it is.
    pub fn start_shutdown(&self) -> Duration {
        let timeout = self.settings.egress.stop_timeout;
        self.stop.set(Instant::now() + timeout);
        timeout
    }

    /// Returns the scheduling priority for background work.
    pub const fn priority(&self) -> Priority {
        self.settings.priority()
    }

    /// Returns the totals since the server started.
    pub const fn totals(&self) -> &Arc<EgressTotals> {
        &self.totals
    }

    /// Returns the permits for transcoding ingress streams.
    pub const fn transcoders(&self) -> &TranscoderPermits {
        &self.transcoders
    }

    /// Returns this machine's ffmpeg, detecting it if no earlier call found one. Blocks for up to
    /// 20 s.
    ///
    /// # Errors
    /// Fails if ffmpeg is missing or does not work.
    pub fn ffmpeg(&self) -> Result<Ffmpeg, FfmpegError> {
        let mut found = self.ffmpeg.lock();
        if let Some(ffmpeg) = &*found {
            return Ok(ffmpeg.clone());
        }
        // The lock is kept while ffmpeg runs, so that concurrent requests do not each start one.
        let detected = Ffmpeg::detect(&self.settings.egress.ffmpeg)?;
        Ok(found.insert(detected).clone())
    }

    /// Reserves everything that an egress needs: its file, an encoder and a permit. `codec` is the
    /// recorded track's codec, absent if it is not published or the source is not a track. Blocks.
    ///
    /// # Errors
    /// Fails if something is missing, or too many egresses encode.
    pub fn prepare(
        &self,
        plan: &EgressPlan,
        codec: Option<Codec>,
    ) -> Result<PreparedEgress, StartEgressError> {
        let (project, _) = plan.room.split();
        if let EgressSource::Track(track) = &plan.source {
            let codec = codec.ok_or(StartEgressError::NoSuchTrack)?;
            let EgressOutput::File { filepath, taken } = &plan.output else {
                return Err(StartEgressError::Unsupported(
                    "a single track is not broadcast".into(),
                ));
            };
            let ffmpeg = self.ffmpeg()?;
            let (file, filepath) =
                self.reserve(&project, (filepath, taken), Content::Track(codec), &ffmpeg)?;
            return Ok(self.prepared(
                ffmpeg,
                // No permit: copying takes hardly any processor time.
                (PreparedPipeline::Track(track.clone(), codec, file), None),
                Some(filepath),
            ));
        }
        let ffmpeg = self.ffmpeg()?;
        // The permit and the encoders are checked before the file is created, so that a refused
        // request leaves no trace on disk.
        let permit = self
            .composites
            .take(&project, Instant::now())
            .ok_or(StartEgressError::Busy)?;
        let media = media_of(&plan.source);
        let content = if media.has_video {
            Content::Video
        } else {
            Content::Audio
        };
        let container = match &plan.output {
            EgressOutput::File { filepath, .. } => output::container(filepath, content),
            EgressOutput::Streams(_) => BROADCAST_CONTAINER,
        };
        // A missing encoder should fail the request, not the egress that starts a moment later.
        arguments(&ffmpeg, container, media, &self.settings.egress).map_err(|codec| {
            StartEgressError::Unsupported(format!("this ffmpeg has no encoder for {codec}"))
        })?;
        let (output, filepath) = match &plan.output {
            EgressOutput::File { filepath, taken } => {
                let (file, filepath) =
                    self.reserve(&project, (filepath, taken), content, &ffmpeg)?;
                (CompositeDestination::File(file), Some(filepath))
            }
            EgressOutput::Streams(urls) => (
                CompositeDestination::Streams(urls.clone(), self.dialler.clone()),
                None,
            ),
        };
        let pipeline = PreparedPipeline::Composite(arrangement(&plan.source), media, output);
        Ok(self.prepared(ffmpeg, (pipeline, Some(permit)), filepath))
    }

    fn prepared(
        &self,
        ffmpeg: Ffmpeg,
        (pipeline, permit): (PreparedPipeline, Option<ProjectPermit>),
        filepath: Option<FilePath>,
    ) -> PreparedEgress {
        let (settings, decoders) = (self.settings.clone(), self.decoders.clone());
        let (stop, totals) = (self.stop.clone(), Arc::clone(&self.totals));
        PreparedEgress {
            settings,
            ffmpeg,
            pipeline,
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
    ) -> Result<(OutputFile, FilePath), StartEgressError> {
        // An unusable path is the client's error; anything else is the operator's.
        let file = output::reserve(&self.settings.recordings, project, names, content).map_err(
            |error| match error {
                ReserveError::Path => StartEgressError::Path(error.to_string()),
                ReserveError::Io(error) => StartEgressError::File(error.to_string()),
            },
        )?;
        let filepath = file.filepath.clone();
        Ok((
            OutputFile::new(ffmpeg.clone(), file, self.stop.clone()),
            filepath,
        ))
    }
}

impl PreparedEgress {
    /// Starts the egress on its own thread. It idles until the first inputs arrive.
    ///
    /// # Errors
    /// Fails if the operating system refuses a thread.
    pub fn start(self, egress: EgressId, host: Arc<dyn EgressHost>) -> io::Result<EgressHandle> {
        let (handle, queues) = egress_queues(Arc::clone(&self.totals));
        thread::Builder::new()
            .name("egress".into())
            .spawn(move || {
                // First of all: threads and processes started below inherit the priority.
                self.settings.priority().apply();
                let limits = EgressLimits {
                    max_duration: self.settings.egress.max_duration,
                    empty_timeout: self.settings.egress.empty_timeout,
                };
                let mut prepared = self;
                // Taken out so that it outlives the pipeline: the encoder's time at the end counts,
                // too.
                let permit = prepared.permit.take();
                let on_event = |event| host.handle(&egress, event);
                run(
                    || prepared.pipeline(&egress, &host, &queues),
                    &queues,
                    limits,
                    on_event,
                );
                drop(permit);
            })?;
        Ok(handle)
    }

    fn pipeline(
        self,
        egress: &EgressId,
        host: &Arc<dyn EgressHost>,
        queues: &EgressQueues,
    ) -> Result<Box<dyn Pipeline>, String> {
        let (host, progress, egress) = (
            Arc::clone(host),
            Arc::clone(&queues.progress),
            egress.clone(),
        );
        match self.pipeline {
            PreparedPipeline::Track(track, codec, output) => {
                let output = (output, self.settings.backlog());
                Ok(Box::new(TrackPipeline::new(
                    (egress, track, codec),
                    output,
                    host,
                    progress,
                )))
            }
            PreparedPipeline::Composite(arrangement, media, output) => {
                let (backlog, encoding, stop) =
                    (self.settings.backlog(), self.settings.egress, self.stop);
                let is_live = matches!(output, CompositeDestination::Streams(..));
                let sink: Box<dyn Sink> = match output {
                    CompositeDestination::File(file) => Box::new(FileSink::start(
                        &self.ffmpeg,
                        file,
                        media,
                        &encoding,
                        backlog,
                    )?),
                    CompositeDestination::Streams(urls, dialler) => {
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
                let composition = CompositeConfig {
                    arrangement,
                    media,
                    encoding,
                    ffmpeg,
                    decoders,
                    is_live,
                    stop,
                };
                Ok(Box::new(CompositePipeline::new(
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
