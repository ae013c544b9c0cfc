//! A layered stream's structure: its templates for frames.

use super::super::layers::SpatialLayers;
use crate::bits::Bits;

/// A stream's templates, to which its frames refer.
#[derive(Debug)]
pub struct Structure {
    /// The first template's id.
    offset: u32,
    /// Number of decode targets. Each is a combination of layers that a receiver can decode.
    targets: usize,
    templates: Vec<Template>,
    /// Decode target with all temporal layers, per spatial layer.
    best_targets: Vec<Option<usize>>,
    /// Whether receivers of a spatial layer need lower layers only in key units.
    pub has_independent_layers: bool,
}

/// Properties shared by several frames.
#[derive(Debug)]
pub struct Template {
    pub spatial: u8,
    pub temporal: u8,
    /// The frame's role, per decode target.
    pub indications: Vec<Indication>,
}

/// A frame's role for a decode target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indication {
    /// Absent.
    NotPresent,
    /// Present, but not referred to.
    Discardable,
    /// Present; everything from it on can be decoded.
    Switch,
    /// Present and referred to.
    Required,
}

/// Maximum templates: their ids have 6 bits.
const TEMPLATES: usize = 64;

impl Structure {
    /// Reads a structure. The descriptor's size and [`TEMPLATES`] limit it.
    pub fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let offset = bits.number(6)?;
        let targets = usize::try_from(bits.number(5)?).ok()? + 1;
        let layers = read_layers(bits)?;
        let mut templates = Vec::with_capacity(layers.len());
        for (spatial, temporal) in layers {
            let indications = read_indications(bits, targets)?;
            templates.push(Template {
                spatial,
                temporal,
                indications,
            });
        }
        // The format stores each property for all templates in turn.
        templates.iter().try_for_each(|_| skip_references(bits))?;
        skip_chains(bits, targets, templates.len())?;
        let has_sizes = bits.flag()?;
        // Width and height per spatial layer, 16 bits each.
        if has_sizes {
            let layers = templates
                .last()
                .map_or(0, |template| usize::from(template.spatial) + 1);
            bits.skip(layers * 32)?;
        }
        // Templates are ordered by spatial layer, so the last one has the highest. Computed once, because each packet
        // needs it.
        let best = templates.last().map_or(0, |template| template.spatial);
        let best_targets = (0..=best)
            .map(|spatial| find_best_target(&templates, targets, spatial))
            .collect();
        let mut structure = Self {
            offset,
            targets,
            templates,
            best_targets,
            has_independent_layers: false,
        };
        structure.has_independent_layers = structure.leaves_out_lower_layers();
        Some(structure)
    }

    /// Returns how many decode targets there are.
    pub const fn targets(&self) -> usize {
        self.targets
    }

    /// Returns the template with an id.
    pub fn template(&self, id: u32) -> Option<&Template> {
        // Ids wrap at 64, so that an encoder can replace the structure without repeating ids at once.
        let index = (id + 64 - self.offset) % 64;
        self.templates.get(usize::try_from(index).ok()?)
    }

    /// Reads roles that deviate from the frame's template.
    pub fn read_indications(&self, bits: &mut Bits<'_>) -> Option<Vec<Indication>> {
        read_indications(bits, self.targets)
    }

    /// Returns the decode target with a spatial layer and all its temporal layers.
    pub fn best_target(&self, spatial: u8) -> Option<usize> {
        *self.best_targets.get(usize::from(spatial))?
    }

    /// Returns the spatial layers whose receivers need a frame, by its roles for the decode targets.
    pub fn needed_by(&self, spatial: u8, indications: &[Indication]) -> SpatialLayers {
        let is_present = |target: usize| {
            indications
                .get(target)
                .is_some_and(|found| *found != Indication::NotPresent)
        };
        // Receivers of lower layers never need a higher one.
        let mut layers = SpatialLayers::only(spatial);
        for (layer, target) in (0..).zip(&self.best_targets).skip(usize::from(spatial) + 1) {
            // A layer without its own target cannot be decoded without all lower layers.
            if target.is_none_or(is_present) {
                layers.extend(SpatialLayers::only(layer));
            }
        }
        let best = u8::try_from(self.best_targets.len()).unwrap_or(u8::MAX) - 1;
        if layers.contains(best) {
            // A receiver whose limit is above the best layer gets the best layer.
            layers.extend(SpatialLayers::from(best));
        }
        layers
    }

    /// Returns whether a higher layer's receivers can do without some frames from the layer below.
    fn leaves_out_lower_layers(&self) -> bool {
        let is_independent = |template: &Template| {
            let above = template.spatial + 1;
            usize::from(above) < self.best_targets.len()
                && !self
                    .needed_by(template.spatial, &template.indications)
                    .contains(above)
        };
        self.templates.iter().any(is_independent)
    }
}

