package conclave

import (
	"net/url"
	"strings"
)

// checkSegment refuses a path parameter that is empty, "." or "..". Clients of HTTP, and servers in between, take such a segment for the
// same folder or the one above, so that a request for one participant would reach its room.
func checkSegment(name, value string) error {
	// %2e is a dot to a client; here it is an escaped percent sign, so it stays text.
	switch strings.ReplaceAll(strings.ToLower(url.PathEscape(value)), "%2e", ".") {
	case "", ".", "..":
		message := name + " must not be empty, . or .., which are not names in a URL"
		return &Error{Code: "invalid_parameter", Message: message, Field: name}
	}
	return nil
}
