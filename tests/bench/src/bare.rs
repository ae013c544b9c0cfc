//! The requests' ceiling: a server whose routes only return a constant response.

use std::path::Path;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{App, HttpResponse, HttpServer, web};
use serde_json::{Value, json};

use crate::BenchError;
use crate::process::WORKERS;

/// Runs the server until it is killed. The file holds each operation's response.
pub fn serve(file: &Path) -> Result<(), BenchError> {
    let responses: Arc<Value> = Arc::new(serde_json::from_str(&std::fs::read_to_string(file)?)?);
    actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(move || {
            let response = |name: &str| web::Bytes::from(responses[name].to_string());
            let (room, token, created) = (
                response("get_room"),
                response("create_token"),
                response("create_room"),
            );
            App::new()
                .route(
                    "/v1/rooms/{name}",
                    web::get().to(move || respond(StatusCode::OK, room.clone())),
                )
                .route(
                    "/v1/tokens",
                    web::post()
                        .to(move |_: web::Bytes| respond(StatusCode::CREATED, token.clone())),
                )
                .route(
                    "/v1/rooms",
                    web::post()
                        .to(move |_: web::Bytes| respond(StatusCode::CREATED, created.clone())),
                )
        });
        let server = server.workers(WORKERS).bind("127.0.0.1:0")?;
        println!(
            "{}",
            json!({"api": format!("http://{}", server.addrs()[0])})
        );
        Ok(server.run().await?)
    })
}

async fn respond(status: StatusCode, body: web::Bytes) -> HttpResponse {
    HttpResponse::build(status)
        .content_type("application/json")
        .body(body)
}
