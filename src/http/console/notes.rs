//! What a page says after an action was done. The name of a note is in the page's address, its text is here.

/// Name and text of each note.
const NOTES: [(&str, &str); 31] = [
    (
        "project-created",
        "The project was created. Create an API key for it below.",
    ),
    (
        "project-suspended",
        "The project is suspended: it can start no new work.",
    ),
    ("project-resumed", "The project is active again."),
    ("plan-changed", "The project has moved to the plan."),
    ("credited", "The amount was added to the wallet."),
    (
        "default-template-set",
        "New rooms without a template use this one from now on.",
    ),
    (
        "key-revoked",
        "The API key is revoked. Requests with it fail from now on.",
    ),
    ("room-created", "The room is open."),
    (
        "room-ended",
        "The room has ended, and everyone was disconnected.",
    ),
    (
        "participant-removed",
        "The participant was disconnected. Its token stays valid.",
    ),
    ("track-muted", "The track was muted or unmuted."),
    ("role-changed", "The participant has its new role."),
    (
        "message-sent",
        "The message was sent to everyone in the room.",
    ),
    ("recording-started", "The recording is starting."),
    (
        "recording-stopped",
        "The recording is being stopped. Its file is final shortly after.",
    ),
    ("broadcast-started", "The broadcast is starting."),
    ("broadcast-stopped", "The broadcast is being stopped."),
    (
        "code-disabled",
        "The room code is disabled. Tokens that it has given stay valid.",
    ),
    (
        "ingress-deleted",
        "The ingress endpoint was deleted. Its stream key is invalid.",
    ),
    (
        "template-created",
        "The template was created. Add roles to it below.",
    ),
    ("template-changed", "The template was changed."),
    ("template-deleted", "The template was deleted."),
    ("role-saved", "The role was saved."),
    ("role-deleted", "The role was deleted."),
    (
        "permissions-saved",
        "The permissions were saved. They hold at once, also in open rooms.",
    ),
    ("destination-created", "The destination was created."),
    ("destination-changed", "The destination was changed."),
    ("destination-deleted", "The destination was deleted."),
    (
        "endpoint-deleted",
        "The webhook endpoint was deleted, with what was queued for it.",
    ),
    (
        "test-sent",
        "A test event is queued. It is the newest delivery below.",
    ),
    ("delivery-retried", "The delivery is queued again."),
];

/// Returns the text of a note; `None` for an unknown name.
pub fn text(name: &str) -> Option<&'static str> {
    NOTES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
