//! The fonts of the system, and which characters each of them has.

use std::panic::catch_unwind;
use std::sync::{Arc, Once, OnceLock};
use std::thread;

use fontdb::{Database, FaceInfo, ID, Style};
use rustybuzz::ttf_parser::Face;
use rustybuzz::ttf_parser::cmap::Subtable;

/// Fonts that are used, at most: a system with all of Noto has some 300 of regular weight.
const MAX_FONTS: usize = 1_000;

/// The families that come first, in this order: they are complete and fit together.
const FAVOURITES: [&str; 4] = ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Roboto"];

/// Fonts in the order of preference.
#[derive(Default)]
pub struct Fonts {
    database: Database,
    fonts: Vec<Font>,
}

/// A font, and the characters that it has as ranges, in order.
struct Font {
    id: ID,
    ranges: Vec<(u32, u32)>,
}

impl Fonts {
    /// Returns the fonts of the system, once they are loaded. The first call starts a thread that loads them, with the priority of its
    /// caller. That takes some milliseconds, or a minute with all fonts for Chinese, Japanese and Korean on a busy machine: a composition
    /// must not wait for it, since the sound of the call would be lost meanwhile. Fonts that are installed later are found after a
    /// restart of the server.
    pub fn of_system() -> Option<Arc<Self>> {
        static SYSTEM: OnceLock<Arc<Fonts>> = OnceLock::new();
        static LOADING: Once = Once::new();
        LOADING.call_once(|| {
            let load = || {
                let fonts = catch_unwind(Self::load).unwrap_or_default();
                SYSTEM.get_or_init(|| Arc::new(fonts));
            };
            if let Err(error) = thread::Builder::new().name("fonts".into()).spawn(load) {
                log::error!("no thread can load the fonts for names in recordings: {error}");
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
            log::info!(count = fonts.fonts.len(); "fonts for names in recordings are loaded");
        }
        fonts
    }

    /// Takes the fonts of a database that have outlines and a regular shape.
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

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.fonts.is_empty()
    }

    /// Returns the number of the first font that has all of these characters.
    pub fn having(&self, characters: impl Iterator<Item = char> + Clone) -> Option<usize> {
        self.fonts
            .iter()
            .position(|font| characters.clone().all(|character| font.has(character)))
    }

    /// Returns whether a font has all of these characters.
    pub fn has(&self, font: usize, mut characters: impl Iterator<Item = char>) -> bool {
        self.fonts
            .get(font)
            .is_some_and(|font| characters.all(|character| font.has(character)))
    }

    /// Calls a function with the data of a font, and its index in them.
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

/// Returns how much a font is preferred, the least first; `None` if it is not for names: bold, slanted, or of symbols.
fn rank(face: &FaceInfo) -> Option<usize> {
    let family = face
        .families
        .first()
        .map_or("", |(family, _)| family.as_str());
    let is_regular = face.style == Style::Normal && (350..=500).contains(&face.weight.0);
    if !is_regular || family.contains("Emoji") || face.stretch != fontdb::Stretch::Normal {
        return None;
    }
    let favourite = FAVOURITES.iter().position(|favourite| *favourite == family);
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
    Some(favourite.unwrap_or(kind))
}

/// Returns the characters of a font with outlines.
fn read_ranges(data: &[u8], index: u32) -> Option<Vec<(u32, u32)>> {
    let face = Face::parse(data, index).ok()?;
    let tables = face.tables();
    // Fonts of coloured pictures have none, or only parts of them.
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
    /// Returns a font with Latin, Greek, Cyrillic and Hebrew letters, and another one with Arabic ones: parts of DejaVu Sans.
    pub fn for_tests() -> Self {
        let mut database = Database::new();
        for name in ["letters", "arabic"] {
            let path = format!("{}/testdata/{name}.ttf", env!("CARGO_MANIFEST_DIR"));
            database.load_font_data(std::fs::read(path).unwrap_or_default());
        }
        Self::new(database)
    }
}
