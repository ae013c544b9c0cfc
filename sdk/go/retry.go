package conclave

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// RetryPolicy says how often a request is sent again, and how long a Retry-After may be that is waited for.
//
// A request is sent again after 429, 502, 503, 504 and a broken connection if that has the effect of sending it once: a GET, a PUT, a DELETE,
// and what has an Idempotency-Key.
type RetryPolicy struct {
	// MaxRetries is the number of further attempts after the first. 0 sends everything once.
	MaxRetries int
	// MaxRetryAfter is the longest wait. After a longer Retry-After the error is returned at once, and says how long to wait.
	MaxRetryAfter time.Duration
}

// DefaultRetry is the policy of a client that is given none.
var DefaultRetry = RetryPolicy{MaxRetries: 4, MaxRetryAfter: 30 * time.Second}

const (
	firstWait   = 250 * time.Millisecond
	longestWait = 8 * time.Second
)

// With 429 and 503, the server has not done what was asked. 502 and 504 are a proxy's, which has lost or not reached the server.
var repeatedStatuses = []int{
	http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// afterResponse returns how long to wait before the next attempt, or nil if this response stands.
func (p RetryPolicy) afterResponse(req *http.Request, attempt int, response *http.Response) *time.Duration {
	if !slices.Contains(repeatedStatuses, response.StatusCode) || !p.mayRepeat(req, attempt) {
		return nil
	}
	after := retryAfter(response)
	if after == nil {
		return backoff(attempt)
	}
	if *after > p.MaxRetryAfter {
		return nil
	}
	return after
}

// afterFailure returns how long to wait after a broken connection, or nil if it is an error.
func (p RetryPolicy) afterFailure(req *http.Request, attempt int) *time.Duration {
	if !p.mayRepeat(req, attempt) {
		return nil
	}
	return backoff(attempt)
}

func (p RetryPolicy) mayRepeat(req *http.Request, attempt int) bool {
	return attempt < p.MaxRetries && isRepeatable(req)
}

func isRepeatable(req *http.Request) bool {
	safe := []string{http.MethodGet, http.MethodPut, http.MethodDelete}
	return slices.Contains(safe, req.Method) || req.Header.Get("Idempotency-Key") != ""
}

func backoff(attempt int) *time.Duration {
	longest := min(firstWait<<min(attempt, 10), longestWait)
	return Ptr(longest/2 + rand.N(longest/2))
}

// retryAfter returns how long a response says to wait.
func retryAfter(response *http.Response) *time.Duration {
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return nil
	}
	return Ptr(time.Duration(seconds) * time.Second)
}
