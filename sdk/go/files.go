package conclave

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// RecordingLink returns a link to a recording's file on the server's disk, for clients without an API key. It is valid for 1 second to
// 7 days, in whole seconds.
func (c *Client) RecordingLink(ctx context.Context, egressID string, expires time.Duration) (string, error) {
	if err := checkSegment("egress_id", egressID); err != nil {
		return "", err
	}
	query := url.Values{"expires_in_seconds": {strconv.Itoa(int(expires / time.Second))}}
	address := c.server + "/files/recordings/" + url.PathEscape(egressID) + "/link?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	var link struct {
		Path string `json:"path"`
	}
	if err := c.send(req, &link, http.StatusOK); err != nil {
		return "", err
	}
	// A path without a leading slash would change the host.
	if !strings.HasPrefix(link.Path, "/") {
		return "", &Error{Code: "unknown", Message: "the response has no path of this server", Status: http.StatusOK}
	}
	return c.server + link.Path, nil
}
