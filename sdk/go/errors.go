package conclave

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Error is a call that failed, because the server refused it or could not be reached. Use errors.As to get it.
type Error struct {
	// Code is what to branch on, such as room_exists. It is connection_failed if no response came, and unknown if it was not the
	// API's.
	Code string
	// Message says what went wrong, in words that may change.
	Message string
	// Status is the HTTP status, or 0 if no response came.
	Status int
	// Field is the field of the request that was refused, or the permission that is missing.
	Field string
	// RequestID is the id of the request in the server's log.
	RequestID string
	// RetryAfter is how long to wait before another attempt, or 0 if the server did not say so.
	RetryAfter time.Duration

	cause error
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns why no response came.
func (e *Error) Unwrap() error { return e.cause }

// errorOf returns the error of a response.
func errorOf(response *http.Response, body []byte) *Error {
	var envelope struct {
		Error struct{ Code, Message, Field string }
	}
	result := &Error{Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id")}
	if after := retryAfter(response); after != nil {
		result.RetryAfter = *after
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Error.Code == "" {
		// A proxy in between answered.
		result.Code, result.Message = "unknown", fmt.Sprintf("the response has the status %d", response.StatusCode)
		return result
	}
	result.Code, result.Message, result.Field = envelope.Error.Code, envelope.Error.Message, envelope.Error.Field
	return result
}
