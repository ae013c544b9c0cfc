package conclave

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// For every operation: the parameters that it rejects, and the responses that it accepts.

type operation struct {
	Path           string
	PathParameters []string `json:"path_parameters"`
	IsList         bool     `json:"is_list"`
	Statuses       []int
	Today, Newer   map[string]any
	Required       []string
}

const operationsKey = "vk_test_of_operations"

func loadOperations(t *testing.T) map[string]operation {
	t.Helper()
	text, err := os.ReadFile("../operations.json")
	if err != nil {
		t.Fatal(err)
	}
	var loaded map[string]operation
	if err := json.Unmarshal(text, &loaded); err != nil {
		t.Fatal(err)
	}
	path := map[string]any{"path": "/files/recordings/EG_1"}
	loaded["recording_link"] = operation{
		Path: "/files/recordings/{egress_id}/link", PathParameters: []string{"egress_id"}, Statuses: []int{200},
		Today: path, Newer: path, Required: []string{"path"},
	}
	return loaded
}

// reply is a server's response to all requests.
type reply struct {
	status   int
	body     string
	location string
}

// transport responds without a network, and records the requests.
type transport struct {
	reply    reply
	err      error
	requests []*http.Request
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.requests = append(t.requests, req)
	if t.err != nil {
		return nil, t.err
	}
	header := http.Header{}
	if t.reply.location != "" {
		header.Set("Location", t.reply.location)
	}
	body := io.NopCloser(strings.NewReader(t.reply.body))
	return &http.Response{StatusCode: t.reply.status, Header: header, Body: body, Request: req}, nil
}

func (t *transport) client() *Client {
	return New("http://conclave.test", operationsKey, WithHTTPClient(&http.Client{Transport: t}), WithRetry(RetryPolicy{}))
}

// methods returns an operation's methods: a list also has an iterator.
func (o operation) methods(id string) []string {
	name := strings.ReplaceAll(id, "_", "")
	if o.IsList {
		return []string{name, "all" + strings.TrimPrefix(name, "list")}
	}
	return []string{name}
}

// call calls a client's method with values for the path parameters, and exhausts its iterator. It returns the results and the error.
func call(t *testing.T, client *Client, name string, values []string) ([]any, error) {
	t.Helper()
	for _, receiver := range []reflect.Value{reflect.ValueOf(client), reflect.ValueOf(client.Ext)} {
		for number := range receiver.NumMethod() {
			if !strings.EqualFold(receiver.Type().Method(number).Name, name) {
				continue
			}
			method := receiver.Method(number)
			if given := arguments(t, method.Type(), values); method.Type().IsVariadic() {
				return results(method.CallSlice(given))
			} else {
				return results(method.Call(given))
			}
		}
	}
	t.Fatalf("there is no method %s", name)
	return nil, nil
}

func arguments(t *testing.T, method reflect.Type, values []string) []reflect.Value {
	t.Helper()
	var given []reflect.Value
	for number := range method.NumIn() {
		switch kind := method.In(number); {
		case kind == reflect.TypeFor[context.Context]():
			given = append(given, reflect.ValueOf(t.Context()))
		case kind.Kind() == reflect.String:
			given = append(given, reflect.ValueOf(values[0]))
			values = values[1:]
		default:
			given = append(given, reflect.Zero(kind))
		}
	}
	return given
}

func results(returned []reflect.Value) ([]any, error) {
	var found []any
	if first := returned[0]; first.Kind() == reflect.Func {
		for item, err := range first.Seq2() {
			if !err.IsNil() {
				return found, err.Interface().(error)
			}
			found = append(found, item.Interface())
		}
		return found, nil
	}
	for _, one := range returned[:len(returned)-1] {
		found = append(found, one.Interface())
	}
	err, _ := returned[len(returned)-1].Interface().(error)
	return found, err
}

func (o operation) plain() []string { return slices.Repeat([]string{"x"}, len(o.PathParameters)) }

func TestWhatIsNoNameInAURLIsNotSent(t *testing.T) {
	refused := 0
	for id, one := range loadOperations(t) {
		for number, parameter := range one.PathParameters {
			for _, value := range []string{".", "..", ""} {
				for _, name := range one.methods(id) {
					values := one.plain()
					values[number] = value
					server := &transport{}
					_, err := call(t, server.client(), name, values)
					got := failure(t, err)
					if got.Code != "invalid_parameter" || got.Field != parameter || got.Status != 0 || len(server.requests) > 0 {
						t.Errorf("%s, %s %q: %+v", name, parameter, value, got)
					}
					refused++
				}
			}
		}
	}
	if refused < 150 {
		t.Errorf("only %d calls", refused)
	}
}

