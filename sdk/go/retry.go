package conclave

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// RetryPolicy limits retries: their number, and the longest Retry-After that is honoured.
//
// A request is sent again after 429, 502, 503, 504 and a broken connection if a repetition has no further effect: a GET, a PUT, a DELETE,
// or a request with an Idempotency-Key.
type RetryPolicy struct {
	// MaxRetries is the number of attempts after the first; 0 disables retries.
	MaxRetries int
	// MaxRetryAfter is the longest wait. After a longer Retry-After the error is returned at once, with RetryAfter set.
	MaxRetryAfter time.Duration
}

// DefaultRetry is the policy of a client without WithRetry.
var DefaultRetry = RetryPolicy{MaxRetries: 4, MaxRetryAfter: 30 * time.Second}

const (
	firstWait   = 250 * time.Millisecond
	longestWait = 8 * time.Second
)

// With 429 and 503, the server has not executed the request. 502 and 504 come from a proxy that lost or never reached the server.
var repeatedStatuses = []int{
	http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// afterResponse returns the delay before the next attempt, or nil if this response is final.
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

// afterFailure returns the delay after a broken connection, or nil if the failure is final.
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

// retryAfter returns a response's Retry-After.
func retryAfter(response *http.Response) *time.Duration {
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return nil
	}
	return Ptr(time.Duration(seconds) * time.Second)
}
