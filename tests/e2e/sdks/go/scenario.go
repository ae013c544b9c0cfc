// Command scenario acts as a backend with the Go SDK, against a real server behind the proxy of scripts/check sdks.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	conclave "example.org/conclave/sdk/go"
	"example.org/conclave/sdk/go/webhooks"
)

const name = "go-lesson"

var (
	url, key = os.Getenv("CONCLAVE_URL"), os.Getenv("CONCLAVE_KEY")
	ctx      = context.Background()
)

func check(what string, passed bool) {
	if !passed {
		fmt.Println("    FAILED", what)
		os.Exit(1)
	}
	fmt.Println("    ok    ", what)
}

// must returns the result of a call that must succeed.
func must[T any](value T, err error) T {
	done(err)
	return value
}

func done(err error) {
	if err != nil {
		check(err.Error(), false)
	}
}

func within(what string, passed func() bool) {
	for until := time.Now().Add(30 * time.Second); !passed() && time.Now().Before(until); {
		time.Sleep(100 * time.Millisecond)
	}
	check(what, passed())
}

func collect[T any](items iter.Seq2[T, error]) []T {
	var all []T
	for item, err := range items {
		done(err)
		all = append(all, item)
	}
	return all
}

// order requests a fault from the proxy, or an action of a simulated client from the sandbox.
func order(path string, body any) string {
	response := must(http.Post(url+path, "application/json", bytes.NewReader(must(json.Marshal(body)))))
	defer response.Body.Close()
	var answer struct{ Sid string }
	if text := must(io.ReadAll(response.Body)); response.StatusCode == http.StatusCreated {
		done(json.Unmarshal(text, &answer))
	}
	check(path, response.StatusCode < 300)
	return answer.Sid
}

// fetched returns the response to a browser's request for a link.
func fetched(link string) string {
	response := must(http.Get(link))
	defer response.Body.Close()
	return fmt.Sprint(response.StatusCode, " ", string(must(io.ReadAll(response.Body))))
}

func refused[T any](code string, _ T, err error) *conclave.Error {
	var failed *conclave.Error
	check("refused with "+code, errors.As(err, &failed) && failed.Code == code)
	return failed
}

// receivers is a server with two receivers: the SDK's own, and a manual receiver that verifies and records the deliveries.
type receivers struct {
	lock    sync.Mutex
	handled map[string]conclave.Event
	bodies  [][]byte
	headers []http.Header
	secret  string
}

func newReceivers(client *conclave.Client) *receivers {
	r := &receivers{handled: map[string]conclave.Event{}}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	endpoint := func(path string) string {
		return must(client.CreateWebhookEndpoint(ctx, conclave.CreateWebhookEndpoint{URL: server.URL + path})).Secret
	}
	mux.Handle("/hooks", webhooks.Handler(endpoint("/hooks"), r.handle))
	r.secret = endpoint("/raw")
	mux.HandleFunc("/raw", r.verify)
	return r
}

func (r *receivers) handle(_ context.Context, event conclave.Event, deliveryID string) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.handled[deliveryID] = event
	return nil
}

func (r *receivers) verify(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err == nil {
		_, err = webhooks.Verify(body, request.Header, r.secret)
	}
	if err != nil {
		w.WriteHeader(webhooks.StatusOf(err))
		return
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.bodies, r.headers = append(r.bodies, body), append(r.headers, request.Header)
}

func (r *receivers) has(types ...string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, event := range r.handled {
		types = slices.DeleteFunc(types, func(one string) bool { return one == event.EventType() })
	}
	return len(types) == 0
}

func (r *receivers) joined() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	var identities []string
	for _, event := range r.handled {
		if joined, ok := event.(*conclave.ParticipantJoinedEvent); ok {
			identities = append(identities, joined.ParticipantIdentity)
		}
	}
	slices.Sort(identities)
	return strings.Join(identities, " ")
}