func TestOtherDotsArriveAsTheyAre(t *testing.T) {
	for id, one := range loadOperations(t) {
		for number, parameter := range one.PathParameters {
			for _, value := range []string{"%2e", "%2E%2e", ".%2e", "...", ".a", "a/..", "../", "%", "ü", "{x}", " "} {
				values := one.plain()
				values[number] = value
				server := &transport{reply: reply{status: http.StatusTeapot}}
				_, err := call(t, server.client(), one.methods(id)[0], values)
				_ = failure(t, err)
				sent := server.requests[0].URL
				wanted := one.Path
				for at, name := range one.PathParameters {
					wanted = strings.Replace(wanted, "{"+name+"}", values[at], 1)
				}
				if sent.Path != wanted || strings.Count(sent.EscapedPath(), "/") != strings.Count(one.Path, "/") {
					t.Errorf("%s, %s %q: %s", id, parameter, value, sent)
				}
				if again, err := url.Parse(sent.String()); err != nil || again.ResolveReference(again).EscapedPath() != sent.EscapedPath() {
					t.Errorf("%s, %s %q: a client makes %s of it", id, parameter, value, again)
				}
			}
		}
	}
}

// wrong returns responses that an operation does not declare.
func (o operation) wrong() []reply {
	right := ""
	if o.Today != nil {
		right = marshal(o.Today)
	}
	var replies []reply
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		replies = append(replies, reply{status, right, "https://elsewhere.test/v1"})
	}
	for _, status := range []int{200, 201, 202, 204, 206} {
		if !slices.Contains(o.Statuses, status) {
			replies = append(replies, reply{status: status, body: right})
		}
	}
	if o.Today == nil {
		return replies
	}
	bodies := []string{
		"", "<html>Sign in</html>", "{}", "[]", "null", `"text"`, "7", "{", "\xff", strings.Repeat("[", 100_000),
	}
	for _, field := range o.Required {
		other := maps.Clone(o.Today)
		other[field] = []any{map[string]any{}}
		bodies = append(bodies, marshal(other))
		other[field] = nil
		// Nullable fields.
		if !strings.Contains("identity role max_uses max_kbps response_status", field) {
			bodies = append(bodies, marshal(other))
		}
		delete(other, field)
		bodies = append(bodies, marshal(other))
	}
	for _, body := range bodies {
		replies = append(replies, reply{status: o.Statuses[0], body: body})
	}
	return replies
}

func marshal(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSpace(text.String())
}

func TestOnlyTheDeclaredResponseIsAResult(t *testing.T) {
	for id, one := range loadOperations(t) {
		for _, name := range one.methods(id) {
			for _, wrong := range one.wrong() {
				server := &transport{reply: wrong}
				_, err := call(t, server.client(), name, one.plain())
				if err == nil {
					t.Errorf("%s takes %+v", name, wrong)
					continue
				}
				got := failure(t, err)
				start := fmt.Sprintf("%q", wrong.body[:min(200, len(wrong.body))])
				if got.Code != "unknown" || got.Status != wrong.status || !strings.Contains(got.Message, start) {
					t.Errorf("%s, %+v: %+v", name, wrong, got)
				}
				if len(server.requests) != 1 {
					t.Errorf("%s, %d: %d requests", name, wrong.status, len(server.requests))
				}
			}
		}
	}
}

func TestANewerServerBreaksNothing(t *testing.T) {
	for id, one := range loadOperations(t) {
		for _, body := range []map[string]any{one.Today, one.Newer} {
			for _, status := range one.Statuses {
				for _, name := range one.methods(id) {
					server := &transport{reply: reply{status: status, body: marshal(body)}}
					found, err := call(t, server.client(), name, one.plain())
					if err != nil || (len(found) != 1 && one.Today != nil) {
						t.Errorf("%s: %v, %v", name, found, err)
					}
				}
			}
		}
	}
}

func TestNoRedirectIsFollowedOverANetwork(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path)
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	for _, client := range []*Client{New(server.URL, operationsKey), New(server.URL, operationsKey, WithHTTPClient(http.DefaultClient))} {
		seen = nil
		room, err := client.CreateRoom(t.Context(), CreateRoom{Name: "standup"})
		if got := failure(t, err); room != nil || got.Status != 302 || !strings.Contains(got.Message, `leads to "/elsewhere"`) {
			t.Errorf("%v, %+v", room, got)
		}
		_, err = client.RecordingLink(t.Context(), "EG_1", time.Minute)
		_ = failure(t, err)
		if !slices.Equal(seen, []string{"POST /v1/rooms", "GET /files/recordings/EG_1/link"}) {
			t.Error(seen)
		}
	}
	if http.DefaultClient.CheckRedirect != nil {
		t.Error("the given client is changed")
	}
}

