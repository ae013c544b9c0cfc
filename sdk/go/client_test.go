package conclave

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answer is a server's response to a request.
type answer func(w http.ResponseWriter)

func created(w http.ResponseWriter) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, aRoom("standup"))
}

func aRoom(name string) string {
	return fmt.Sprintf(`{"id":"1","project_id":"prj_1","name":%q,"namespaced_name":"prj_1.%s","max_participants":0,`+
		`"empty_timeout_seconds":300,"status":"open","created_at":"2026-01-31T12:00:00.000Z"}`, name, name)
}

func refusal(status int, code, after string) answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", after)
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":"not now","field":"name"}}`, code)
	}
}

func ofProxy(status int) answer {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<h1>Bad Gateway</h1>")
	}
}

func broken(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// cut breaks the connection in the middle of a body.
func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "{")
	panic(http.ErrAbortHandler)
}

// request is a recorded request.
type request struct{ path, key, credential, body string }

// serve returns a client whose server sends the answers in order, and the recorded requests.
func serve(t *testing.T, answers ...answer) (*Client, *[]request) {
	t.Helper()
	var requests []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		header := r.Header
		requests = append(requests, request{r.URL.EscapedPath(), header.Get("Idempotency-Key"), header.Get("Authorization"), string(body)})
		if len(requests) > len(answers) {
			t.Errorf("a request too many: %s", r.URL)
			return
		}
		answers[len(requests)-1](w)
	}))
	t.Cleanup(server.Close)
	return New(server.URL+"/", "vk_test_key"), &requests
}

func TestACallHasTheKeyOfTheProjectAndOneOfItsOwn(t *testing.T) {
	client, requests := serve(t, created, created)
	for range 2 {
		room, err := client.CreateRoom(t.Context(), CreateRoom{Name: "standup"})
		if err != nil || room.Name != "standup" {
			t.Fatal(room, err)
		}
	}
	first, second := (*requests)[0], (*requests)[1]
	if first.path != "/v1/rooms" || first.credential != "Bearer vk_test_key" || first.body != `{"name":"standup"}` {
		t.Errorf("%+v", first)
	}
	if first.key == "" || first.key == second.key {
		t.Errorf("keys %q and %q", first.key, second.key)
	}
}

func TestTheKeyOfTheProjectIsNotPrinted(t *testing.T) {
	client := New("http://conclave.test", "vk_test_key")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, client); text != "conclave.Client(http://conclave.test)" {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func TestAGivenKeyIsKept(t *testing.T) {
	client, requests := serve(t, refusal(429, "rate_limited", "0"), created)
	if _, err := client.CreateRoom(WithIdempotencyKey(t.Context(), "order-7"), CreateRoom{Name: "standup"}); err != nil {
		t.Fatal(err)
	}
	for _, sent := range *requests {
		if sent.key != "order-7" {
			t.Errorf("the key is %q", sent.key)
		}
	}
}

func TestAFailedCallIsRepeatedWithTheSameKey(t *testing.T) {
	failures := map[string]answer{
		"429": refusal(429, "rate_limited", "0"), "503": refusal(503, "media_unavailable", "0"), "502": ofProxy(502), "504": ofProxy(504),
		"broken": broken, "cut": cut,
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			client, requests := serve(t, failure, failure, created)
			if _, err := client.CreateRoom(t.Context(), CreateRoom{Name: "standup"}); err != nil {
				t.Fatal(err)
			}
			if first := (*requests)[0]; len(*requests) != 3 || first.key == "" || (*requests)[1] != first || (*requests)[2] != first {
				t.Errorf("%+v", *requests)
			}
		})
	}
}

