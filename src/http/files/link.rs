//! Expiring links to recording files.

use std::time::Duration;

use conclave_model::{EgressId, ErrorCode, Problem, ProjectId, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::derived_keys::DerivedKeys;

/// Default link lifetime.
pub const DEFAULT_LIFE: Duration = Duration::from_secs(60 * 60);
/// Maximum link lifetime.
// Like the longest presigned URLs of S3.
const LONGEST_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
// RFC 3986, section 2.3.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A link's query parameters.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkQuery {
    /// The recording's project
    #[param(inline)]
    project: ProjectId,
    /// Expiry of the link, in seconds since 1970
    expires: u32,
    /// Signature of project, egress id and expiry
    signature: String,
}

impl LinkQuery {
    /// Checks a recording's link, and returns the project.
    ///
    /// # Errors
    /// 401 for a link that this deployment did not sign, or that has expired.
    pub(super) fn check(
        self,
        keys: &DerivedKeys,
        id: &EgressId,
        now: Timestamp,
    ) -> Result<ProjectId, Problem> {
        let Self {
            project,
            expires,
            signature,
        } = self;
        let refused = |message| Err(Problem::new(ErrorCode::Unauthorized, message));
        // `blake3::Hash` compares in constant time.
        let is_ours = blake3::Hash::from_hex(&signature)
            .is_ok_and(|sent| sent == keys.recording_signature(&project, id, expires));
        if !is_ours {
            return refused("the link is invalid");
        }
        // Only after the signature, so that a forged link reveals nothing.
        if now.millis() >= i64::from(expires) * 1_000 {
            return refused("the link has expired");
        }
        Ok(project)
    }
}

/// Checks a link's lifetime.
///
/// # Errors
/// The allowed range.
pub fn checked_life(life: Duration) -> Result<Duration, &'static str> {
    let is_allowed = life >= Duration::from_secs(1) && life <= LONGEST_LIFE;
    if is_allowed {
        Ok(life)
    } else {
        Err("must be from 1 second to 7 days")
    }
}

/// Creates a link to a recording's file. Returns its path with the query, and its expiry.
pub fn make(
    keys: &DerivedKeys,
    project: &ProjectId,
    id: &EgressId,
    now: Timestamp,
    life: Duration,
) -> (String, Timestamp) {
    // The link carries whole seconds, so the expiry is rounded to them before it is signed and returned.
    let expires = u32::try_from(now.after(life).millis().div_euclid(1_000)).unwrap_or(u32::MAX);
    let (segment, signature) = (
        utf8_percent_encode(id.as_str(), UNRESERVED),
        keys.recording_signature(project, id, expires),
    );
    let path = format!(
        "/files/recordings/{segment}?project={project}&expires={expires}&signature={}",
        // Hexadecimal needs no escapes in a URL.
        signature.to_hex()
    );
    (path, Timestamp::from_millis(i64::from(expires) * 1_000))
}

#[cfg(test)]
mod tests {
    use conclave_model::Secret;

    use super::*;
    use crate::http::api::input::FromQuery;

    fn checked(
        keys: &DerivedKeys,
        path: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<ProjectId, Problem> {
        let query = path.split_once('?').unwrap().1;
        LinkQuery::from_query(query)
            .unwrap()
            .check(keys, &id.parse().unwrap(), now)
    }

    /// Proves S-26.
    #[test]
    fn a_link_is_for_one_recording_of_one_project_until_it_expires() {
        let (keys, project) = (DerivedKeys::new(&Secret::new("a")), ProjectId::new());
        let (id, now) = (
            "EG_1".parse().unwrap(),
            Timestamp::from_millis(1_700_000_000_500),
        );
        let (path, expires_at) = make(&keys, &project, &id, now, Duration::from_secs(60));
        assert_eq!(expires_at, Timestamp::from_millis(1_700_000_060_000));
        assert_eq!(checked(&keys, &path, "EG_1", now).unwrap(), project);
        let last = Timestamp::from_millis(expires_at.millis() - 1);
        assert!(checked(&keys, &path, "EG_1", last).is_ok());
        assert_eq!(
            checked(&keys, &path, "EG_1", expires_at)
                .unwrap_err()
                .message,
            "the link has expired"
        );
        let refused = |path: &str, id: &str, keys: &DerivedKeys| {
            checked(keys, path, id, now).unwrap_err().message
        };
        let other = path.replace(project.as_str(), ProjectId::new().as_str());
        let later = path.replace("expires=1700000060", "expires=1700000061");
        for (path, id, keys) in [
            (path.as_str(), "EG_2", &keys),
            (&other, "EG_1", &keys),
            (&later, "EG_1", &keys),
            (&path[..path.len() - 1], "EG_1", &keys),
            (&path, "EG_1", &DerivedKeys::new(&Secret::new("b"))),
        ] {
            assert_eq!(refused(path, id, keys), "the link is invalid", "{path}");
        }
    }

    #[test]
    fn an_id_is_one_segment_of_the_path() {
        let (keys, project) = (DerivedKeys::new(&Secret::new("a")), ProjectId::new());
        let (path, _) = make(
            &keys,
            &project,
            &"a/b?c%".parse().unwrap(),
            Timestamp::from_millis(0),
            DEFAULT_LIFE,
        );
        assert!(
            path.starts_with("/files/recordings/a%2Fb%3Fc%25?project=prj_"),
            "{path}"
        );
        assert!(
            checked_life(Duration::ZERO).is_err()
                && checked_life(LONGEST_LIFE + DEFAULT_LIFE).is_err()
        );
        assert!(checked_life(LONGEST_LIFE).is_ok());
    }
}