func aLesson(client *conclave.Client, deliveries *receivers) string {
	permissions := conclave.RolePermissions{MuteOthers: true, UnmuteOthers: true}
	roles := map[string]conclave.RoleInput{"teacher": {Permissions: permissions}, "student": {}}
	template := must(client.CreateTemplate(ctx, conclave.CreateTemplate{Name: "go", Roles: roles}))
	check("a template with two roles", len(template.Roles) == 2 && template.Roles["teacher"].Permissions == permissions)
	destinations(client, template.ID)
	metadata := map[string]any{"class": "5b"}
	room := must(client.CreateRoom(ctx, conclave.CreateRoom{Name: name, TemplateID: template.ID, Metadata: metadata}))
	check("a room with metadata", room.Status == conclave.RoomStatusOpen && fmt.Sprint(room.Metadata) == fmt.Sprint(metadata))

	token := must(client.CreateToken(ctx, conclave.CreateToken{Room: name, Identity: "alice", Role: "teacher"}))
	alice := order("/sandbox/join", map[string]string{"token": token.Token})
	wanted := conclave.CreateCode{Role: "student", Identity: "bob", MaxUses: 1}
	code := must(client.CreateCode(ctx, name, wanted))
	exchanged := must(client.ExchangeCode(ctx, code.Code, conclave.ExchangeCode{}))
	check("a code for a token", exchanged.Role == "student")
	order("/sandbox/join", map[string]string{"token": exchanged.Token})
	track := order("/sandbox/participants/"+alice+"/tracks", map[string]string{"kind": "video", "source": "camera"})

	check("two participants", len(collect(client.AllParticipants(ctx, name, nil))) == 2)
	muted := must(client.MuteTrack(ctx, name, "alice", conclave.MuteTrack{TrackSid: track, Muted: true}))
	check("muted", muted.Track.Muted)
	data := conclave.SendData{Data: []byte("hello"), DestinationIdentities: []string{"bob"}}
	check("data", must(client.SendData(ctx, name, data)).Bytes == 5)
	change := must(client.ChangeRole(ctx, name, "bob", conclave.ChangeRole{Role: "teacher"})).RoleChange
	check("another role", change.PreviousRole == "student" && change.Role == "teacher")
	done(client.RemoveParticipant(ctx, name, "bob"))
	gone, err := client.GetParticipant(ctx, name, "bob")
	check("gone", refused("participant_not_found", gone, err).Status == http.StatusNotFound)

	start := conclave.StartRecording{Type: conclave.RecordingTypeRoomComposite, Layout: conclave.LayoutGrid}
	recording := must(client.StartRecording(ctx, name, start)).EgressID
	is := func(status conclave.EgressStatus) func() bool {
		return func() bool { return must(client.GetRecording(ctx, recording)).Status == status }
	}
	within("the recording is active", is(conclave.EgressStatusActive))
	early, err := client.RecordingLink(ctx, recording, time.Hour)
	refused("recording_not_found", early, err)
	must(client.StopRecording(ctx, recording))
	within("the recording is complete", is(conclave.EgressStatusComplete))
	link := aLink(client, recording)
	params := &conclave.ListSessionsParams{Identity: "bob", After: time.Now().Add(-time.Hour)}
	sessions := collect(client.AllSessions(ctx, params))
	check("a session", len(sessions) == 1 && !sessions[0].LeftAt.IsZero() && sessions[0].Room == name)

	within("every event was received and verified", func() bool {
		return deliveries.has("room.started", "participant.joined", "track.published", "participant.role_changed",
			"participant.left", "recording.started", "recording.ended")
	})
	check("typed events", deliveries.joined() == "alice bob")
	return link
}

