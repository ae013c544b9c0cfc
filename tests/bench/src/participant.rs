//! A participant that joins and leaves a room through the sandbox.

use serde_json::json;

use crate::BenchError;
use crate::connection::Connection;
use crate::process::Process;

/// A participant with a room token and its own connection.
pub struct Participant {
    token: String,
    admin: Connection,
}

impl Participant {
    /// Mints a token for an existing room with its project's API key.
    pub async fn new(
        server: &Process,
        key: &str,
        room: &str,
        identity: &str,
    ) -> Result<Self, BenchError> {
        let token = json!({"room": room, "identity": identity, "role": "host"});
        let minted = Connection::open(&server.api())
            .await?
            .json(key, "POST /v1/tokens", &token)
            .await?;
        let token = minted["token"].as_str().ok_or("no token")?.to_owned();
        Ok(Self {
            token,
            admin: Connection::open(&server.admin()).await?,
        })
    }

    /// Joins the room, and returns the participant's sid.
    pub async fn join(&mut self) -> Result<String, BenchError> {
        let joined = self
            .admin
            .json("", "POST /sandbox/join", &json!({"token": self.token}))
            .await?;
        Ok(joined["sid"].as_str().ok_or("no sid")?.to_owned())
    }

    pub async fn leave(&mut self, sid: &str) -> Result<(), BenchError> {
        let leave = format!("POST /sandbox/participants/{sid}/leave");
        self.admin
            .json("", &leave, &json!({"clean": true}))
            .await
            .map(drop)
    }
}
