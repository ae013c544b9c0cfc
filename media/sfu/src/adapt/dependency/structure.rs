//! What the frames of a stream with layers can be like: its templates.

use super::super::layers::SpatialLayers;
use crate::bits::Bits;

/// The templates of a stream, to which its frames refer.
#[derive(Debug)]
pub struct Structure {
    /// The id of the first template.
    offset: u32,
    /// The number of decode targets: what a receiver may want of the stream.
    targets: usize,
    templates: Vec<Template>,
    /// For each spatial layer, the decode target that has all its temporal layers.
    best_targets: Vec<Option<usize>>,
    /// Whether receivers of a spatial layer need the frames of those below it in key pictures only.
    pub has_independent_layers: bool,
}

/// What a frame can be like.
#[derive(Debug)]
pub struct Template {
    pub spatial: u8,
    pub temporal: u8,
    /// For each decode target, what the frame is for it.
    pub indications: Vec<Indication>,
}

/// What a frame is for a decode target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indication {
    /// It is not part of it.
    NotPresent,
    /// It is part of it, and nothing refers to it.
    Discardable,
    /// From it on, everything of the target can be decoded.
    Switch,
    /// It is part of it.
    Required,
}

/// The most templates that ids can name.
const TEMPLATES: usize = 64;

impl Structure {
    /// Reads a structure. Its size is bounded by that of the descriptor, and the number of its templates.
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
        templates.iter().try_for_each(|_| skip_references(bits))?;
        skip_chains(bits, targets, templates.len())?;
        let has_sizes = bits.flag()?;
        if has_sizes {
            let layers = templates
                .last()
                .map_or(0, |template| usize::from(template.spatial) + 1);
            bits.skip(layers * 32)?;
        }
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

    /// Returns the number of decode targets.
    pub const fn targets(&self) -> usize {
        self.targets
    }

    /// Returns the template with an id.
    pub fn template(&self, id: u32) -> Option<&Template> {
        let index = (id + 64 - self.offset) % 64;
        self.templates.get(usize::try_from(index).ok()?)
    }

    /// Reads the indications of a frame that has other ones than its template.
    pub fn read_indications(&self, bits: &mut Bits<'_>) -> Option<Vec<Indication>> {
        read_indications(bits, self.targets)
    }

    /// Returns the decode target with a spatial layer and all its temporal layers.
    pub fn best_target(&self, spatial: u8) -> Option<usize> {
        *self.best_targets.get(usize::from(spatial))?
    }

    /// Returns the spatial layers whose receivers need a frame of a layer, by what it is for the decode targets.
    pub fn needed_by(&self, spatial: u8, indications: &[Indication]) -> SpatialLayers {
        let is_present = |target: usize| {
            indications
                .get(target)
                .is_some_and(|found| *found != Indication::NotPresent)
        };
        let mut layers = SpatialLayers::only(spatial);
        for (layer, target) in (0..).zip(&self.best_targets).skip(usize::from(spatial) + 1) {
            // A layer without a target cannot be decoded without all below it.
            if target.is_none_or(is_present) {
                layers.extend(SpatialLayers::only(layer));
            }
        }
        let best = u8::try_from(self.best_targets.len()).unwrap_or(u8::MAX) - 1;
        if layers.contains(best) {
            // Who wants more than there is gets the best layer.
            layers.extend(SpatialLayers::from(best));
        }
        layers
    }

    /// Whether there are frames that receivers of the layer above theirs do without.
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

/// Returns the decode target with a spatial layer and all its temporal layers: of those that have no frames above the layer, the one
/// with the highest frames, and then with frames of most templates.
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
    // The targets are in the order of what they have; the first of the same size would do as well.
    (0..targets)
        .filter(|target| highest(*target).is_none_or(|highest| highest <= spatial))
        .max_by_key(|target| (highest(*target), present(*target).count()))
}

/// Reads the layers of the templates: each is that of the one before, the next temporal, or the next spatial one.
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

/// Skips the differences to the numbers of the frames that a template refers to.
fn skip_references(bits: &mut Bits<'_>) -> Option<()> {
    while bits.flag()? {
        bits.skip(4)?;
    }
    Some(())
}

/// Skips the chains, by which receivers notice losses.
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

    /// A structure as an encoder makes it.
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
        /// Templates of some layers. There is a decode target for each layer, with those below it, to all of which each frame is a
        /// switch.
        pub fn of_layers(layers: &[(u8, u8)], offset: u64) -> Self {
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

        /// Returns whether everything of a template's layer and those below it can be decoded from it on, by its own indications or those
        /// of a frame.
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

        /// Lets frames of the layers below the first key template of each be part of the targets of their own layer only, as where layers
        /// refer to lower ones in key pictures only. The first template of each spatial layer is that of key pictures.
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
                let mut written = Written::of_layers(&layers, offset);
                for (template, (_, random, references)) in written.templates.iter_mut().zip(steps) {
                    template.references = references;
                    // Some other indication than that of a switch.
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
