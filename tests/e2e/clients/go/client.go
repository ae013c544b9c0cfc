package main

import (
	"fmt"
	"sync"

	"github.com/livekit/protocol/livekit"
	"github.com/pion/webrtc/v4"

	lksdk "github.com/livekit/server-sdk-go/v2"
)

var qualities = map[string]livekit.VideoQuality{
	"LOW": livekit.VideoQuality_LOW, "MEDIUM": livekit.VideoQuality_MEDIUM, "HIGH": livekit.VideoQuality_HIGH,
}

// client is in at most one room.
type client struct {
	videos string
	room   *lksdk.Room
	layers []*layer

	// lock guards the received tracks, by participant and kind.
	lock     sync.Mutex
	received map[string]*receivedTrack
}

type receivedTrack struct {
	sid    string
	frames frames
}

func (c *client) join(of options) (any, error) {
	if _, err := c.leave(of); err != nil {
		return nil, err
	}
	c.received = map[string]*receivedTrack{}
	callback := &lksdk.RoomCallback{ParticipantCallback: lksdk.ParticipantCallback{OnTrackSubscribed: c.subscribed}}
	var chosen []lksdk.ConnectOption
	if of.Single {
		chosen = append(chosen, lksdk.WithSinglePeerConnection())
	}
	room, err := lksdk.ConnectToRoomWithToken(of.URL, of.Token, callback, chosen...)
	if err != nil {
		return nil, err
	}
	c.room = room
	return map[string]string{"sid": room.LocalParticipant.SID()}, nil
}

func (c *client) subscribed(track *webrtc.TrackRemote, publication *lksdk.RemoteTrackPublication, from *lksdk.RemoteParticipant) {
	received := &receivedTrack{sid: publication.SID(), frames: newFrames(track.Codec())}
	c.lock.Lock()
	c.received[fmt.Sprintf("%s %s", from.Identity(), publication.Kind())] = received
	c.lock.Unlock()
	go func() {
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			c.lock.Lock()
			isBroken := received.frames.add(packet)
			c.lock.Unlock()
			if isBroken {
				from.WritePLI(track.SSRC())
			}
		}
	}()
}

// quality requests a layer of a participant's videos.
func (c *client) quality(of options) (any, error) {
	from := c.room.GetParticipantByIdentity(of.Identity)
	if from == nil {
		return nil, fmt.Errorf("%s is not there", of.Identity)
	}
	for _, publication := range from.TrackPublications() {
		if remote, ok := publication.(*lksdk.RemoteTrackPublication); ok && remote.Kind() == lksdk.TrackKindVideo {
			if err := remote.SetVideoQuality(qualities[of.Quality]); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// inbound and outbound have the field names of the page's counters.
type inbound struct {
	TrackSid      string `json:"trackSid"`
	FramesDecoded int    `json:"framesDecoded"`
	FreezeCount   int    `json:"freezeCount"`
	PacketsLost   int    `json:"packetsLost"`
}

type outbound struct {
	Kind        string `json:"kind"`
	FramesSent  int64  `json:"framesSent"`
	FrameHeight int    `json:"frameHeight"`
}

func (c *client) stats(options) (any, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	in, out := map[string]inbound{}, []outbound{}
	for name, track := range c.received {
		in[name] = inbound{track.sid, track.frames.whole, track.frames.broken, track.frames.lost}
	}
	for _, layer := range c.layers {
		out = append(out, outbound{"video", layer.sent.Load(), layer.height})
	}
	return map[string]any{"inbound": in, "outbound": out}, nil
}

func (c *client) leave(options) (any, error) {
	if c.room != nil {
		c.room.Disconnect()
	}
	c.room, c.layers = nil, nil
	return nil, nil
}
