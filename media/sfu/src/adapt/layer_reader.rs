//! Which layer of a stream a packet has, whichever way the stream says it.

use super::dependency::{DependencyDescriptor, DependencyReader};
use super::packet::MediaPacket;
use super::vp9::Vp9Layers;

/// Reads the layers of the packets of a stream: from their dependency descriptors, or of VP9 without them from its payload descriptors.
#[derive(Debug, Default)]
pub struct LayerReader {
    dependencies: DependencyReader,
    vp9: Vp9Layers,
}

impl LayerReader {
    /// Whether receivers of a spatial layer need the frames of those below it in key pictures only, as far as is known.
    pub fn has_independent_layers(&self) -> bool {
        self.dependencies.has_independent_layers() || self.vp9.has_independent_layers()
    }

    /// Adds the layer to a packet, which came with this dependency descriptor. A packet with one that cannot be read has none.
    pub fn read(&mut self, media: &mut MediaPacket, descriptor: Option<&DependencyDescriptor>) {
        if let Some(descriptor) = descriptor {
            media.add_dependencies(self.dependencies.read(&descriptor.0));
        } else if let Some(descriptor) = &media.vp9 {
            media.layer = Some(self.vp9.read(descriptor));
        }
    }
}