func destinations(client *conclave.Client, template string) {
	live := conclave.DestinationConfig{Rtmp: &conclave.RtmpDestination{URLs: []string{"rtmp://live.example.com/app/stream-key"}}}
	made := must(client.CreateDestination(ctx, template, conclave.CreateDestination{Name: "live", Config: live}))
	check("a destination of broadcasts", made.Config.Rtmp != nil && made.Kind == conclave.DestinationKindRtmp)
	s3 := &conclave.S3Destination{Bucket: "lessons", AccessKey: "AKIA", Secret: "of-s3", Region: "eu-west-1"}
	archive := conclave.CreateDestination{Name: "archive", Config: conclave.DestinationConfig{S3: s3}}
	made = must(client.CreateDestination(ctx, template, archive))
	check("one of recordings", made.Config.S3 != nil && made.Config.S3.AccessKey == "AKIA")
	other := conclave.UpdateDestination{Config: conclave.DestinationConfig{S3: &conclave.S3Destination{Bucket: "other"}}}
	changed := must(client.UpdateDestination(ctx, template, "archive", other))
	check("another bucket", changed.Config.S3 != nil && changed.Config.S3.Bucket == "other")
	check("no secret is printed", !strings.Contains(fmt.Sprintf("%+v %v", s3, live.Rtmp), "of-s3") &&
		!strings.Contains(fmt.Sprintf("%+v", live.Rtmp), "stream-key"))
}

// aLink returns a link to a recording's file, which needs no key.
func aLink(client *conclave.Client, recording string) string {
	record := must(client.GetRecording(ctx, recording))
	order("/recording", map[string]string{"path": fmt.Sprint(record.ProjectID, "/", record.Filepath), "text": name})
	link := must(client.RecordingLink(ctx, recording, time.Hour))
	check("a link to its file", fetched(link) == "200 "+name)
	altered := strings.Replace(link, "expires=1", "expires=2", 1)
	check("an altered link is refused", strings.HasPrefix(fetched(altered), "401"))
	short := must(client.RecordingLink(ctx, recording, time.Second))
	within("a link expires", func() bool { return strings.HasPrefix(fetched(short), "401") })
	return link
}

func whatIsNotADelivery(deliveries *receivers) {
	within("a delivery was kept", func() bool {
		deliveries.lock.Lock()
		defer deliveries.lock.Unlock()
		return len(deliveries.bodies) > 0
	})
	body, header := deliveries.bodies[0], deliveries.headers[0]
	verify := func(body []byte, header http.Header, options ...webhooks.Option) error {
		_, err := webhooks.Verify(body, header, deliveries.secret, options...)
		return err
	}
	check("it is verified again", verify(body, header) == nil)
	altered := bytes.Replace(body, []byte(name), []byte("go-lesson2"), 1)
	check("an altered one is refused", errors.Is(verify(altered, header), webhooks.ErrWrongSignature))
	later := webhooks.WithTime(time.Now().Add(400 * time.Second))
	check("an old one is refused", errors.Is(verify(body, header, later), webhooks.ErrOutsideTolerance))
	retimed := header.Clone()
	retimed.Set("webhook-timestamp", fmt.Sprint(time.Now().Unix()+100))
	check("one with another time is refused", errors.Is(verify(body, retimed), webhooks.ErrWrongSignature))
	timeless := http.Header{"X-Svc-Signature": header.Values("X-Svc-Signature")}
	check("one without a time is refused", errors.Is(verify(body, timeless), webhooks.ErrUnsigned))
}

func manyRooms(client *conclave.Client) {
	expected := name
	for number := range 7 {
		other := fmt.Sprintf("go-%d", number)
		must(client.CreateRoom(ctx, conclave.CreateRoom{Name: other}))
		expected = other + " " + expected
	}
	var names []string
	params := &conclave.ListRoomsParams{Limit: 3}
	for _, room := range collect(client.AllRooms(ctx, params)) {
		names = append(names, room.Name)
	}
	check("an iterator over pages", strings.Join(names, " ") == expected)
	check("a page", must(client.ListRooms(ctx, params)).HasMore)
}

