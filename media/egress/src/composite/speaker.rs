//! Who speaks, by how loud participants are.

use std::collections::HashMap;

use conclave_model::ParticipantSid;

/// The fewest chunks for which a participant is shown: a second and a half.
const SHOWN: u64 = 75;
/// The loudness above which a participant speaks, as a mean square of samples.
const SPEECH: u64 = 150 * 150;
/// How many times as loud as the participant that is shown another one has to be.
const LOUDER: u64 = 4;

/// The participant that is shown as the speaker.
#[derive(Debug, Default)]
pub struct ActiveSpeaker {
    current: Option<ParticipantSid>,
    /// The chunk in which the speaker changed last.
    since: u64,
    /// The loudness of each participant over about half a second.
    loudness: HashMap<ParticipantSid, u64>,
}

impl ActiveSpeaker {
    /// Returns the participant that is shown.
    pub const fn current(&self) -> Option<&ParticipantSid> {
        self.current.as_ref()
    }

    /// Takes how loud each participant was in a chunk. Returns whether another one is shown from now on.
    pub fn observe(&mut self, chunk: u64, heard: &HashMap<ParticipantSid, u64>) -> bool {
        self.loudness.retain(|sid, _| heard.contains_key(sid));
        for (sid, energy) in heard {
            let mean = self.loudness.entry(sid.clone()).or_default();
            *mean = (*mean * 19 + energy) / 20;
        }
        let current = self
            .current
            .as_ref()
            .and_then(|sid| self.loudness.get(sid).copied());
        let loudest = self
            .loudness
            .iter()
            .max_by_key(|(sid, mean)| (**mean, *sid));
        let Some((sid, mean)) = loudest.filter(|(_, mean)| **mean > SPEECH) else {
            return false;
        };
        let is_clear =
            current.is_none_or(|current| *mean > current * LOUDER && chunk >= self.since + SHOWN);
        if !is_clear || self.current.as_ref() == Some(sid) {
            return false;
        }
        (self.current, self.since) = (Some(sid.clone()), chunk);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn heard(alice: u64, bob: u64) -> HashMap<ParticipantSid, u64> {
        HashMap::from([
            ("PA_alice".parse().unwrap(), alice),
            ("PA_bob".parse().unwrap(), bob),
        ])
    }

    fn hear(speaker: &mut ActiveSpeaker, chunks: Range<u64>, alice: u64, bob: u64) {
        for chunk in chunks {
            speaker.observe(chunk, &heard(alice, bob));
        }
    }

    #[test]
    fn the_speaker_is_who_speaks_and_not_who_coughs() {
        let mut speaker = ActiveSpeaker::default();
        hear(&mut speaker, 0..100, 0, 0);
        assert_eq!(speaker.current(), None, "nobody speaks");
        hear(&mut speaker, 100..200, 1_000_000, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        hear(&mut speaker, 200..203, 1_000_000, 1_500_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_alice")
        );
        hear(&mut speaker, 203..300, 0, 1_000_000);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob")
        );
        hear(&mut speaker, 300..400, 0, 0);
        assert_eq!(
            speaker.current().map(ParticipantSid::as_str),
            Some("PA_bob"),
            "the last one stays"
        );
    }
}
