package conclave

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const sentinel = "sentinel-of-a-secret"

// Types with secrets, and types that contain them. TestNoTypeWithASecretIsForgotten compares them with the generated file.
var secretTypes = []any{
	AzureDestination{}, GcpDestination{}, IngressCreated{}, RoomCode{}, RtmpDestination{}, S3Destination{}, StartBroadcast{}, Token{},
	WebhookEndpointCreated{}, WebhookSecretRotated{},
}

var secretField = regexp.MustCompile(`(Token|Secret|Key|Credentials?|Password|Code)$`)

// isSecret reports by its name whether a field is secret: URLs in requests contain stream keys.
func isSecret(owner, field string) bool {
	if field == "URLs" {
		return owner != "Broadcast"
	}
	return secretField.MatchString(field) && field != "AccessKey"
}

func TestNoTypeWithASecretIsForgotten(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "api.gen.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		declared, isType := node.(*ast.TypeSpec)
		if !isType {
			return true
		}
		fields, isStruct := declared.Type.(*ast.StructType)
		if !isStruct || declared.Name.Name == "plain" {
			return false
		}
		for _, field := range fields.Fields.List {
			if isSecret(declared.Name.Name, field.Names[0].Name) {
				found = append(found, declared.Name.Name)
				break
			}
		}
		return false
	})
	var listed []string
	for _, one := range secretTypes {
		listed = append(listed, reflect.TypeOf(one).Name())
	}
	if slices.Sort(found); !slices.Equal(found, listed) {
		t.Errorf("%v have secrets, %v are listed", found, listed)
	}
}

// withSecrets returns a value whose secrets are the sentinel, and their number.
func withSecrets(one any) (reflect.Value, int) {
	value, count := reflect.New(reflect.TypeOf(one)).Elem(), 0
	for number := range value.NumField() {
		if !isSecret(value.Type().Name(), value.Type().Field(number).Name) {
			continue
		}
		count++
		switch field := value.Field(number); field.Interface().(type) {
		case string:
			field.SetString(sentinel)
		case *string:
			field.Set(reflect.ValueOf(Ptr(sentinel)))
		case []string:
			field.Set(reflect.ValueOf([]string{sentinel}))
		}
	}
	return value, count
}

// printed returns the output of fmt and log/slog for a value.
func printed(value any) string {
	var text bytes.Buffer
	for _, format := range []string{"%v\n", "%+v\n", "%#v\n", "%s\n", "%q\n", "%x\n", "%d\n", "%20v\n"} {
		_, _ = fmt.Fprintf(&text, format, value)
	}
	_, _ = fmt.Fprintln(&text, value)
	slog.New(slog.NewTextHandler(&text, nil)).Info("text", "value", value)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("json", "value", value)
	return text.String()
}

func TestNoSecretIsPrinted(t *testing.T) {
	for _, one := range secretTypes {
		value, count := withSecrets(one)
		pointer := reflect.New(value.Type())
		pointer.Elem().Set(value)
		slice := reflect.Append(reflect.MakeSlice(reflect.SliceOf(value.Type()), 0, 1), value)
		kept, err := json.Marshal(value.Interface())
		if err != nil || count == 0 || strings.Count(string(kept), sentinel) != count {
			t.Errorf("%s has %d secrets, and is sent as %s: %v", value.Type(), count, kept, err)
		}
		// Also as another type's field, which log/slog cannot distinguish.
		inner := fmt.Sprintf("%v %+v %#v %v", slice, slice, slice, struct{ Field any }{value.Interface()})
		for _, text := range []string{printed(value.Interface()), printed(pointer.Interface()), inner} {
			if strings.Contains(text, sentinel) || strings.Contains(text, fmt.Sprintf("%x", sentinel)) {
				t.Errorf("%s is printed as %s", value.Type(), text)
			}
			if !strings.Contains(text, "***") || strings.Contains(text, "plain") {
				t.Errorf("%s is printed as %s", value.Type(), text)
			}
		}
	}
}

func TestNoSecretWithinAnotherObjectIsPrinted(t *testing.T) {
	config := DestinationConfig{S3: &S3Destination{Bucket: "b", Secret: sentinel}}
	for _, value := range []any{
		RoomCodePage{Codes: []RoomCode{{Code: sentinel}}}, config, Destination{Config: config},
		DestinationList{Destinations: []Destination{{Config: config}}}, CreateDestination{Config: config}, UpdateDestination{Config: config},
	} {
		if text := printed(value); strings.Contains(text, sentinel) {
			t.Errorf("%T is printed as %s", value, text)
		}
	}
}

func TestWhatIsPrintedCanBeRead(t *testing.T) {
	for format, expected := range map[string]string{
		"%v":  "{*** wss://a.test 0001-01-01 00:00:00 +0000 UTC <nil> host}",
		"%+v": "{Token:*** URL:wss://a.test ExpiresAt:0001-01-01 00:00:00 +0000 UTC PublishProfile:<nil> Role:host}",
	} {
		if text := fmt.Sprintf(format, Token{Token: "a", URL: "wss://a.test", Role: "host"}); text != expected {
			t.Error(text)
		}
	}
	if text := fmt.Sprintf("%#v", Token{Token: "a"}); !strings.HasPrefix(text, `conclave.Token{Token:"***", URL:"",`) {
		t.Error(text)
	}
	if text := fmt.Sprintf("%+v", S3Destination{Bucket: "b"}); strings.Contains(text, "***") {
		t.Errorf("no secret is printed as one: %s", text)
	}
}