func refusals(client *conclave.Client) {
	room, err := client.CreateRoom(ctx, conclave.CreateRoom{Name: name})
	exists := refused("room_exists", room, err)
	check("its status and request id", exists.Status == http.StatusConflict && exists.RequestID != "")
	room, err = client.CreateRoom(ctx, conclave.CreateRoom{Name: "/"})
	check("its field", refused("invalid_room_name", room, err).Field == "name")
	plan, err := conclave.New(url, "vk_test_wrong").GetPlan(ctx)
	check("a wrong key", refused("unauthorized", plan, err).Status == http.StatusUnauthorized)
}

// plans reads the plan 90 times at once, and returns the errors.
func plans(client *conclave.Client) []error {
	failed := make([]error, 90)
	var group sync.WaitGroup
	for number := range failed {
		group.Add(1)
		go func() {
			defer group.Done()
			_, failed[number] = client.GetPlan(ctx)
		}()
	}
	group.Wait()
	return slices.DeleteFunc(failed, func(err error) bool { return err == nil })
}

type fault struct {
	Match      string `json:"match"`
	Answer     any    `json:"answer"`
	RetryAfter int    `json:"retry_after"`
	Times      int    `json:"times"`
}

func faults(client *conclave.Client) {
	check("90 calls at once, beyond the rate", len(plans(client)) == 0)
	impatient := conclave.New(url, key, conclave.WithRetry(conclave.RetryPolicy{}))
	// Repeated on a slow machine, where the rate is not exceeded at once.
	within("without repeats, an error that says when", func() bool {
		return slices.ContainsFunc(plans(impatient), func(err error) bool {
			var limited *conclave.Error
			return errors.As(err, &limited) && limited.Code == "rate_limited" && limited.RetryAfter >= time.Second
		})
	})

	order("/sandbox/outage", map[string]int{"seconds": 2})
	check("after an outage of the media plane", len(must(client.ListParticipants(ctx, name, nil)).Participants) == 1)
	order("/faults", fault{Match: "POST /v1/rooms", Answer: 503, RetryAfter: 1, Times: 2})
	check("after two 503", created(client, "go-503"))
	order("/faults", fault{Match: "GET /v1/plan", Answer: 503, RetryAfter: 3600, Times: 1})
	plan, err := client.GetPlan(ctx)
	check("a long wait is told", refused("media_unavailable", plan, err).RetryAfter == time.Hour)
	order("/faults", fault{Match: "POST /v1/rooms", Answer: "cut", Times: 1})
	check("after a cut answer", created(client, "go-cut"))
	order("/faults", fault{Match: "POST /v1/rooms/" + name + "/ingress", Answer: "cut", Times: 1})
	encoder := conclave.CreateIngress{InputType: conclave.InputTypeWhip, ParticipantIdentity: "encoder"}
	ingress, err := client.CreateIngress(ctx, name, encoder)
	cut := refused("connection_failed", ingress, err)
	check("what cannot be repeated is not", cut.Status == 0 && len(must(client.ListIngresses(ctx, nil)).Ingresses) == 1)
}

func created(client *conclave.Client, name string) bool {
	return must(client.CreateRoom(ctx, conclave.CreateRoom{Name: name})).Status == conclave.RoomStatusOpen
}

func main() {
	// The server restarts within a call's retries.
	policy := conclave.RetryPolicy{MaxRetries: 8, MaxRetryAfter: 30 * time.Second}
	client := conclave.New(url, key, conclave.WithRetry(policy))
	deliveries := newReceivers(client)
	link := aLesson(client, deliveries)
	whatIsNotADelivery(deliveries)
	manyRooms(client)
	refusals(client)
	faults(client)
	order("/kill", nil)
	check("after a kill", created(client, "go-kill"))
	check("nothing is lost", must(client.GetRoom(ctx, name)).Status == conclave.RoomStatusOpen)
	check("the link is still valid", fetched(link) == "200 "+name)
	done(client.EndRoom(ctx, name))
	within("its end is reported", func() bool { return deliveries.has("room.finished") })
}
