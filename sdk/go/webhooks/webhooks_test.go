package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	conclave "example.org/conclave/sdk/go"
)

// The deliveries that test all SDKs.
type vectors struct {
	Secret string
	Now    int64
	Cases  []delivery
	Beside []delivery
}

func (v vectors) all() []delivery { return slices.Concat(v.Cases, v.Beside) }

type delivery struct {
	Name      string
	Body      string
	Headers   map[string]string
	Tolerance *float64
	Expect    string
}

func load(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("../../vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var loaded vectors
	if err := json.Unmarshal(text, &loaded); err != nil {
		t.Fatal(err)
	}
	return loaded
}

func (v vectors) named(t *testing.T, name string) delivery {
	t.Helper()
	for _, one := range v.all() {
		if one.Name == name {
			return one
		}
	}
	t.Fatalf("there is no delivery %q", name)
	return delivery{}
}

func (d delivery) header() http.Header {
	header := http.Header{}
	for name, value := range d.Headers {
		header.Set(name, value)
	}
	return header
}

func (d delivery) options(now int64) []Option {
	options := []Option{WithTime(time.Unix(now, 0))}
	if d.Tolerance == nil {
		return append(options, WithAnyAge())
	}
	return append(options, WithTolerance(time.Duration(*d.Tolerance*float64(time.Second))))
}

// outcome returns the event's type, or the reason why there is no event.
func outcome(event conclave.Event, err error) string {
	reasons := map[string]error{
		"unsigned": ErrUnsigned, "wrong_signature": ErrWrongSignature, "outside_tolerance": ErrOutsideTolerance,
		"malformed": ErrMalformed, "unknown_event": ErrUnknownEvent,
	}
	for reason, target := range reasons {
		if errors.Is(err, target) {
			return reason
		}
	}
	return event.EventType()
}

func TestADeliveryIsAcceptedOrRefused(t *testing.T) {
	loaded := load(t)
	for _, one := range loaded.all() {
		t.Run(one.Name, func(t *testing.T) {
			event, err := Verify([]byte(one.Body), one.header(), loaded.Secret, one.options(loaded.Now)...)
			if got := outcome(event, err); got != one.Expect {
				t.Errorf("%s, not %s", got, one.Expect)
			}
		})
	}
}

func TestEveryFieldOfEachEventIsTyped(t *testing.T) {
	types := map[string]bool{}
	for _, one := range load(t).Cases {
		if !strings.HasSuffix(one.Name, ", signed") {
			continue
		}
		event, err := Parse([]byte(one.Body))
		if err != nil {
			t.Fatal(err)
		}
		types[event.EventType()] = true
		encoded, _ := json.Marshal(event)
		if sent, kept := fields(t, one.Body), fields(t, string(encoded)); !reflect.DeepEqual(sent, kept) {
			t.Errorf("%s has %v, not %v", one.Name, kept, sent)
		}
	}
	if len(types) != 20 {
		t.Errorf("%d events, not 20", len(types))
	}
}

func TestWordsAndFieldsOfANewerServerBreakNothing(t *testing.T) {
	loaded := load(t)
	types := map[string]bool{}
	for _, one := range loaded.Beside {
		if !strings.HasSuffix(one.Name, ", newer") {
			continue
		}
		var handled []string
		handler := Handler(loaded.Secret, func(_ context.Context, event conclave.Event, _ string) error {
			handled = append(handled, event.EventType())
			return nil
		}, one.options(loaded.Now)...)
		if got := answer(handler, http.MethodPost, one, one.Body); got != http.StatusNoContent || !slices.Equal(handled, []string{one.Expect}) {
			t.Errorf("%s: %d, handled %v", one.Name, got, handled)
		}
		types[one.Expect] = true
	}
	if len(types) != 22 {
		t.Errorf("%d events, not 22", len(types))
	}
}

func TestTheTestEventIsAboutNoRoom(t *testing.T) {
	event, err := Parse([]byte(load(t).named(t, "webhook.test").Body))
	test, isTest := event.(*conclave.WebhookTestEvent)
	if err != nil || !isTest || test.EventType() != "webhook.test" || test.ProjectID != "prj_5f2a9c01be34" || test.Room != "" {
		t.Errorf("%+v, %v", event, err)
	}
}

func fields(t *testing.T, body string) map[string]bool {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name := range object {
		names[name] = true
	}
	return names
}

func TestAHandlerAnswersDeliveries(t *testing.T) {
	loaded := load(t)
	for name, status := range map[string]int{
		"participant.left, signed":     http.StatusNoContent,
		"an event of a newer server":   http.StatusNoContent,
		"a newer event about no room":  http.StatusNoContent,
		"too old":                      http.StatusUnauthorized,
		"an altered body":              http.StatusUnauthorized,
		"no signature":                 http.StatusUnauthorized,
		"no JSON":                      http.StatusBadRequest,
		"no signature with a time":     http.StatusUnauthorized,
		"header names in another case": http.StatusNoContent,
	} {
		one := loaded.named(t, name)
		var handled []string
		handler := Handler(loaded.Secret, func(_ context.Context, event conclave.Event, id string) error {
			handled = append(handled, event.EventType()+" "+id)
			return nil
		}, one.options(loaded.Now)...)
		if got := answer(handler, http.MethodPost, one, one.Body); got != status {
			t.Errorf("%s: %d, not %d", name, got, status)
		}
		if accepted := len(handled) == 1; accepted != strings.HasPrefix(one.Expect, "participant.") {
			t.Errorf("%s: handled %v", name, handled)
		}
		if len(handled) == 1 && handled[0] != one.Expect+" 0192f5a0-0000-7000-8000-000000000001" {
			t.Errorf("%s: handled %v", name, handled)
		}
	}
}

func TestAHandlerTakesOnlyWhatItCanHandle(t *testing.T) {
	loaded := load(t)
	one := loaded.named(t, "room.started, signed")
	handler := Handler(loaded.Secret, func(context.Context, conclave.Event, string) error {
		return errors.New("full")
	}, one.options(loaded.Now)...)
	if got := answer(handler, http.MethodPost, one, one.Body); got != http.StatusInternalServerError {
		t.Errorf("a delivery that is not handled: %d", got)
	}
	if got := answer(handler, http.MethodGet, one, ""); got != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", got)
	}
	if got := answer(handler, http.MethodPost, one, strings.Repeat(" ", largestBody+1)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", got)
	}
}

func answer(handler http.Handler, method string, one delivery, body string) int {
	request := httptest.NewRequest(method, "/hooks", strings.NewReader(body))
	request.Header = one.header()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response.Code
}