// sent returns a request's body.
func sent(t *testing.T, body any) string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestZeroValuesAreNotSent(t *testing.T) {
	for expected, body := range map[string]any{
		`{"name":"standup"}`:                           CreateRoom{Name: "standup"},
		`{"name":"standup","empty_timeout_seconds":0}`: CreateRoom{Name: "standup", EmptyTimeoutSeconds: Ptr[int64](0)},
		`{"room":"standup","identity":"alice"}`:        CreateToken{Room: "standup", Identity: "alice"},
		`{"room":"standup","identity":"alice","permissions":{"can_publish":false}}`: CreateToken{
			Room: "standup", Identity: "alice", Permissions: Permissions{CanPublish: Ptr(false)},
		},
		`{"name":"t","roles":{"guest":{"subscribe":{"to_roles":[]}},"host":{"publish":{"video":{"height":360}}}}}`: CreateTemplate{
			Name: "t",
			Roles: map[string]RoleInput{
				"host":  {Publish: RolePublishInput{Video: VideoInput{Height: 360}}},
				"guest": {Subscribe: RoleSubscribeInput{ToRoles: []string{}}},
			},
		},
		`{"data":"aGVsbG8="}`:             SendData{Data: []byte("hello")},
		`{"track_sid":"1","muted":false}`: MuteTrack{TrackSid: "1"},
		`{}`:                              ExchangeCode{},
		`{"description":""}`:              UpdateWebhookEndpoint{Description: Ptr("")},
		`{"auto_record":null}`:            TemplateSettingsInput{AutoRecord: Ptr[map[string]any](nil)},
	} {
		if text := sent(t, body); text != expected {
			t.Errorf("%s is not %s", text, expected)
		}
	}
}

func TestParametersOfAQueryAreSentIfTheyHaveAValue(t *testing.T) {
	after := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3*60*60))
	params := &ListSessionsParams{Identity: "a b", Active: Ptr(false), After: after, Limit: 3}
	for expected, given := range map[string]any{
		"active=false&after=2026-01-31T09%3A00%3A00Z&identity=a+b&limit=3": params,
		"from=2026-01-31":                   &GetUsageParams{From: DateOf(after)},
		"event_type=room.started&offset=50": &ListWebhookDeliveriesParams{EventType: EventTypeRoomStarted, Offset: 50},
		"":                                  (*ListRoomsParams)(nil),
	} {
		if query, err := queryOf(given); err != nil || query.Encode() != expected {
			t.Errorf("%s is not %s: %v", query.Encode(), expected, err)
		}
	}
}

func TestAConfigurationIsOneOfItsKinds(t *testing.T) {
	for expected, config := range map[string]DestinationConfig{
		`{"type":"s3","bucket":"b","secret":"s","session_token":""}`: {S3: &S3Destination{Bucket: "b", Secret: "s", SessionToken: Ptr("")}},
		`{"type":"gcp","bucket":"b"}`:                                {Gcp: &GcpDestination{Bucket: "b"}},
		`{"type":"azure","container":"c","account_name":"a"}`:        {Azure: &AzureDestination{Container: "c", AccountName: "a"}},
		`{"urls":["rtmp://a.test/REDACTED"]}`:                        {Rtmp: &RtmpDestination{URLs: []string{"rtmp://a.test/REDACTED"}}},
		`{"type":"later","bucket":"b"}`:                              {Other: json.RawMessage(`{"type":"later","bucket":"b"}`)},
	} {
		if text := sent(t, config); text != expected {
			t.Errorf("%s is not %s", text, expected)
		}
		var read DestinationConfig
		if err := json.Unmarshal([]byte(expected), &read); err != nil || !reflect.DeepEqual(read, config) {
			t.Errorf("%s is read as %+v: %v", expected, read, err)
		}
	}
	both := DestinationConfig{S3: &S3Destination{}, Rtmp: &RtmpDestination{}}
	server := &transport{}
	_, err := server.client().UpdateDestination(t.Context(), "tpl_1", "archive", UpdateDestination{Config: both})
	if failure(t, err).Code != "invalid_parameter" || len(server.requests) != 0 {
		t.Error(err)
	}
	if text := sent(t, DestinationConfig{}); text != "null" {
		t.Errorf("it is sent as %s", text)
	}
	s3 := CreateDestination{Name: "a", Config: DestinationConfig{S3: &S3Destination{Bucket: "b"}}}
	if text := sent(t, s3); text != `{"name":"a","kind":"recording","config":{"type":"s3","bucket":"b"}}` {
		t.Error(text)
	}
	live := CreateDestination{Name: "a", Config: DestinationConfig{Rtmp: &RtmpDestination{URLs: []string{"rtmp://a.test/key"}}}}
	if text := sent(t, live); text != `{"name":"a","kind":"rtmp","config":{"urls":["rtmp://a.test/key"]}}` {
		t.Error(text)
	}
}

func TestWhatIsAbsentOrNullHasNoValue(t *testing.T) {
	one := loadOperations(t)["get_session"]
	one.Today["role"] = nil
	delete(one.Today, "left_at")
	server := &transport{reply: reply{status: http.StatusOK, body: marshal(one.Today)}}
	session, err := server.client().GetSession(t.Context(), "1")
	if err != nil || session.Role != "" || !session.LeftAt.IsZero() || session.JoinedAt.IsZero() {
		t.Errorf("%+v, %v", session, err)
	}
}

func TestDatesAreDays(t *testing.T) {
	var usage Usage
	if err := json.Unmarshal([]byte(`{"days":[{"date":"2026-01-31"}]}`), &usage); err != nil {
		t.Fatal(err)
	}
	day := usage.Days[0].Date
	if day != (Date{2026, time.January, 31}) || day.String() != "2026-01-31" || DateOf(day.Time()) != day {
		t.Errorf("%#v", day)
	}
	if err := json.Unmarshal([]byte(`{"days":[{"date":"31/01/2026"}]}`), &usage); err == nil {
		t.Errorf("%v", usage)
	}
}
