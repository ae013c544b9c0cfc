//! The files of Swagger UI, from the archive of the crate `utoipa-swagger-ui-vendored`. They stay compressed: gzip wraps the
//! same streams as a zip archive.

use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED as ARCHIVE;

/// How a file's entry in the directory of the archive begins, and the end of that directory.
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Bytes of an entry, and of the header before a file, without what has no fixed length.
const ENTRY_LEN: usize = 46;
const HEADER_LEN: usize = 30;
/// The method of compression that gzip has too.
const DEFLATE: usize = 8;
/// The header of gzip, with no time and no name.
static GZIP: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A file of the viewer.
pub struct File {
    /// Its content, or that in gzip, in parts of the archive.
    pub parts: [&'static [u8]; 4],
    /// Whether they are compressed by gzip.
    pub is_gzip: bool,
}

/// Returns the file of this name.
pub fn file(name: &str) -> Option<File> {
    let end = ARCHIVE.windows(END.len()).rposition(|bytes| bytes == END)?;
    let mut entry = ARCHIVE.get(number::<4>(ARCHIVE, end + 16)?..end)?;
    while entry.starts_with(ENTRY) {
        let [path, extra, comment] = [
            number::<2>(entry, 28)?,
            number::<2>(entry, 30)?,
            number::<2>(entry, 32)?,
        ];
        let found = std::str::from_utf8(entry.get(ENTRY_LEN..ENTRY_LEN + path)?).ok()?;
        // All files are in one folder, whose name has the version.
        if found
            .split_once('/')
            .and_then(|(_, path)| path.strip_prefix("dist/"))
            == Some(name)
        {
            return read(entry);
        }
        entry = entry.get(ENTRY_LEN + path + extra + comment..)?;
    }
    None
}

fn read(entry: &'static [u8]) -> Option<File> {
    let header = ARCHIVE.get(number::<4>(entry, 42)?..)?;
    let begin = HEADER_LEN + number::<2>(header, 26)? + number::<2>(header, 28)?;
    let content = header.get(begin..begin + number::<4>(entry, 20)?)?;
    let is_gzip = number::<2>(entry, 10)? == DEFLATE;
    // Both formats end with the checksum and the length of what was compressed.
    let (checksum, length) = (entry.get(16..20)?, entry.get(24..28)?);
    let parts = if is_gzip {
        [&GZIP, content, checksum, length]
    } else {
        [content, &[], &[], &[]]
    };
    Some(File { parts, is_gzip })
}

/// Reads a number of this many bytes.
fn number<const LEN: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + LEN)?.iter().rev();
    Some(bytes.fold(0, |number, byte| (number << 8) | usize::from(*byte)))
}
