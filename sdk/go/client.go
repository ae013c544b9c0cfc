// Package conclave is the server-side client of Conclave, with a typed method for each API operation. Package webhooks verifies
// deliveries.
package conclave

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"regexp"
	"time"
)

// Client accesses one project, with its server's URL and an API key. It has a method for each API operation, and is safe for
// concurrent use.
type Client struct {
	// Ext has the operations below /ext/v1, beyond the contract.
	Ext Extensions

	server     string
	credential credential
	http       *http.Client
	retry      RetryPolicy
	// problem is the reason why no call can be sent.
	problem error
}

// Extensions are a Client's operations beyond the contract.
type Extensions struct {
	client *Client
}

// Option changes a Client.
type Option func(*Client)

// WithHTTPClient sets the client that sends the requests, except that it follows no redirects. The default has a timeout of 30 seconds
// per attempt, and uses the proxies of HTTPS_PROXY and NO_PROXY.
func WithHTTPClient(client *http.Client) Option {
	return func(c *Client) { c.http = client }
}

// WithRetry sets the retry policy.
func WithRetry(policy RetryPolicy) Option {
	return func(c *Client) { c.retry = policy }
}

// New returns a client for the API at a server URL, such as https://meet.example.org, with an API key, vk_…. An empty argument is read
// from the environment: CONCLAVE_URL or CONCLAVE_KEY. If the URL or the key is missing or malformed, each call returns an error with
// the reason.
func New(url, apiKey string, options ...Option) *Client {
	url, apiKey = cmp.Or(url, os.Getenv("CONCLAVE_URL")), cmp.Or(apiKey, os.Getenv("CONCLAVE_KEY"))
	server, wrongURL := serverURL(url)
	key, wrongKey := newCredential(apiKey)
	client := &Client{
		server:     server,
		credential: key,
		http:       &http.Client{Timeout: 30 * time.Second},
		retry:      DefaultRetry,
		problem:    cmp.Or(wrongURL, wrongKey),
	}
	for _, option := range options {
		option(client)
	}
	client.Ext = Extensions{client}
	own := *client.http
	// A redirected POST would become a GET, whose response would be mistaken for the call's.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.http = &own
	return client
}

// String returns the server's address, without the key.
func (c *Client) String() string { return "conclave.Client(" + c.server + ")" }

// GoString returns the server's address, without the key.
func (c *Client) GoString() string { return c.String() }

// Ptr returns a pointer to a value, for an optional field.
func Ptr[T any](value T) *T { return &value }

type idempotencyKey struct{}

// WithIdempotencyKey sets the Idempotency-Key for a context's calls, instead of a new one for each call.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

var (
	// POSTs that accept no Idempotency-Key.
	withoutKey = regexp.MustCompile(`/v1/(rooms/[^/]+/ingress|codes/[^/]+/exchange)$`)
	// DELETEs that accept one, since their response is a report.
	withKey = regexp.MustCompile(`/ext/v1/identities/[^/]+$`)
)

func takesIdempotencyKey(method, escapedPath string) bool {
	switch method {
	case http.MethodPost:
		return !withoutKey.MatchString(escapedPath)
	case http.MethodDelete:
		return withKey.MatchString(escapedPath)
	}
	return false
}

// send sends a request, with retries where they are safe, and decodes a response with an expected status into result, unless that is nil.
func (c *Client) send(req *http.Request, result any, statuses ...int) error {
	if c.problem != nil {
		return c.problem
	}
	req.Header.Set("Authorization", c.credential.header())
	if takesIdempotencyKey(req.Method, req.URL.EscapedPath()) {
		key, given := req.Context().Value(idempotencyKey{}).(string)
		if !given {
			key = rand.Text()
		}
		// All attempts share the key, so that the server recognizes a retry.
		req.Header.Set("Idempotency-Key", key)
	}
	for attempt := 0; ; attempt++ {
		response, body, wait, err := c.once(req, attempt)
		if err != nil {
			return err
		}
		if wait == nil {
			return c.decode(response, body, result, statuses)
		}
		if err := sleep(req.Context(), *wait); err != nil {
			return err
		}
	}
}

// once returns a response below 400 with its body, the delay before the next attempt, or the call's error.
func (c *Client) once(req *http.Request, attempt int) (*http.Response, []byte, *time.Duration, error) {
	response, body, err := c.exchange(req)
	switch {
	case err != nil && req.Context().Err() != nil:
		return nil, nil, nil, req.Context().Err()
	case err != nil:
		if wait := c.retry.afterFailure(req, attempt); wait != nil {
			return nil, nil, wait, nil
		}
		return nil, nil, nil, c.unreachable(err)
	case response.StatusCode < 400:
		return response, body, nil, nil
	}
	if wait := c.retry.afterResponse(req, attempt, response); wait != nil {
		return nil, nil, wait, nil
	}
	return nil, nil, nil, c.errorOf(response, body)
}

func (c *Client) exchange(req *http.Request) (*http.Response, []byte, error) {
	attempt := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, nil, err
		}
		attempt.Body = body
	}
	response, err := c.http.Do(attempt)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return response, body, err
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
