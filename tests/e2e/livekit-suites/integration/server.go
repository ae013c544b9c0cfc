// The server of LiveKit's integration tests, in place of the server inside the tests' own process: scripts/check livekit-suites starts
// another program for each test, behind the address in SUITE_URL, and copies this file beside the tests.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/livekit/protocol/livekit"

	"github.com/livekit/livekit-server/pkg/config"
)

// Both nodes of a test are the same server.
var (
	suiteURL          = os.Getenv("SUITE_URL")
	defaultServerPort = suitePort()
	secondServerPort  = defaultServerPort
)

func suitePort() int {
	parsed, err := url.Parse(suiteURL)
	if err != nil {
		panic(err)
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		panic(fmt.Sprintf("SUITE_URL has no port: %v", err))
	}
	return port
}

// suiteServer implements the tests' direct access to a server, besides its API. The server's internal state is not accessible.
type suiteServer struct {
	settings map[string]any
}

// Start is called in the background; waitForServerToStart starts the server.
func (s *suiteServer) Start() error { return nil }

func (s *suiteServer) Stop(bool) {}

func (s *suiteServer) HTTPPort() int { return defaultServerPort }

func (s *suiteServer) RoomManager() suiteRooms { return suiteRooms{} }

type suiteRooms struct{}

func (suiteRooms) GetRoom(context.Context, livekit.RoomName) suiteRoom { return suiteRoom{} }

type suiteRoom struct{}

func (suiteRoom) GetParticipant(livekit.ParticipantIdentity) *suiteParticipant {
	return &suiteParticipant{}
}

type suiteParticipant struct{}

func (*suiteParticipant) GetPublishedTracks() []suiteTrack     { return nil }
func (*suiteParticipant) GetPublishedDataTracks() []suiteTrack { return nil }

type suiteTrack struct{}

func (suiteTrack) IsSubscriber(livekit.ParticipantID) bool { return false }

func createSingleNodeServer(update func(*config.Config)) *suiteServer {
	settings, err := config.NewConfig("", true, nil, nil)
	if err != nil {
		panic(err)
	}
	if update != nil {
		update(settings)
	}
	roomClient = livekit.NewRoomServiceJSONClient(suiteURL, &http.Client{})
	return &suiteServer{settings: map[string]any{
		"auto_create":                 settings.Room.AutoCreate,
		"data_blobs":                  settings.EnableParticipantDataBlob,
		"max_data_blob_size":          settings.Limit.MaxDataBlobSize,
		"datachannel_slow_threshold":  settings.RTC.DatachannelSlowThreshold,
		"turn":                        settings.TURN.Enabled,
		"allow_restricted_peer_cidrs": settings.TURN.AllowRestrictedPeerCIDRs,
		"deny_peer_cidrs":             settings.TURN.DenyPeerCIDRs,
	}}
}

func waitForServerToStart(s *suiteServer) {
	body, err := json.Marshal(s.settings)
	if err != nil {
		panic(err)
	}
	response, err := http.Post(suiteURL+"/suite/server", "application/json", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		panic(fmt.Sprintf("the server did not start: %s", text))
	}
}

func startServer(update func(*config.Config)) *suiteServer {
	server := createSingleNodeServer(update)
	waitForServerToStart(server)
	return server
}

func setupSingleNodeTest(string) (*suiteServer, func()) {
	return startServer(nil), func() {}
}

func setupMultiNodeTest(name string) (*suiteServer, *suiteServer, func()) {
	return setupMultiNodeTestWithConfig(name, nil)
}

func setupMultiNodeTestWithConfig(_ string, update func(*config.Config)) (*suiteServer, *suiteServer, func()) {
	server := startServer(update)
	return server, server, func() {}
}
