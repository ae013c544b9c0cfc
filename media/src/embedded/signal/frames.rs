//! Requests and responses as WebSocket frames.

use conclave_model::ParticipantSid;
use livekit_protocol as proto;
use prost::Message as _;
use proto::signal_request::Message as Request;
use proto::signal_response::Message;

use super::budget::{Budgets, ClientBudget, Excess, Weight};
use super::channels::SignalFrame;
use super::shape::{REQUEST, ShapeError};

/// Maximum size of a JSON request, in bytes. Its shape is unknown before it is decoded.
const MAX_TEXT: usize = 64 * 1024;
/// Bytes of JSON that take about as long to handle as a field.
const TEXT_FIELD: usize = 16;

/// Reason for not handling a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// Not a request.
    Malformed,
    /// The client exceeds its limits.
    Exceeds(Excess),
}

impl From<Excess> for FrameError {
    fn from(excess: Excess) -> Self {
        Self::Exceeds(excess)
    }
}

impl From<ShapeError> for FrameError {
    fn from(error: ShapeError) -> Self {
        match error {
            ShapeError::Malformed => Self::Malformed,
            ShapeError::TooLarge => Self::Exceeds(Excess::MessageSize),
        }
    }
}

/// First byte of an offer: field 1 of the request, delimited by its length.
const OFFER: u8 = 1 << 3 | 2;

/// Reads a client's frame within the client's budget.
pub(super) fn read(
    frame: &SignalFrame,
    budget: &mut ClientBudget,
    budgets: &Budgets,
) -> Result<proto::SignalRequest, FrameError> {
    let request = decode(frame, |weight| budget.take_message(budgets, weight))?;
    // Changes are counted apart: unlike other messages, they cost every participant in the room something.
    match change_of(&request) {
        Some(Change::Offer(sdp)) => budget.take_offer(budgets, sdp)?,
        Some(Change::Other) => budget.take_change(budgets)?,
        None => {}
    }
    Ok(request)
}

/// Decodes a client's frame. Beforehand, `taken` is called with its weight, and its shape is checked.
fn decode(
    frame: &SignalFrame,
    taken: impl FnOnce(Weight) -> Result<(), Excess>,
) -> Result<proto::SignalRequest, FrameError> {
    match frame {
        SignalFrame::Binary(bytes) => {
            let shape = REQUEST.check(bytes);
            let is_offer = bytes.first() == Some(&OFFER);
            // Counted even if it is malformed: the check itself has a cost, and a flood of invalid frames must end,
            // too.
            taken(Weight {
                is_offer,
                ..Weight::new(bytes.len(), shape.unwrap_or_default())
            })?;
            shape?;
            proto::SignalRequest::decode(bytes.as_slice()).map_err(|_| FrameError::Malformed)
        }
        SignalFrame::Text(text) => {
            taken(Weight::new(text.len(), text.len() / TEXT_FIELD))?;
            // After it was counted, for the same reason.
            if text.len() > MAX_TEXT {
                return Err(Excess::MessageSize.into());
            }
            serde_json::from_str(text).map_err(|_| FrameError::Malformed)
        }
    }
}

/// Effect of a request on other participants or on media workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change<'a> {
    /// Negotiates media with this session description.
    Offer(&'a str),
    /// Any other change.
    Other,
}

/// Returns a request's effect on others, if it has one.
fn change_of(request: &proto::SignalRequest) -> Option<Change<'_>> {
    match request.message.as_ref()? {
        Request::Offer(offer) => Some(Change::Offer(&offer.sdp)),
        Request::AddTrack(_)
        | Request::Mute(_)
        | Request::SubscriptionPermission(_)
        // A resuming client's state makes media workers search for messages that it missed.
        | Request::SyncState(_)
        | Request::Simulate(_)
        | Request::UpdateMetadata(_)
        | Request::PublishDataTrackRequest(_)
        | Request::UnpublishDataTrackRequest(_)
        | Request::StoreDataBlobRequest(_)
        | Request::GetDataBlobRequest(_) => Some(Change::Other),
        // Answers, subscriptions, settings and pings only concern the client itself.
        _ => None,
    }
}

