package conclave

// Event is a webhook event: a pointer to an event type, such as RoomStartedEvent, or to a WebhookTestEvent. Distinguish them with a
// type switch.
type Event interface {
	// EventType returns the event's name, such as room.started.
	EventType() string
}
