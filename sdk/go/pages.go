package conclave

import "iter"

// page is a page of a list of T: its items, and whether more follow.
type page[T any] interface {
	items() ([]T, bool)
}

// all yields a list's items, page by page.
func all[T any, P page[T]](offset int64, list func(offset int64) (P, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		// An iterator can be reused, from the start.
		from := offset
		for more := true; more; {
			page, err := list(from)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			items, hasMore := page.items()
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			from += int64(len(items))
			more = hasMore && len(items) > 0
		}
	}
}

func (p *BroadcastPage) items() ([]Broadcast, bool)     { return p.Broadcasts, p.HasMore }
func (p *IngressPage) items() ([]Ingress, bool)         { return p.Ingresses, p.HasMore }
func (p *ParticipantPage) items() ([]Participant, bool) { return p.Participants, p.HasMore }
func (p *RecordingPage) items() ([]Recording, bool)     { return p.Recordings, p.HasMore }
func (p *RoleChangePage) items() ([]RoleChange, bool)   { return p.RoleChanges, p.HasMore }
func (p *RoomCodePage) items() ([]RoomCode, bool)       { return p.Codes, p.HasMore }
func (p *RoomPage) items() ([]Room, bool)               { return p.Rooms, p.HasMore }
func (p *SessionPage) items() ([]Session, bool)         { return p.Sessions, p.HasMore }
func (p *TemplatePage) items() ([]Template, bool)       { return p.Templates, p.HasMore }
func (p *WebhookDeliveryPage) items() ([]WebhookDelivery, bool) {
	return p.WebhookDeliveries, p.HasMore
}
func (p *WebhookEndpointPage) items() ([]WebhookEndpoint, bool) { return p.WebhookEndpoints, p.HasMore }
func (p *BanPage) items() ([]Ban, bool)                         { return p.Bans, p.HasMore }
func (p *EventRecordPage) items() ([]EventRecord, bool)         { return p.Events, p.HasMore }
func (p *LiveRoomPage) items() ([]LiveRoom, bool)               { return p.Rooms, p.HasMore }
func (p *MeasuredSessionPage) items() ([]MeasuredSession, bool) { return p.Sessions, p.HasMore }
func (p *SessionQualitySamplePage) items() ([]SessionQualitySample, bool) {
	return p.Samples, p.HasMore
}
