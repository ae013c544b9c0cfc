// Package webhooks verifies Conclave's webhook deliveries, and receives them with net/http.
package webhooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	conclave "example.org/conclave/sdk/go"
)

// Tolerance is the largest accepted age of a delivery, or lead over this machine's clock.
const Tolerance = 5 * time.Minute

const largestBody = 1 << 20

// Reasons for rejecting a delivery, for errors.Is.
var (
	ErrUnsigned         = errors.New("a signature is missing")
	ErrWrongSignature   = errors.New("the signature is not that of this body and this secret")
	ErrOutsideTolerance = errors.New("the delivery is too old, or this machine's clock is wrong")
	ErrMalformed        = errors.New("the body is no event")
	// ErrUnknownEvent is a signed event of a newer server than this package.
	ErrUnknownEvent = errors.New("there is no such event")
)

// Option changes the verification of deliveries.
type Option func(*verifier)

// WithTolerance sets the largest accepted age of a delivery, instead of [Tolerance].
func WithTolerance(tolerance time.Duration) Option {
	return func(v *verifier) { v.tolerance = tolerance }
}

// WithAnyAge accepts old deliveries, and deliveries whose only signature covers no time.
func WithAnyAge() Option {
	return func(v *verifier) { v.anyAge = true }
}

// WithTime sets the current time, instead of the clock.
func WithTime(now time.Time) Option {
	return func(v *verifier) { v.now = func() time.Time { return now } }
}

type verifier struct {
	tolerance time.Duration
	anyAge    bool
	now       func() time.Time
}

func newVerifier(options []Option) verifier {
	v := verifier{tolerance: Tolerance, now: time.Now}
	for _, option := range options {
		option(&v)
	}
	return v
}

// Verify returns a delivery's event, if the server that knows the endpoint's secret has sent this exact body.
//
// Each signature in the delivery must be correct. Only the Standard Webhooks signature covers a time, so it is required unless any age
// is allowed.
func Verify(body []byte, header http.Header, secret string, options ...Option) (conclave.Event, error) {
	v := newVerifier(options)
	standard := header.Get("webhook-signature")
	hasStandard, hasSvc := has(header, "webhook-signature"), has(header, "X-Svc-Signature")
	if !hasStandard && (!hasSvc || !v.anyAge) {
		return nil, ErrUnsigned
	}
	if hasStandard && !isStandardSignature(standard, header, body, secret) {
		return nil, ErrWrongSignature
	}
	if hasSvc && !isSvcSignature(header, body, secret) {
		return nil, ErrWrongSignature
	}
	if !v.anyAge && !v.isRecent(header.Get("webhook-timestamp")) {
		return nil, ErrOutsideTolerance
	}
	return Parse(body)
}

// Parse returns the event in a body without verification: for bodies from a delivery log or your own queue.
func Parse(body []byte) (conclave.Event, error) {
	var head struct {
		Type       string
		ProjectID  string `json:"project_id"`
		OccurredAt string `json:"occurred_at"`
	}
	if err := json.Unmarshal(body, &head); err != nil || head.Type == "" {
		return nil, ErrMalformed
	}
	// Before the fields are checked: unknown events may have other fields.
	event := newEvent(head.Type)
	if event == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownEvent, head.Type)
	}
	if head.ProjectID == "" || head.OccurredAt == "" {
		return nil, ErrMalformed
	}
	if err := json.Unmarshal(body, event); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return event, nil
}

func has(header http.Header, name string) bool { return len(header.Values(name)) > 0 }

func isSvcSignature(header http.Header, body []byte, secret string) bool {
	expected := []byte("sha256=" + hex.EncodeToString(sign([]byte(secret), body)))
	// After a rotation, the first is by the previous secret, and the second by the new one.
	given := []string{header.Get("X-Svc-Signature"), header.Get("X-Svc-Signature-Next")}
	return slices.ContainsFunc(given, func(signature string) bool {
		return hmac.Equal([]byte(signature), expected)
	})
}

func isStandardSignature(given string, header http.Header, body []byte, secret string) bool {
	signed := fmt.Sprintf("%s.%s.%s", header.Get("webhook-id"), header.Get("webhook-timestamp"), body)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(sign(standardKey(secret), []byte(signed))))
	// There may be several, separated by spaces.
	return slices.ContainsFunc(strings.Fields(given), func(signature string) bool {
		return hmac.Equal([]byte(signature), expected)
	})
}

// standardKey returns the bytes after whsec_; for a secret in another format, the key is its text.
func standardKey(secret string) []byte {
	if encoded, found := strings.CutPrefix(secret, "whsec_"); found {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(secret)
}

func sign(key, message []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(message)
	return mac.Sum(nil)
}

func (v verifier) isRecent(timestamp string) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	return err == nil && v.now().Sub(time.Unix(seconds, 0)).Abs() <= v.tolerance
}

// Handler returns an HTTP handler that verifies deliveries and passes each event, with its delivery's id, to handle.
//
// It accepts a delivery once handle has returned. If handle returns an error, the delivery fails and the server sends it again with the
// same id, by which handle can detect duplicates.
func Handler(secret string, handle func(ctx context.Context, event conclave.Event, deliveryID string) error, options ...Option) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		event, err := Verify(body, r.Header, secret, options...)
		if err != nil {
			w.WriteHeader(StatusOf(err))
			return
		}
		if err := handle(r.Context(), event, r.Header.Get("webhook-id")); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// StatusOf returns the response status for a delivery that [Verify] has rejected. Unknown events are accepted: the server would send
// them again, to no avail.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, ErrUnknownEvent):
		return http.StatusNoContent
	case errors.Is(err, ErrMalformed):
		return http.StatusBadRequest
	default:
		return http.StatusUnauthorized
	}
}
