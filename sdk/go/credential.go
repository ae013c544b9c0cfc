package conclave

import (
	"regexp"
	"strings"
)

// A shorter text is no key of a server, and occurs in messages by chance.
const shortestHidden = 8

var visibleASCII = regexp.MustCompile(`^[!-~]+$`)

// credential is an API key without the white space around it, as after reading it from a file.
type credential struct {
	// A function, because fmt prints the fields of any struct.
	reveal func() string
}

func newCredential(apiKey string) (credential, error) {
	key := strings.TrimSpace(apiKey)
	if !visibleASCII.MatchString(key) {
		return credential{}, &Error{Code: "invalid_key", Message: "the API key must be visible ASCII characters without spaces"}
	}
	return credential{reveal: func() string { return key }}, nil
}

func (c credential) header() string { return "Bearer " + c.reveal() }

// hide returns a text without the key, which something in between may have sent back.
func (c credential) hide(text string) string {
	if key := c.reveal(); len(key) >= shortestHidden {
		return strings.ReplaceAll(text, key, "***")
	}
	return text
}

var httpScheme = regexp.MustCompile(`(?i)^https?://`)

// serverURL returns the URL of a server without the white space around it, and without slashes at its end. Its error does not have the
// URL: it may be a key, given in the wrong place.
func serverURL(text string) (string, error) {
	trimmed := strings.TrimSpace(text)
	if !httpScheme.MatchString(trimmed) || !visibleASCII.MatchString(trimmed) {
		return "", &Error{Code: "invalid_url", Message: "the URL of the server must begin with http:// or https://"}
	}
	return strings.TrimRight(trimmed, "/"), nil
}
