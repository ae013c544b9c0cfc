package conclave

import (
	"encoding/json"
	"errors"
	"log/slog"
)

// DestinationConfig is a destination's target. Exactly one field is set.
type DestinationConfig struct {
	S3    *S3Destination
	Gcp   *GcpDestination
	Azure *AzureDestination
	// Rtmp contains the receivers of broadcasts. All other types are object storage for recordings.
	Rtmp *RtmpDestination
	// Other is a configuration of a kind that only newer servers have.
	Other json.RawMessage
}

// MarshalJSON returns the configuration with its type.
func (c DestinationConfig) MarshalJSON() ([]byte, error) {
	type kind struct {
		Type string `json:"type"`
	}
	var found []any
	if c.S3 != nil {
		found = append(found, struct {
			kind
			S3Destination
		}{kind{"s3"}, *c.S3})
	}
	if c.Gcp != nil {
		found = append(found, struct {
			kind
			GcpDestination
		}{kind{"gcp"}, *c.Gcp})
	}
	if c.Azure != nil {
		found = append(found, struct {
			kind
			AzureDestination
		}{kind{"azure"}, *c.Azure})
	}
	if c.Rtmp != nil {
		found = append(found, c.Rtmp)
	}
	if c.Other != nil {
		found = append(found, c.Other)
	}
	switch len(found) {
	case 0:
		// The server rejects null, like any other missing field.
		return []byte("null"), nil
	case 1:
		return json.Marshal(found[0])
	}
	return nil, errors.New("a DestinationConfig has one of its fields, and not several")
}

// UnmarshalJSON sets the field of the configuration's type, or Other.
func (c *DestinationConfig) UnmarshalJSON(text []byte) error {
	var head struct {
		Type string
		URLs []string `json:"urls"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	*c = DestinationConfig{}
	switch {
	case head.Type == "s3":
		return json.Unmarshal(text, &c.S3)
	case head.Type == "gcp":
		return json.Unmarshal(text, &c.Gcp)
	case head.Type == "azure":
		return json.Unmarshal(text, &c.Azure)
	case head.Type == "" && head.URLs != nil:
		return json.Unmarshal(text, &c.Rtmp)
	}
	return c.Other.UnmarshalJSON(text)
}

// LogValue returns the configuration's kind, for log/slog.
func (c DestinationConfig) LogValue() slog.Value { return logged(c) }

// CreateDestination is the request for a new destination.
type CreateDestination struct {
	// Name is unique in the template.
	Name string
	// Config is the target of recordings or broadcasts.
	Config DestinationConfig
}

// MarshalJSON returns the destination with the kind of its configuration.
func (d CreateDestination) MarshalJSON() ([]byte, error) {
	kind := DestinationKindRecording
	if d.Config.Rtmp != nil {
		kind = DestinationKindRtmp
	}
	return json.Marshal(struct {
		Name   string            `json:"name"`
		Kind   DestinationKind   `json:"kind"`
		Config DestinationConfig `json:"config"`
	}{d.Name, kind, d.Config})
}

// LogValue omits secrets, for log/slog.
func (d CreateDestination) LogValue() slog.Value { return logged(d) }
