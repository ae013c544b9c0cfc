//! Matroska (RFC 9559) between this process and ffmpeg: it keeps timestamps, and can be written and read as a stream.

mod reader;
mod writer;

pub use reader::{Block, Reader};
pub use writer::{Track, TrackKind, Writer};

/// Ids of elements.
mod id {
    pub const EBML: u32 = 0x1a45_dfa3;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const INFO: u32 = 0x1549_a966;
    pub const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub const TRACKS: u32 = 0x1654_ae6b;
    pub const TRACK_ENTRY: u32 = 0xae;
    pub const CLUSTER: u32 = 0x1f43_b675;
    pub const TIMESTAMP: u32 = 0xe7;
    pub const SIMPLE_BLOCK: u32 = 0xa3;
    pub const BLOCK_GROUP: u32 = 0xa0;
    pub const BLOCK: u32 = 0xa1;
}