func TestALinkStaysOnTheServer(t *testing.T) {
	for _, path := range []string{"@elsewhere.test/", ".elsewhere.test/", ":80/"} {
		server := &transport{reply: reply{status: 200, body: marshal(map[string]any{"path": path})}}
		link, err := server.client().RecordingLink(t.Context(), "EG_1", time.Minute)
		if got := failure(t, err); link != "" || got.Code != "unknown" || got.Status != 200 {
			t.Errorf("%q: %+v", link, got)
		}
	}
}

func TestAKeyThatNoHeaderCanCarryIsRefusedAndNotPrinted(t *testing.T) {
	keys := []string{
		"", " \n", "vk_test_\nsecret", "vk_test_\x00secret", "vk_test_ secret", "vk_test_sécret", "vk_test_\x7fsecret", "vk_test_\xffsecret",
	}
	for _, key := range keys {
		client := New("http://conclave.test", key)
		_, err := client.GetPlan(t.Context())
		if got := failure(t, err); got.Code != "invalid_key" {
			t.Errorf("%+v", got)
		}
		printed := fmt.Sprintf("%v %+v %#v", err, *failure(t, err), *client)
		if strings.Contains(printed, "vk_test") || strings.Contains(printed, "cret") {
			t.Error(printed)
		}
	}
}

func TestWhiteSpaceAroundAKeyIsRemoved(t *testing.T) {
	for _, key := range []string{"vk_test_key\n", "\r\n vk_test_key\t", "vk_test_key"} {
		server := &transport{reply: reply{status: http.StatusTeapot}}
		client := New(" http://conclave.test/\n", key, WithHTTPClient(&http.Client{Transport: server}))
		_, err := client.GetPlan(t.Context())
		_ = failure(t, err)
		if sent := server.requests[0]; sent.Header.Get("Authorization") != "Bearer vk_test_key" || sent.URL.Path != "/v1/plan" {
			t.Errorf("%v", sent)
		}
	}
}

func TestTheKeyIsNotPrintedByAValueEither(t *testing.T) {
	client := New("http://conclave.test", operationsKey)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, *client); strings.Contains(text, operationsKey) {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func TestAKeyThatIsSentBackIsNotPrinted(t *testing.T) {
	sent := "Authorization: Bearer " + operationsKey
	envelope := marshal(map[string]any{"error": map[string]any{"code": "unauthorized", "message": sent}})
	servers := []*transport{
		{reply: reply{status: 401, body: envelope}},
		{reply: reply{status: 308, location: "/?" + operationsKey}},
		{err: errors.New("illegal header " + sent)},
	}
	for _, status := range []int{200, 201, 400, 502} {
		servers = append(servers, &transport{reply: reply{status: status, body: strings.Repeat(".", 150) + sent}})
	}
	for _, server := range servers {
		_, err := server.client().GetRoom(t.Context(), "standup")
		got := failure(t, err)
		// Nor a usable part of it.
		if printed := fmt.Sprintf("%v %+v %#v %v", err, *got, *got, errors.Unwrap(err)); strings.Contains(printed, operationsKey[:10]) {
			t.Error(printed)
		}
	}
}

func TestAURLThatIsNoneIsRefusedAndNotPrinted(t *testing.T) {
	for _, address := range []string{"", "conclave.test", "ftp://conclave.test", "vk_test_secret", "http://a b", "http://a\nb"} {
		_, err := New(address, "vk_test_key").GetPlan(t.Context())
		if got := failure(t, err); got.Code != "invalid_url" || strings.Contains(err.Error(), "vk_test") {
			t.Errorf("%q: %+v", address, got)
		}
	}
}

// The environment is read once per process, so this test starts itself again.
func TestTheProxiesOfTheEnvironmentAreUsed(t *testing.T) {
	if os.Getenv("CONCLAVE_TEST_PROXIED") != "" {
		_, err := New("http://conclave.invalid", "vk_test_key", WithRetry(RetryPolicy{})).GetPlan(t.Context())
		fmt.Println(failure(t, err).Status)
		return
	}
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.String())
		w.WriteHeader(http.StatusTeapot)
	}))
	defer proxy.Close()
	for exception, status := range map[string]string{"": "418", "conclave.invalid": "0"} {
		again := exec.Command(os.Args[0], "-test.run=^TestTheProxiesOfTheEnvironmentAreUsed$")
		again.Env = append(os.Environ(), "CONCLAVE_TEST_PROXIED=1", "HTTP_PROXY="+proxy.URL, "NO_PROXY="+exception, "no_proxy="+exception)
		printed, err := again.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(printed), status+"\n") {
			t.Errorf("except %q: %v %s", exception, err, printed)
		}
	}
	if !slices.Equal(seen, []string{"http://conclave.invalid/v1/plan"}) {
		t.Error(seen)
	}
}