/// Returns whether the client must reply to a message with an offer.
pub(super) const fn asks_for_offer(message: &Message) -> bool {
    matches!(message, Message::MediaSectionsRequirement(_))
}

/// Encodes a response.
pub(super) fn encode(message: Message, as_text: bool) -> SignalFrame {
    let response = proto::SignalResponse {
        message: Some(message),
    };
    // A response can always be written as JSON, so there is no error to report.
    let text = as_text
        .then(|| serde_json::to_string(&response).ok())
        .flatten();
    text.map_or_else(
        || SignalFrame::Binary(response.encode_to_vec()),
        SignalFrame::Text,
    )
}

/// Returns whether a response lists all participants. It does once per WebSocket, and then contains the client's own
/// participant. Updates about several others are frequent.
pub(super) fn is_snapshot(message: &Message, own: &ParticipantSid) -> bool {
    match message {
        Message::Join(_) => true,
        Message::Update(update) => {
            update.participants.len() > 1
                && update
                    .participants
                    .iter()
                    .any(|info| info.sid == own.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: Request) -> Result<proto::SignalRequest, FrameError> {
        let request = proto::SignalRequest {
            message: Some(message),
        };
        decode(&SignalFrame::Binary(request.encode_to_vec()), |_| Ok(()))
    }

    #[test]
    fn a_message_that_is_too_large_for_its_kind_is_not_decoded() {
        let permission = proto::SubscriptionPermission {
            track_permissions: vec![proto::TrackPermission::default(); 900_000],
            ..Default::default()
        };
        let exceeds = Err(FrameError::Exceeds(Excess::MessageSize));
        assert_eq!(read(Request::SubscriptionPermission(permission)), exceeds);
        let text = format!("{{\"ping\": \"1\"{}}}", " ".repeat(MAX_TEXT));
        assert_eq!(decode(&SignalFrame::Text(text), |_| Ok(())), exceeds);
        assert!(read(Request::Ping(1)).is_ok());
    }

    #[test]
    fn a_frame_counts_whether_it_is_a_request_or_not() {
        for bytes in [vec![], vec![0xff; 100], vec![0x72; 100]] {
            let (mut counted, length) = (None, bytes.len());
            let _ = decode(&SignalFrame::Binary(bytes), |weight| {
                counted = Some(weight);
                Ok(())
            });
            assert_eq!(counted, Some(Weight::new(length, 0)));
        }
    }

    #[test]
    fn the_list_of_all_is_a_snapshot_and_news_of_several_others_is_none() {
        let own: ParticipantSid = "PA_own".parse().unwrap();
        let update = |sids: &[&str]| {
            let info = |sid: &&str| proto::ParticipantInfo {
                sid: (*sid).to_owned(),
                ..Default::default()
            };
            Message::Update(proto::ParticipantUpdate {
                participants: sids.iter().map(info).collect(),
            })
        };
        assert!(is_snapshot(
            &Message::Join(proto::JoinResponse::default()),
            &own
        ));
        assert!(is_snapshot(&update(&["PA_own", "PA_1", "PA_2"]), &own));
        assert!(
            !is_snapshot(&update(&["PA_1", "PA_2"]), &own)
                && !is_snapshot(&update(&["PA_own"]), &own)
        );
    }

    #[test]
    fn what_others_notice_is_a_change_and_a_ping_is_none() {
        let changes = |message, expected| {
            change_of(&proto::SignalRequest {
                message: Some(message),
            }) == expected
        };
        assert!(changes(
            Request::Mute(proto::MuteTrackRequest::default()),
            Some(Change::Other)
        ));
        assert!(changes(
            Request::SyncState(proto::SyncState::default()),
            Some(Change::Other)
        ));
        assert!(changes(
            Request::Offer(proto::SessionDescription::default()),
            Some(Change::Offer(""))
        ));
        assert!(changes(Request::Ping(1), None));
        assert!(changes(
            Request::Subscription(proto::UpdateSubscription::default()),
            None
        ));
    }
}
