//! Why requests about a WHIP session are refused.

/// Why a change of a session's ICE parameters is refused (RFC 9725, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhipPatchError {
    /// There is no such session, or it is over: 404.
    #[error("no such session")]
    NoSession,
    /// The request names no entity tag: 428.
    #[error("the request must name the entity tag of the ICE session in If-Match, or * to restart ICE")]
    NoCondition,
    /// The request is about earlier ICE credentials: 412.
    #[error("ICE was restarted: the entity tag is not that of the session now")]
    Stale,
    /// The body is no fragment with ICE credentials: 400.
    #[error("{0}")]
    BadFragment(&'static str),
    /// The media worker did not answer: 503.
    #[error("the media worker did not answer")]
    Unavailable,
}
