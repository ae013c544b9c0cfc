package conclave

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is a failed call: rejected by the server, or without a response. Retrieve it with errors.As.
type Error struct {
	// Code identifies the error, such as room_exists, for branching. It is connection_failed without a response, and unknown if the
	// response is not the API's, such as a redirect or a proxy's page.
	Code string
	// Message describes the error, in words that may change.
	Message string
	// Status is the HTTP status, or 0 without a response.
	Status int
	// Field is the rejected field of the request, or the missing permission.
	Field string
	// RequestID is the request's id in the server's log.
	RequestID string
	// RetryAfter is the server's Retry-After, or 0 if the response had none.
	RetryAfter time.Duration

	cause error
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns the cause of a missing response, or of malformed JSON.
func (e *Error) Unwrap() error { return e.cause }

// Bytes of a foreign response in an error: enough to identify its sender.
const longestExcerpt = 200

// errorOf returns the error in a response of 400 or above.
func (c *Client) errorOf(response *http.Response, body []byte) *Error {
	var envelope struct {
		Error struct{ Code, Message, Field string }
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Error.Code == "" {
		return c.unexpected(response, body, fmt.Sprintf("the response has the status %d", response.StatusCode))
	}
	found := envelope.Error
	return newError(response, found.Code, c.credential.hide(found.Message), found.Field)
}

// unexpected returns the error for a response that is not the API's, with an excerpt.
func (c *Client) unexpected(response *http.Response, body []byte, problem string) *Error {
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		problem += "; redirects are not followed, and this one leads to " + c.excerpt(location)
	}
	return newError(response, "unknown", problem+": "+c.excerpt(string(body)), "")
}

func (c *Client) excerpt(text string) string {
	// Masks the key in more than the excerpt, so that no truncated key remains.
	start := c.credential.hide(text[:min(len(text), 16*longestExcerpt)])
	return strconv.Quote(start[:min(len(start), longestExcerpt)])
}

// unreachable returns the error for a call without a response.
func (c *Client) unreachable(cause error) *Error {
	message := c.credential.hide(cause.Error())
	if message != cause.Error() {
		return &Error{Code: "connection_failed", Message: message}
	}
	return &Error{Code: "connection_failed", Message: message, cause: cause}
}

func newError(response *http.Response, code, message, field string) *Error {
	result := &Error{Code: code, Message: message, Field: field}
	result.Status, result.RequestID = response.StatusCode, response.Header.Get("X-Request-Id")
	if after := retryAfter(response); after != nil {
		result.RetryAfter = *after
	}
	return result
}
