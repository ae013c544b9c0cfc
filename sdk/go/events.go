package conclave

// Event is what a webhook reports: a pointer to one of the 20 types of events or to a WebhookTestEvent, which a type
// switch tells apart.
type Event interface {
	// EventType returns the name of the event, such as room.started.
	EventType() string
}

func (e *RoomStartedEvent) EventType() string                     { return e.Type }
func (e *RoomFinishedEvent) EventType() string                    { return e.Type }
func (e *ParticipantJoinedEvent) EventType() string               { return e.Type }
func (e *ParticipantLeftEvent) EventType() string                 { return e.Type }
func (e *ParticipantConnectionAbortedEvent) EventType() string    { return e.Type }
func (e *ParticipantRoleChangedEvent) EventType() string          { return e.Type }
func (e *ParticipantPublishLimitExceededEvent) EventType() string { return e.Type }
func (e *ParticipantPublishLimitClearedEvent) EventType() string  { return e.Type }
func (e *TrackPublishedEvent) EventType() string                  { return e.Type }
func (e *TrackUnpublishedEvent) EventType() string                { return e.Type }
func (e *RecordingStartedEvent) EventType() string                { return e.Type }
func (e *RecordingUpdatedEvent) EventType() string                { return e.Type }
func (e *RecordingEndedEvent) EventType() string                  { return e.Type }
func (e *RecordingFailedEvent) EventType() string                 { return e.Type }
func (e *BroadcastStartedEvent) EventType() string                { return e.Type }
func (e *BroadcastUpdatedEvent) EventType() string                { return e.Type }
func (e *BroadcastEndedEvent) EventType() string                  { return e.Type }
func (e *BroadcastFailedEvent) EventType() string                 { return e.Type }
func (e *IngressStartedEvent) EventType() string                  { return e.Type }
func (e *IngressEndedEvent) EventType() string                    { return e.Type }
func (e *WebhookTestEvent) EventType() string                     { return e.Type }
