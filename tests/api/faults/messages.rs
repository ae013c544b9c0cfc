//! Messages by kind of actor.

use conclave_actors::egress::EgressMsg;
use conclave_actors::ingress::IngressMsg;
use conclave_actors::project::ProjectMsg;
use conclave_actors::room::RoomMsg;
use conclave_actors::system::SystemMsg;
use conclave_actors::webhook_endpoint::WebhookEndpointMsg;
use strum::VariantNames;

/// Returns the message names for a kind of actor.
pub fn messages_of(kind: &str) -> Vec<&'static str> {
    let names = match kind {
        "system" => SystemMsg::VARIANTS,
        "project" => ProjectMsg::VARIANTS,
        "room" => RoomMsg::VARIANTS,
        "egress" => EgressMsg::VARIANTS,
        "ingress" => IngressMsg::VARIANTS,
        "webhook_endpoint" => WebhookEndpointMsg::VARIANTS,
        other => panic!("{other}"),
    };
    names.to_vec()
}