func TestACallWithoutAKeyIsSentOnce(t *testing.T) {
	calls := map[string]func(context.Context, *Client) error{
		"create_ingress": func(ctx context.Context, client *Client) error {
			_, err := client.CreateIngress(ctx, "standup", CreateIngress{InputType: InputTypeWhip, ParticipantIdentity: "encoder"})
			return err
		},
		"exchange_code": func(ctx context.Context, client *Client) error {
			_, err := client.ExchangeCode(ctx, "abcd-efgh-ijkm", ExchangeCode{})
			return err
		},
		"update_template": func(ctx context.Context, client *Client) error {
			_, err := client.UpdateTemplate(ctx, "tpl_9b1d3e5f7a20", UpdateTemplate{Name: "other"})
			return err
		},
	}
	for name, call := range calls {
		client, requests := serve(t, refusal(503, "media_unavailable", "0"))
		if err := failure(t, call(t.Context(), client)); err.Code != "media_unavailable" {
			t.Errorf("%s: %v", name, err)
		}
		if len(*requests) != 1 || (*requests)[0].key != "" {
			t.Errorf("%s: %+v", name, *requests)
		}
	}
}

func failure(t *testing.T, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("%v is no Error", err)
	}
	return failed
}

func TestTheErrorSaysWhatTheServerSays(t *testing.T) {
	client, _ := serve(t, refusal(400, "invalid_room_name", ""))
	_, err := client.CreateRoom(t.Context(), CreateRoom{Name: "/"})
	expected := Error{Code: "invalid_room_name", Message: "not now", Status: 400, Field: "name", RequestID: "req-1"}
	if got := failure(t, err); *got != expected {
		t.Errorf("%+v", got)
	}
	if err.Error() != "invalid_room_name: not now" {
		t.Error(err)
	}
}

func TestTheLastRefusalIsReturned(t *testing.T) {
	refused := refusal(429, "rate_limited", "0")
	client, requests := serve(t, refused, refused, refused)
	client.retry.MaxRetries = 2
	_, err := client.GetRoom(t.Context(), "standup")
	if failure(t, err).Code != "rate_limited" || len(*requests) != 3 {
		t.Error(err, *requests)
	}
}

func TestALongRetryAfterIsNotWaitedFor(t *testing.T) {
	client, _ := serve(t, refusal(503, "media_unavailable", "3600"))
	_, err := client.GetRoom(t.Context(), "standup")
	if after := failure(t, err).RetryAfter; after != time.Hour {
		t.Error(after)
	}
}

func TestABrokenConnectionIsAnErrorToo(t *testing.T) {
	client, _ := serve(t, broken)
	client.retry.MaxRetries = 0
	_, err := client.GetRoom(t.Context(), "standup")
	if got := failure(t, err); got.Code != "connection_failed" || got.Status != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%+v", got)
	}
}

func TestTheAnswerOfAProxyIsAnErrorToo(t *testing.T) {
	client, _ := serve(t, ofProxy(http.StatusBadGateway))
	client.retry.MaxRetries = 0
	_, err := client.GetRoom(t.Context(), "standup")
	if got := failure(t, err); got.Code != "unknown" || got.Status != http.StatusBadGateway {
		t.Errorf("%+v", got)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	client, _ := serve(t, func(w http.ResponseWriter) {
		cancel(nil)
		refusal(503, "media_unavailable", "20")(w)
	})
	if _, err := client.GetRoom(ctx, "standup"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestWhatIsPartOfAPathIsEscaped(t *testing.T) {
	client, requests := serve(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) })
	if err := client.RemoveParticipant(t.Context(), "standup", "a/b?c"); err != nil {
		t.Fatal(err)
	}
	if path := (*requests)[0].path; path != "/v1/rooms/standup/participants/a%2Fb%3Fc" {
		t.Error(path)
	}
}

func TestWaitsGrowAndDiffer(t *testing.T) {
	get := httptest.NewRequest(http.MethodGet, "/v1/rooms", nil)
	policy := RetryPolicy{MaxRetries: 10}
	longest := map[int]time.Duration{0: firstWait, 1: 2 * firstWait, 2: 4 * firstWait, 9: longestWait}
	for attempt, most := range longest {
		var waits []time.Duration
		for range 50 {
			waits = append(waits, *policy.afterFailure(get, attempt))
		}
		if least := slices.Min(waits); least < most/2 || slices.Max(waits) > most || least == slices.Max(waits) {
			t.Errorf("attempt %d: %v", attempt, waits)
		}
	}
	if policy.afterFailure(get, 10) != nil {
		t.Error("more attempts than are allowed")
	}
	seven := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"7"}}}
	if wait := DefaultRetry.afterResponse(get, 0, seven); *wait != 7*time.Second {
		t.Error(wait)
	}
}