/// Returns the decode target with a spatial layer and all its temporal layers: among the targets without frames above
/// the layer, it has the highest frames, then the most templates.
fn find_best_target(templates: &[Template], targets: usize, spatial: u8) -> Option<usize> {
    let present = |target: usize| {
        templates.iter().filter(move |template| {
            template
                .indications
                .get(target)
                .is_some_and(|indication| *indication != Indication::NotPresent)
        })
    };
    let highest = |target: usize| present(target).map(|template| template.spatial).max();
    // Targets are ordered by their layers, so among equal ones any would do.
    (0..targets)
        .filter(|target| highest(*target).is_none_or(|highest| highest <= spatial))
        .max_by_key(|target| (highest(*target), present(*target).count()))
}

/// Reads the templates' layers: each equals the previous one, or is the next temporal or the next spatial layer.
fn read_layers(bits: &mut Bits<'_>) -> Option<Vec<(u8, u8)>> {
    let (mut layers, mut layer) = (Vec::new(), (0, 0));
    loop {
        layers.push(layer);
        layer = match bits.number(2)? {
            0 => layer,
            1 => (layer.0, layer.1 + 1),
            2 => (layer.0 + 1, 0),
            _ => return Some(layers),
        };
        // Without this limit, 255 bytes could describe more templates than ids exist.
        if layers.len() == TEMPLATES {
            return None;
        }
    }
}

fn read_indications(bits: &mut Bits<'_>, targets: usize) -> Option<Vec<Indication>> {
    let indication = |bits: &mut Bits<'_>| {
        Some(match bits.number(2)? {
            0 => Indication::NotPresent,
            1 => Indication::Discardable,
            2 => Indication::Switch,
            _ => Indication::Required,
        })
    };
    (0..targets).map(|_| indication(bits)).collect()
}

/// Skips the distances to the frames that a template refers to.
fn skip_references(bits: &mut Bits<'_>) -> Option<()> {
    while bits.flag()? {
        bits.skip(4)?;
    }
    Some(())
}

