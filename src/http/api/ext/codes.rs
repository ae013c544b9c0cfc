//! Room codes by id. A room's list contains the ids; the code itself is known only to the client that created it.

use conclave_model::{CodeId, ErrorCode, RoomName};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::api::context::RequestContext;
use crate::http::api::error::Result;
use crate::http::api::input::{Input, NoBody, NoParams};
use crate::http::api::operation::{Operation, operation};
use crate::http::api::response::NoContent;
use crate::http::api::spec::Method;

/// Room code path, by the code's id.
#[derive(Deserialize, IntoParams)]
pub struct CodeIdPath {
    /// The room's name.
    #[param(inline)]
    name: RoomName,
    /// The code's id.
    #[param(inline)]
    id: CodeId,
}

/// Returns the operations on room codes.
pub fn operations() -> Vec<Box<dyn Operation>> {
    // By id, since nobody can look up the code itself: only its hash is stored.
    vec![
        operation(
            Method::Delete,
            "/ext/v1/rooms/{name}/codes/{id}",
            "disable_room_code",
            disable,
        )
        .about(
            "codes",
            "Disable a room code by its id; tokens from earlier exchanges stay valid",
        )
        .errors(&[ErrorCode::RoomNotFound, ErrorCode::CodeNotFound])
        .build(),
    ]
}

pub async fn disable(
    context: RequestContext,
    input: Input<CodeIdPath, NoParams, NoBody>,
) -> Result<NoContent> {
    let CodeIdPath { name, id } = input.path;
    context
        // By room and id, so that an id of another room is a 404.
        .state
        .store
        .codes()
        .disable_by_id(context.project(), name, id)
        .await?;
    Ok(NoContent)
}
