//! Path parameters, and the path types that several resources share.

use actix_web::HttpRequest;
use conclave_model::{Identity, Problem, RoomName, TemplateId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::parameters;
use super::source::{RequestSource, decode_segment};

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

/// Reads the path parameters of a request.
///
/// # Errors
/// 400 at the first parameter that does not parse.
pub fn read<P: DeserializeOwned>(source: &RequestSource) -> Result<P, Problem> {
    parameters::read(&source.path_parameters()).map_err(|error| error.into_problem(&[]))
}

/// A path parameter as text.
pub fn segment(request: &HttpRequest, name: &str) -> String {
    decode_segment(request.match_info().query(name)).into_owned()
}
