package conclave

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is a call that failed, because the server refused it or could not be reached. Use errors.As to get it.
type Error struct {
	// Code is what to branch on, such as room_exists. It is connection_failed if no response came, and unknown if it was not the
	// API's: a redirect, or the page of a proxy.
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

// Unwrap returns why no response came, or what is wrong with its JSON.
func (e *Error) Unwrap() error { return e.cause }

// Bytes of a response that is not the API's; enough to tell who has sent it.
const longestExcerpt = 200

// errorOf returns the error of a response that refuses.
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

// unexpected returns the error of a response that is not the API's, with its first bytes.
func (c *Client) unexpected(response *http.Response, body []byte, problem string) *Error {
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		problem += "; redirects are not followed, and this one leads to " + c.excerpt(location)
	}
	return newError(response, "unknown", problem+": "+c.excerpt(string(body)), "")
}

func (c *Client) excerpt(text string) string {
	// More than is shown, so that a key is not cut in two.
	start := c.credential.hide(text[:min(len(text), 16*longestExcerpt)])
	return strconv.Quote(start[:min(len(start), longestExcerpt)])
}

// unreachable returns the error of a call to which no response came.
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
