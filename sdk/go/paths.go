package conclave

import (
	"net/url"
	"strings"
)

// checkSegment rejects a path parameter that is empty, "." or "..". HTTP clients and proxies resolve such a segment to the same or the
// parent folder, so that a request for one participant would reach its room.
func checkSegment(name, value string) error {
	// %2e is a dot to a client; here it is an escaped percent sign, so it remains text.
	switch strings.ReplaceAll(strings.ToLower(url.PathEscape(value)), "%2e", ".") {
	case "", ".", "..":
		message := name + " must not be empty, . or .., which are not names in a URL"
		return &Error{Code: "invalid_parameter", Message: message, Field: name}
	}
	return nil
}
