//! Recording files inside the project's directory, and the response: whole, one range, or not modified. `actix-files` does not support
//! `If-Range`, so files are read here, in pieces, on threads of the blocking pool.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{io, iter};

use actix_files::{HttpRange, NamedFile};
use actix_web::body::SizedStream;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_SECURITY_POLICY, Charset,
    ContentDisposition, DispositionParam, DispositionType, ETag, EntityTag, ExtendedValue,
    HttpDate, IF_RANGE, IfRange, LastModified, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::{self, Bytes};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, HttpResponseBuilder};
use conclave_model::filepath::FilePath;
use conclave_model::permits::ProjectPermit;
use conclave_model::{ErrorCode, Problem, ProjectId};
use futures_util::{Stream, stream};

use crate::http::api::error::ApiError;
use crate::http::listener::trace::asks_for_head;
use crate::http::resource;

/// Bytes per read.
const PIECE: u64 = 64 * 1_024;

/// Validators that distinguish a file from other content at its path.
struct Validators {
    tag: EntityTag,
    modified: HttpDate,
}

/// File part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FilePart {
    start: u64,
    length: u64,
}

/// Requested part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedPart {
    Whole,
    Range(FilePart),
    /// The file has no such part.
    Unsatisfiable,
}

/// Responds with a file, to be saved under `name`. The permit is held until everything was sent.
pub fn respond(
    request: &HttpRequest,
    file: NamedFile,
    name: &str,
    permit: ProjectPermit,
) -> HttpResponse {
    let (size, validators) = (file.metadata().len(), Validators::from_file(&file));
    if validators.is_known(request) {
        // 304 before the range: a client with the whole file needs no part (RFC 9110, section 13.2.2).
        return head(StatusCode::NOT_MODIFIED, &validators).finish();
    }
    let (status, part) = match requested_part(request, size, &validators) {
        RequestedPart::Whole => (
            StatusCode::OK,
            FilePart {
                start: 0,
                length: size,
            },
        ),
        RequestedPart::Range(part) => (StatusCode::PARTIAL_CONTENT, part),
        RequestedPart::Unsatisfiable => {
            // By the standard, 416 includes the size, so that the client can correct its range.
            let range = (CONTENT_RANGE, format!("bytes */{size}"));
            return head(StatusCode::RANGE_NOT_SATISFIABLE, &validators)
                .insert_header(range)
                .finish();
        }
    };
    let mut response = head(status, &validators);
    if status == StatusCode::PARTIAL_CONTENT {
        let last = part.start + part.length - 1;
        response.insert_header((CONTENT_RANGE, format!("bytes {}-{last}/{size}", part.start)));
    }
    response
        .content_type(file.content_type().clone())
        .insert_header(ContentDisposition {
            disposition: DispositionType::Attachment,
            // To be saved: a recording must not open as a page of this origin.
            parameters: file_name(name),
        });
    // For a `HEAD`, the length is the file's, although nothing is read.
    let read = if asks_for_head(request) {
        FilePart { length: 0, ..part }
    } else {
        part
    };
    response.body(SizedStream::new(part.length, pieces(file, read, permit)))
}

/// Returns the parameters with a file's name. A name with non-ASCII characters is sent in the form of RFC 8187, and in a plain form
/// for clients that do not support it.
fn file_name(name: &str) -> Vec<DispositionParam> {
    let plain = name
        .chars()
        .map(|letter| if letter.is_ascii() { letter } else { '_' })
        .collect();
    let extended = (!name.is_ascii()).then(|| {
        let charset = Charset::Ext("UTF-8".to_owned());
        DispositionParam::FilenameExt(ExtendedValue {
            charset,
            language_tag: None,
            value: name.as_bytes().to_vec(),
        })
    });
    iter::once(DispositionParam::Filename(plain))
        .chain(extended)
        .collect()
}

