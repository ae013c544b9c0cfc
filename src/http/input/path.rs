//! Path parameters, and the path types that several resources share.

use std::borrow::Cow;

use actix_web::HttpRequest;
use conclave_model::{Identity, Problem, RoomName, TemplateId};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::parameters;

/// The path of a room.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct RoomPath {
    /// The room's name.
    #[param(inline)]
    pub name: RoomName,
}

/// The path of a participant in a room.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct ParticipantPath {
    /// The room's name.
    #[param(inline)]
    pub name: RoomName,
    /// The participant's identity.
    #[param(inline)]
    pub identity: Identity,
}

/// The path of a template.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub struct TemplatePath {
    /// The template's id.
    #[param(inline)]
    pub id: TemplateId,
}

/// Reads the path parameters of a routed request.
///
/// # Errors
/// 400 at the first parameter that does not parse.
pub fn read<P: DeserializeOwned>(request: &HttpRequest) -> Result<P, Problem> {
    let given: Vec<_> = request.match_info().iter().map(|(name, raw)| (name.into(), decoded(raw))).collect();
    parameters::read(&given).map_err(|error| error.into_problem(&[]))
}

/// A path parameter as text.
#[must_use]
pub fn segment(request: &HttpRequest, name: &str) -> String {
    decoded(request.match_info().query(name)).into_owned()
}

fn decoded(raw: &str) -> Cow<'_, str> {
    percent_decode_str(raw).decode_utf8_lossy()
}
