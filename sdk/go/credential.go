package conclave

import (
	"regexp"
	"strings"
)

// Shorter texts are not server keys, and occur in messages by chance.
const shortestHidden = 8

var visibleASCII = regexp.MustCompile(`^[!-~]+$`)

// credential is an API key, trimmed, since keys read from a file end with a line break.
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

// hide masks the key in a text: a proxy may echo it.
func (c credential) hide(text string) string {
	if key := c.reveal(); len(key) >= shortestHidden {
		return strings.ReplaceAll(text, key, "***")
	}
	return text
}

var httpScheme = regexp.MustCompile(`(?i)^https?://`)

// serverURL returns a server's URL without surrounding white space and trailing slashes. Its error omits the text, which may be a key
// in the wrong place.
func serverURL(text string) (string, error) {
	trimmed := strings.TrimSpace(text)
	if !httpScheme.MatchString(trimmed) || !visibleASCII.MatchString(trimmed) {
		return "", &Error{Code: "invalid_url", Message: "the URL of the server must begin with http:// or https://"}
	}
	return strings.TrimRight(trimmed, "/"), nil
}
