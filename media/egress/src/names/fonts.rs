//! System fonts and their characters.

use std::panic::catch_unwind;
use std::sync::{Arc, Once, OnceLock};
use std::thread;

use fontdb::{Database, FaceInfo, ID, Style};
use rustybuzz::ttf_parser::Face;
use rustybuzz::ttf_parser::cmap::Subtable;

// A system with the complete Noto family has some 300 regular fonts.
const MAX_FONTS: usize = 1_000;

// Families with many scripts in matching shapes.
const PREFERRED_FAMILIES: [&str; 4] = ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Roboto"];

/// Fonts, preferred ones first.
#[derive(Default)]
pub struct Fonts {
    database: Database,
    fonts: Vec<Font>,
}

/// Font with its characters, as sorted ranges.
struct Font {
    id: ID,
    ranges: Vec<(u32, u32)>,
}

impl Fonts {
    /// Returns the system's fonts once they are loaded; `None` until then. The first call starts to
    /// load them, on a thread with its caller's priority. Fonts installed later require a server
    /// restart.
    pub fn from_system() -> Option<Arc<Self>> {
        static SYSTEM: OnceLock<Arc<Fonts>> = OnceLock::new();
        static LOADING: Once = Once::new();
        LOADING.call_once(|| {
            // On a separate thread: with all CJK fonts, loading takes 10 s in a development build
            // and 50 s on a busy machine. A composition that waited would lose audio meanwhile.
            let load = || {
                // Font files are parsed, so a damaged one may cause a panic; compositions then use
                // the built-in letters.
                let fonts = catch_unwind(Self::load).unwrap_or_default();
                SYSTEM.get_or_init(|| Arc::new(fonts));
            };
            if let Err(error) = thread::Builder::new().name("fonts".into()).spawn(load) {
                log::error!(
                    "starting the thread that loads fonts for names in recordings failed: {error}"
                );
                SYSTEM.get_or_init(Arc::default);
            }
        });
        SYSTEM.get().map(Arc::clone)
    }

    fn load() -> Self {
        let mut database = Database::new();
        database.load_system_fonts();
        let fonts = Self::new(database);
        if fonts.is_empty() {
            log::warn!(
                "no font is installed: names in recordings have Latin letters only (docs/recordings.md, Names)"
            );
        } else {
            log::info!(count = fonts.fonts.len(); "loaded fonts for names in recordings");
        }
        fonts
    }

    /// Selects regular outline fonts from a database.
    pub fn new(database: Database) -> Self {
        let mut faces: Vec<_> = database
            .faces()
            .filter_map(|face| Some((rank(face)?, face)))
            .collect();
        faces.sort_by(|(rank, face), (other_rank, other)| {
            (rank, &face.post_script_name, face.index).cmp(&(
                other_rank,
                &other.post_script_name,
                other.index,
            ))
        });
        let with_ranges = |(_, face): (_, &FaceInfo)| {
            let ranges = database.with_face_data(face.id, read_ranges).flatten()?;
            Some(Font {
                id: face.id,
                ranges,
            })
        };
        let fonts = faces
            .into_iter()
            .take(MAX_FONTS)
            .filter_map(with_ranges)
            .collect();
        Self { database, fonts }
    }

    pub const fn is_empty(&self) -> bool {
        self.fonts.is_empty()
    }

    /// Returns the first font that has all characters.
    pub fn find(&self, characters: impl Iterator<Item = char> + Clone) -> Option<usize> {
        self.fonts
            .iter()
            .position(|font| characters.clone().all(|character| font.has(character)))
    }

    /// Returns whether a font has all characters.
    pub fn has(&self, font: usize, mut characters: impl Iterator<Item = char>) -> bool {
        self.fonts
            .get(font)
            .is_some_and(|font| characters.all(|character| font.has(character)))
    }

    /// Calls a function with a font's data and its index in a collection.
    pub fn with<T>(&self, font: usize, run: impl FnOnce(&[u8], u32) -> T) -> Option<T> {
        self.database.with_face_data(self.fonts.get(font)?.id, run)
    }
}

impl Font {
    fn has(&self, character: char) -> bool {
        let code = u32::from(character);
        let after = self.ranges.partition_point(|(begin, _)| *begin <= code);
        after
            .checked_sub(1)
            .and_then(|at| self.ranges.get(at))
            .is_some_and(|(_, end)| code <= *end)
    }
}

/// Returns a font's rank, lowest first; `None` if it is unsuitable for names: bold, slanted,
/// condensed, or emoji.
fn rank(face: &FaceInfo) -> Option<usize> {
    let family = face
        .families
        .first()
        .map_or("", |(family, _)| family.as_str());
    let is_regular = face.style == Style::Normal && (350..=500).contains(&face.weight.0);
    if !is_regular || family.contains("Emoji") || face.stretch != fontdb::Stretch::Normal {
        return None;
    }
    let preferred = PREFERRED_FAMILIES
        .iter()
        .position(|preferred| *preferred == family);
    let kind = match family {
        _ if face.monospaced && !family.contains("CJK") => 30,
        family if family.starts_with("Noto Sans") => 10,
        family
            if family.contains("Serif") || family.contains("Symbol") || family.contains("Math") =>
        {
            20
        }
        _ => 11,
    };
    Some(preferred.unwrap_or(kind))
}

/// Returns an outline font's characters.
fn read_ranges(data: &[u8], index: u32) -> Option<Vec<(u32, u32)>> {
    let face = Face::parse(data, index).ok()?;
    let tables = face.tables();
    // Color fonts have no outlines, or not for all glyphs.
    if (tables.glyf.is_none() && tables.cff.is_none()) || tables.colr.is_some() {
        return None;
    }
    let mut codes = Vec::new();
    for subtable in tables
        .cmap?
        .subtables
        .into_iter()
        .filter(Subtable::is_unicode)
    {
        subtable.codepoints(|code| {
            if subtable.glyph_index(code).is_some_and(|glyph| glyph.0 != 0) {
                codes.push(code);
            }
        });
    }
    codes.sort_unstable();
    codes.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for code in codes {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == code => *end = code,
            _ => ranges.push((code, code)),
        }
    }
    (!ranges.is_empty()).then_some(ranges)
}

#[cfg(test)]
impl Fonts {
    /// Returns two fonts cut from DejaVu Sans: Latin, Greek, Cyrillic and Hebrew in the first,
    /// Arabic in the second.
    pub fn for_tests() -> Self {
        let mut database = Database::new();
        for name in ["letters", "arabic"] {
            let path = format!("{}/testdata/{name}.ttf", env!("CARGO_MANIFEST_DIR"));
            database.load_font_data(std::fs::read(path).unwrap_or_default());
        }
        Self::new(database)
    }
}