func TestAnIteratorGoesThroughAllPages(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		page := RoomPage{HasMore: offset+limit < 7}
		for number := offset; number < min(offset+limit, 7); number++ {
			page.Rooms = append(page.Rooms, Room{Name: fmt.Sprintf("room-%d", number)})
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer server.Close()
	client := New(server.URL, "vk_test_key")
	for offset, expected := range map[int64]string{0: "0 1 2 3 4 5 6", 5: "5 6"} {
		var names []string
		for room, err := range client.AllRooms(t.Context(), &ListRoomsParams{Limit: 3, Offset: offset}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, strings.TrimPrefix(room.Name, "room-"))
		}
		if got := strings.Join(names, " "); got != expected {
			t.Errorf("from %d: %s", offset, got)
		}
	}
}

func TestALinkToAFileIsAtTheAddressOfTheServer(t *testing.T) {
	const path = "/files/recordings/EG_1?project=prj_1&expires=2&signature=3"
	client, requests := serve(t, refusal(429, "rate_limited", "0"), func(w http.ResponseWriter) {
		_, _ = fmt.Fprintf(w, `{"path":%q,"expires_at":"2026-01-31T12:00:00.000Z"}`, path)
	})
	link, err := client.RecordingLink(t.Context(), "EG/1", time.Minute)
	if err != nil || link != client.server+path {
		t.Fatal(link, err)
	}
	last := (*requests)[1]
	if last.path != "/files/recordings/EG%2F1/link" || last.credential != "Bearer vk_test_key" {
		t.Errorf("%+v", last)
	}
}

func TestAnIteratorEndsWithAnError(t *testing.T) {
	client, _ := serve(t, refusal(401, "unauthorized", ""))
	for _, err := range client.AllRooms(t.Context(), nil) {
		if failure(t, err).Code != "unauthorized" {
			t.Error(err)
		}
	}
}

func TestOperationsAndKeysAreThoseOfTheDescription(t *testing.T) {
	if count := checkOperations(t, "openapi.json", reflect.TypeFor[*Client]()); count != 54 {
		t.Errorf("%d operations", count)
	}
	if checkOperations(t, "openapi-ext.json", reflect.TypeFor[Extensions]()) == 0 {
		t.Error("there is no operation beyond the contract")
	}
}

// checkOperations finds differences between a description's operations and a client's methods, and returns the number of operations.
func checkOperations(t *testing.T, file string, client reflect.Type) int {
	t.Helper()
	text, err := os.ReadFile("../../tests/data/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var description struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &description); err != nil {
		t.Fatal(err)
	}
	count := 0
	for path, item := range description.Paths {
		for method, operation := range item {
			count++
			has := func(name string) bool {
				return slices.ContainsFunc(operation.Parameters, func(one struct{ Name string }) bool { return one.Name == name })
			}
			plain := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "x")
			if takesIdempotencyKey(strings.ToUpper(method), plain) != has("Idempotency-Key") {
				t.Errorf("the key of %s", operation.OperationID)
			}
			name := strings.ReplaceAll(operation.OperationID, "_", "")
			if !hasMethod(client, name) || has("offset") && !hasMethod(client, "all"+strings.TrimPrefix(name, "list")) {
				t.Errorf("there is no method for %s", operation.OperationID)
			}
		}
	}
	return count
}

func hasMethod(client reflect.Type, name string) bool {
	for number := range client.NumMethod() {
		if strings.EqualFold(client.Method(number).Name, name) {
			return true
		}
	}
	return false
}
