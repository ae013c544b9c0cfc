package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/livekit/protocol/livekit"
	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	lksdk "github.com/livekit/server-sdk-go/v2"
)

// framesPerSecond is the frame rate of the videos, which have a key frame each second.
const framesPerSecond = 15

var mimeTypes = map[string]string{
	"vp8": webrtc.MimeTypeVP8, "vp9": webrtc.MimeTypeVP9, "av1": webrtc.MimeTypeAV1,
	"h264": webrtc.MimeTypeH264, "h265": webrtc.MimeTypeH265,
}

// sizes are the sizes of the layers.
var sizes = []struct {
	quality       livekit.VideoQuality
	width, height int
}{
	{livekit.VideoQuality_LOW, 160, 90},
	{livekit.VideoQuality_MEDIUM, 320, 180},
	{livekit.VideoQuality_HIGH, 640, 360},
}

// layer repeats the frames of a video. After a request for a key frame it continues at the next one.
type layer struct {
	lksdk.BaseSampleProvider
	height        int
	frames        [][]byte
	next          int
	wantsKeyFrame atomic.Bool
	sent          atomic.Int64
}

func (l *layer) NextSample(context.Context) (media.Sample, error) {
	if l.wantsKeyFrame.Swap(false) {
		l.next = (l.next + framesPerSecond - 1) / framesPerSecond * framesPerSecond
	}
	frame := l.frames[l.next%len(l.frames)]
	l.next = (l.next + 1) % len(l.frames)
	l.sent.Add(1)
	return media.Sample{Data: frame, Duration: time.Second / framesPerSecond}, nil
}

func (l *layer) handle(packet rtcp.Packet) {
	switch packet.(type) {
	case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
		l.wantsKeyFrame.Store(true)
	}
}

// publish sends a video, with simulcast layers or without.
func (c *client) publish(of options) (any, error) {
	codec := webrtc.RTPCodecCapability{MimeType: mimeTypes[of.Codec], ClockRate: 90_000}
	chosen := sizes
	if !of.Simulcast {
		chosen = sizes[len(sizes)-1:]
	}
	var tracks []*lksdk.LocalTrack
	for _, size := range chosen {
		frames, err := read(filepath.Join(c.videos, fmt.Sprintf("%s-%d", of.Codec, size.height)), of.Codec)
		if err != nil {
			return nil, err
		}
		sent := &layer{height: size.height, frames: frames}
		with := []lksdk.LocalTrackOptions{lksdk.WithRTCPHandler(sent.handle)}
		if of.Simulcast {
			described := &livekit.VideoLayer{Quality: size.quality, Width: uint32(size.width), Height: uint32(size.height)}
			with = append(with, lksdk.WithSimulcast("camera", described))
		}
		track, err := lksdk.NewLocalTrack(codec, with...)
		if err != nil {
			return nil, err
		}
		track.OnBind(func() { _ = track.StartWrite(sent, nil) })
		c.layers, tracks = append(c.layers, sent), append(tracks, track)
	}
	best := chosen[len(chosen)-1]
	described := &lksdk.TrackPublicationOptions{
		Name: "camera", Source: livekit.TrackSource_CAMERA, VideoWidth: best.width, VideoHeight: best.height,
	}
	var err error
	if of.Simulcast {
		_, err = c.room.LocalParticipant.PublishSimulcastTrack(tracks, described)
	} else {
		_, err = c.room.LocalParticipant.PublishTrack(tracks[0], described)
	}
	return nil, err
}
