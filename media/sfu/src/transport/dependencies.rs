//! The dependency descriptor as a header extension of str0m.

use str0m::rtp::{Extension, ExtensionSerializer, ExtensionValues};

use crate::adapt::{DependencyDescriptor, MAX_DESCRIPTOR};

const URI: &str =
    "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";

/// The most bytes of an extension behind a header of one byte.
const MAX_SHORT: usize = 16;

/// Returns the extension.
pub fn dependency_extension() -> Extension {
    Extension::with_serializer(URI, Serializer)
}

#[derive(Debug)]
struct Serializer;

impl ExtensionSerializer for Serializer {
    fn write_to(&self, buffer: &mut [u8], values: &ExtensionValues) -> usize {
        let Some(DependencyDescriptor(bytes)) = values.user_values.get() else {
            return 0;
        };
        let Some(space) = buffer.get_mut(..bytes.len()) else {
            return 0;
        };
        space.copy_from_slice(bytes);
        bytes.len()
    }

    fn parse_value(&self, bytes: &[u8], values: &mut ExtensionValues) -> bool {
        let is_usable = (1..=MAX_DESCRIPTOR).contains(&bytes.len());
        if is_usable {
            values.user_values.set(DependencyDescriptor(bytes.into()));
        }
        is_usable
    }

    fn is_video(&self) -> bool {
        true
    }

    fn is_audio(&self) -> bool {
        false
    }

    fn requires_two_byte_form(&self, values: &ExtensionValues) -> bool {
        values
            .user_values
            .get()
            .is_some_and(|DependencyDescriptor(bytes)| bytes.len() > MAX_SHORT)
    }
}