/// Skips the chains, with which receivers detect losses.
fn skip_chains(bits: &mut Bits<'_>, targets: usize, templates: usize) -> Option<()> {
    let chains = bits.number_below(u32::try_from(targets).ok()? + 1)?;
    if chains == 0 {
        return Some(());
    }
    for _ in 0..targets {
        bits.number_below(chains)?;
    }
    bits.skip(templates * usize::try_from(chains).ok()? * 4)
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use crate::bits::BitWriter;

    /// A structure as an encoder creates it.
    #[derive(Debug, Clone)]
    pub struct Written {
        pub offset: u64,
        pub targets: usize,
        pub templates: Vec<WrittenTemplate>,
        chains: u64,
        has_sizes: bool,
    }

    #[derive(Debug, Clone)]
    pub struct WrittenTemplate {
        pub layer: (u8, u8),
        indications: Vec<u64>,
        references: Vec<u64>,
    }

    impl Written {
        /// Creates templates for these layers. Each layer has a decode target with itself and all lower layers; each
        /// frame is a switch for it.
        pub fn with_layers(layers: &[(u8, u8)], offset: u64) -> Self {
            let is_in =
                |layer: (u8, u8), target: (u8, u8)| layer.0 <= target.0 && layer.1 <= target.1;
            let mut distinct = layers.to_vec();
            distinct.dedup();
            let template = |layer: &(u8, u8)| WrittenTemplate {
                layer: *layer,
                indications: distinct
                    .iter()
                    .map(|target| if is_in(*layer, *target) { 2 } else { 0 })
                    .collect(),
                references: vec![1],
            };
            let templates = layers.iter().map(template).collect();
            Self {
                offset,
                targets: distinct.len(),
                templates,
                chains: 1,
                has_sizes: false,
            }
        }

        pub fn write(&self, bits: &mut BitWriter) {
            bits.write(6, self.offset);
            bits.write(5, self.targets as u64 - 1);
            let layers: Vec<_> = self
                .templates
                .iter()
                .map(|template| template.layer)
                .collect();
            for pair in layers.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                bits.write(
                    2,
                    if after == before {
                        0
                    } else if after.0 == before.0 {
                        1
                    } else {
                        2
                    },
                );
            }
            bits.write(2, 3);
            let indications = self
                .templates
                .iter()
                .flat_map(|template| &template.indications);
            indications.for_each(|indication| bits.write(2, *indication));
            for template in &self.templates {
                for reference in &template.references {
                    bits.write(5, 0x10 | reference);
                }
                bits.write(1, 0);
            }
            bits.write_below(self.targets as u64 + 1, self.chains);
            if self.chains > 0 {
                (0..self.targets)
                    .for_each(|target| bits.write_below(self.chains, target as u64 % self.chains));
                (0..self.templates.len() as u64 * self.chains).for_each(|_| bits.write(4, 0xf));
            }
            bits.write(1, self.has_sizes.into());
            if self.has_sizes {
                let spatial = layers.last().unwrap().0;
                (0..=spatial).for_each(|_| bits.write(32, 0x0140_00b4));
            }
        }

        /// Returns whether everything in a template's layer and the lower ones can be decoded from it on, by its own
        /// indications or by the frame's.
        pub fn switches_up(&self, template: usize, own: Option<&[u64]>) -> bool {
            let spatial = self.templates[template].layer.0;
            let mut best = None;
            for target in 0..self.targets {
                let present: Vec<_> = self
                    .templates
                    .iter()
                    .filter(|template| template.indications[target] != 0)
                    .collect();
                let highest = present.iter().map(|template| template.layer.0).max();
                let size = (highest, present.len());
                if highest <= Some(spatial) && best.is_none_or(|(_, largest)| size >= largest) {
                    best = Some((target, size));
                }
            }
            let indications = own.unwrap_or(&self.templates[template].indications);
            best.is_some_and(|(target, _)| indications[target] == 2)
        }

        /// Restricts frames to the decode targets of their own spatial layer, except for each layer's first template,
        /// which key units use. So layers refer to lower ones only in key units.
        pub fn with_independent_layers(mut self) -> Self {
            let layers: Vec<_> = self
                .templates
                .iter()
                .map(|template| template.layer)
                .collect();
            let mut distinct = layers.clone();
            distinct.dedup();
            let mut known = Vec::new();
            for template in &mut self.templates {
                let is_of_key_pictures = !known.contains(&template.layer.0);
                known.push(template.layer.0);
                for (target, indication) in distinct.iter().zip(&mut template.indications) {
                    if !is_of_key_pictures && target.0 != template.layer.0 {
                        *indication = 0;
                    }
                }
            }
            self
        }
    }

    pub fn written() -> impl Strategy<Value = Written> {
        let steps = prop::collection::vec(
            (
                0..3_u8,
                any::<u64>(),
                prop::collection::vec(0..16_u64, 0..4),
            ),
            1..20,
        );
        (steps, 0..64_u64, any::<bool>(), any::<u64>()).prop_map(
            |(steps, offset, has_sizes, chains)| {
                let mut layer = (0, 0);
                let mut layers = Vec::new();
                for (step, _, _) in &steps {
                    layers.push(layer);
                    layer = match step {
                        1 if layer.1 < 7 => (layer.0, layer.1 + 1),
                        0 | 1 => layer,
                        _ => (layer.0 + 1, 0),
                    };
                }
                let mut written = Written::with_layers(&layers, offset);
                for (template, (_, random, references)) in written.templates.iter_mut().zip(steps) {
                    template.references = references;
                    // Some other indication than a switch.
                    for (target, indication) in template.indications.iter_mut().enumerate() {
                        let other =
                            [1, 2, 3, 2][usize::try_from(random >> (target % 32) & 3).unwrap()];
                        *indication = if *indication == 0 { 0 } else { other };
                    }
                }
                (written.has_sizes, written.chains) =
                    (has_sizes, chains % (written.targets as u64 + 1));
                written
            },
        )
    }
}
