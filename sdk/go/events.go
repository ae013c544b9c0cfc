package conclave

// Event is what a webhook reports: a pointer to a type of an event, such as RoomStartedEvent, or to a WebhookTestEvent,
// which a type switch tells apart.
type Event interface {
	// EventType returns the name of the event, such as room.started.
	EventType() string
}