/// Starts a response. Content that is not audio or video must not run as a page of this server.
fn head(status: StatusCode, validators: &Validators) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response
        .insert_header(ETag(validators.tag.clone()))
        .insert_header(LastModified(validators.modified))
        .insert_header((ACCEPT_RANGES, "bytes"))
        // `no-cache`: a copy must be revalidated, because the recording may be deleted; `private`: no proxy may share it.
        .insert_header((CACHE_CONTROL, "private, no-cache"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"));
    response
}

impl Validators {
    fn from_file(file: &NamedFile) -> Self {
        let metadata = file.metadata();
        let tag = format!(
            "{:x}-{:x}-{:x}.{:x}",
            // The inode differs if a file is replaced by another with the same size and time.
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec()
        );
        // HTTP dates have whole seconds (RFC 9110, section 5.6.7).
        let modified = SystemTime::UNIX_EPOCH
            + Duration::from_secs(u64::try_from(metadata.mtime()).unwrap_or_default());
        Self {
            tag: EntityTag::new_strong(tag),
            modified: modified.into(),
        }
    }

    /// Returns whether the client has the current file.
    fn is_known(&self, request: &HttpRequest) -> bool {
        resource::client_has(request, &self.tag)
    }

    /// Returns whether a range may be sent to a client with an earlier part of the file.
    fn permit_range(&self, request: &HttpRequest) -> bool {
        // Without `If-Range`, the client accepts any version.
        if !request.headers().contains_key(IF_RANGE) {
            return true;
        }
        match request.get_header::<IfRange>() {
            // Weakly equal files may differ in bytes, so joining their parts would corrupt the copy (RFC 9110, section 13.1.5).
            Some(IfRange::EntityTag(tag)) => tag.strong_eq(&self.tag),
            Some(IfRange::Date(date)) => date == self.modified,
            // A malformed condition does not match, so the whole file is sent.
            None => false,
        }
    }
}

/// Parses the requested range. Several ranges, other units than bytes, and a file that has changed result in the whole file.
fn requested_part(request: &HttpRequest, size: u64, validators: &Validators) -> RequestedPart {
    let header = request
        .headers()
        .get(RANGE)
        .and_then(|value| value.to_str().ok());
    // A range applies to GET only (RFC 9110, section 14.2).
    match header.filter(|_| !asks_for_head(request) && validators.permit_range(request)) {
        Some(header) => range(header, size),
        None => RequestedPart::Whole,
    }
}

fn range(header: &str, size: u64) -> RequestedPart {
    if !header.starts_with("bytes=") || header.contains(',') {
        // A server may ignore a range (RFC 9110, section 14.2); several ranges would need a multipart body.
        return RequestedPart::Whole;
    }
    match HttpRange::parse(header, size).as_deref() {
        Ok([HttpRange { start, length }, ..]) => RequestedPart::Range(FilePart {
            start: *start,
            length: *length,
        }),
        Ok([]) | Err(_) => RequestedPart::Unsatisfiable,
    }
}

/// Reads a part of a file in pieces, at the client's pace.
fn pieces(
    file: NamedFile,
    part: FilePart,
    permit: ProjectPermit,
) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(
        (Arc::new(file), part, permit),
        async |(file, FilePart { start, length }, permit)| {
            let size = PIECE.min(length);
            if size == 0 {
                return Ok::<_, io::Error>(None);
            }
            let reader = Arc::clone(&file);
            // A read can take long, for example on a network file system.
            // A piece at a time: memory stays bounded, and the client's reading sets the pace.
            let piece = web::block(move || {
                let mut piece = vec![0; usize::try_from(size).unwrap_or_default()];
                reader
                    .file()
                    // At an offset, so that the file needs no position shared between reads.
                    .read_exact_at(&mut piece, start)
                    .map(|()| Bytes::from(piece))
            });
            let piece = piece.await.map_err(io::Error::other)??;
            let rest = FilePart {
                start: start + size,
                length: length - size,
            };
            Ok(Some((piece, (file, rest, permit))))
        },
    )
}

/// Opens a recording's file below the recordings directory.
///
/// # Errors
/// 404 if it does not exist, or is outside the project's directory.
pub async fn open(
    recordings: &Path,
    project: &ProjectId,
    path: &FilePath,
) -> Result<NamedFile, ApiError> {
    let directory = recordings.join(project.as_str());
    let name = PathBuf::from(path.as_str());
    let opened = web::block(move || open_inside(&directory, &name))
        .await
        .map_err(ApiError::internal)?;
    let message = "the recording has no file on this machine: it was moved, deleted, never written, or is on another server";
    // One text for all causes, since a cause would reveal paths of the server.
    opened.map_err(|_| Problem::new(ErrorCode::RecordingNotFound, message).into())
}

/// Opens a file inside a directory. Symbolic links must not lead out of it.
fn open_inside(directory: &Path, name: &Path) -> io::Result<NamedFile> {
    // Both paths are canonical before they are compared, so that neither `..` nor a symbolic link leads outside.
    let directory = directory.canonicalize()?;
    let path = directory.join(name).canonicalize()?;
    if !path.starts_with(&directory) || !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    NamedFile::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_a_part_of_the_file() {
        let part = |start, length| RequestedPart::Range(FilePart { start, length });
        for (header, expected) in [
            ("bytes=0-", part(0, 10)),
            ("bytes=2-4", part(2, 3)),
            ("bytes=8-20", part(8, 2)),
            ("bytes=-3", part(7, 3)),
            ("bytes=-30", part(0, 10)),
            ("bytes=10-", RequestedPart::Unsatisfiable),
            ("bytes=x", RequestedPart::Unsatisfiable),
            ("bytes=0-1,3-4", RequestedPart::Whole),
            ("lines=1-2", RequestedPart::Whole),
        ] {
            assert_eq!(range(header, 10), expected, "{header}");
        }
        assert_eq!(range("bytes=0-", 0), RequestedPart::Unsatisfiable);
    }

    /// Proves S-24.
    #[test]
    fn only_files_inside_the_directory_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prj");
        std::fs::create_dir_all(directory.join("sub")).unwrap();
        for name in ["prj/a.mp4", "prj/sub/b.mp4", "outside.mp4"] {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        std::os::unix::fs::symlink(
            folder.path().join("outside.mp4"),
            directory.join("link.mp4"),
        )
        .unwrap();
        for inside in ["a.mp4", "sub/b.mp4"] {
            assert!(
                open_inside(&directory, Path::new(inside)).is_ok(),
                "{inside}"
            );
        }
        let absolute = folder.path().join("outside.mp4");
        for outside in [
            Path::new("../outside.mp4"),
            Path::new("link.mp4"),
            Path::new("sub"),
            Path::new("none"),
            &absolute,
        ] {
            assert!(open_inside(&directory, outside).is_err(), "{outside:?}");
        }
    }
}
