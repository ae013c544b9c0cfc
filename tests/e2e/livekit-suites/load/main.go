// A load tester on LiveKit's Go SDK: publishers send audio and a video of three layers, and subscribers count received packets. It prints
// one line of JSON. LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET select the server.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	"github.com/livekit/protocol/livekit"
	"github.com/livekit/protocol/logger"

	lksdk "github.com/livekit/server-sdk-go/v2"
)

const framesPerSecond = 30

// layers are a 720p camera's layers, in bits per second.
var layers = []struct {
	quality       livekit.VideoQuality
	width, height uint32
	bitrate       int
}{
	{livekit.VideoQuality_LOW, 320, 180, 150_000},
	{livekit.VideoQuality_MEDIUM, 640, 360, 500_000},
	{livekit.VideoQuality_HIGH, 1280, 720, 1_700_000},
}

// vp8 provides frames with a VP8 header and without decodable content: a key frame each second, and on request.
type vp8 struct {
	lksdk.BaseSampleProvider
	width, height uint32
	size, count   int
	wantsKeyFrame atomic.Bool
}

func (v *vp8) NextSample(context.Context) (media.Sample, error) {
	data := make([]byte, v.size)
	for index := range data {
		data[index] = byte(index)
	}
	isKeyFrame := v.wantsKeyFrame.Swap(false) || v.count%framesPerSecond == 0
	v.count++
	data[0] = 0x11
	if isKeyFrame {
		header := []byte{0x10, 0, 0, 0x9d, 0x01, 0x2a, byte(v.width), byte(v.width >> 8), byte(v.height), byte(v.height >> 8)}
		copy(data, header)
	}
	return media.Sample{Data: data, Duration: time.Second / framesPerSecond}, nil
}

func (v *vp8) handle(packet rtcp.Packet) {
	if _, ok := packet.(*rtcp.PictureLossIndication); ok {
		v.wantsKeyFrame.Store(true)
	}
}

// counts are a received track's counters. A retransmitted packet counts once.
type counts struct {
	packets     map[uint64]struct{}
	first, last uint64
}

type result struct {
	Expected int `json:"expected"`
	Received int `json:"received"`
	Packets  int `json:"packets"`
	Lost     int `json:"lost"`
}

type receivers struct {
	lock   sync.Mutex
	tracks []*counts
}

// read records the sequence numbers of a track's packets.
func (r *receivers) read(track *webrtc.TrackRemote) {
	of := &counts{packets: map[uint64]struct{}{}}
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		r.lock.Lock()
		if len(of.packets) == 0 {
			r.tracks = append(r.tracks, of)
			of.first = uint64(packet.SequenceNumber) + 1<<16
			of.last = of.first
		}
		// Extends the 16-bit number to the value nearest to the last one.
		number := of.last + uint64(int64(int16(packet.SequenceNumber-uint16(of.last))))
		of.first, of.last = min(of.first, number), max(of.last, number)
		of.packets[number] = struct{}{}
		r.lock.Unlock()
	}
}

func (r *receivers) result(expected int) result {
	r.lock.Lock()
	defer r.lock.Unlock()
	all := result{Expected: expected, Received: len(r.tracks)}
	for _, of := range r.tracks {
		all.Packets += len(of.packets)
		all.Lost += int(of.last-of.first) + 1 - len(of.packets)
	}
	return all
}

func connect(room, identity string, all *receivers) (*lksdk.Room, error) {
	callback := &lksdk.RoomCallback{ParticipantCallback: lksdk.ParticipantCallback{
		OnTrackSubscribed: func(track *webrtc.TrackRemote, _ *lksdk.RemoteTrackPublication, _ *lksdk.RemoteParticipant) {
			go all.read(track)
		},
	}}
	return lksdk.ConnectToRoom(os.Getenv("LIVEKIT_URL"), lksdk.ConnectInfo{
		APIKey:              os.Getenv("LIVEKIT_API_KEY"),
		APISecret:           os.Getenv("LIVEKIT_API_SECRET"),
		RoomName:            room,
		ParticipantIdentity: identity,
	}, callback)
}

func publish(room *lksdk.Room) error {
	opus := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2}
	sound, err := lksdk.NewLocalTrack(opus)
	if err != nil {
		return err
	}
	quiet := lksdk.NewNullSampleProvider(32_000)
	sound.OnBind(func() { _ = sound.StartWrite(quiet, nil) })
	options := &lksdk.TrackPublicationOptions{Name: "sound", Source: livekit.TrackSource_MICROPHONE}
	if _, err := room.LocalParticipant.PublishTrack(sound, options); err != nil {
		return err
	}
	var tracks []*lksdk.LocalTrack
	for _, layer := range layers {
		frames := &vp8{width: layer.width, height: layer.height, size: layer.bitrate / 8 / framesPerSecond}
		of := &livekit.VideoLayer{
			Quality: layer.quality, Width: layer.width, Height: layer.height, Bitrate: uint32(layer.bitrate),
		}
		codec := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90000}
		track, err := lksdk.NewLocalTrack(codec, lksdk.WithSimulcast("camera", of), lksdk.WithRTCPHandler(frames.handle))
		if err != nil {
			return err
		}
		track.OnBind(func() { _ = track.StartWrite(frames, nil) })
		tracks = append(tracks, track)
	}
	options = &lksdk.TrackPublicationOptions{Name: "camera", Source: livekit.TrackSource_CAMERA}
	_, err = room.LocalParticipant.PublishSimulcastTrack(tracks, options)
	return err
}

func run(publishers, subscribers int, isMeeting bool, duration time.Duration) (result, error) {
	all := &receivers{}
	// A lone publisher only sends.
	var ignored receivers
	name := fmt.Sprintf("load-%d-%d", publishers, subscribers)
	expected := 2 * publishers * subscribers
	var rooms []*lksdk.Room
	defer func() {
		for _, room := range rooms {
			room.Disconnect()
		}
	}()
	if isMeeting {
		expected = 2 * publishers * (publishers - 1)
		subscribers = 0
	}
	for number := range publishers + subscribers {
		counted := all
		if number < publishers && !isMeeting {
			counted = &ignored
		}
		room, err := connect(name, fmt.Sprintf("load-%d", number), counted)
		if err != nil {
			return result{}, err
		}
		rooms = append(rooms, room)
	}
	for _, room := range rooms[:publishers] {
		if err := publish(room); err != nil {
			return result{}, err
		}
	}
	time.Sleep(duration)
	return all.result(expected), nil
}

func main() {
	publishers := flag.Int("publishers", 1, "how many participants publish")
	subscribers := flag.Int("subscribers", 1, "how many participants only receive")
	isMeeting := flag.Bool("meeting", false, "the publishers receive each other, and there are no subscribers")
	duration := flag.Duration("duration", 20*time.Second, "how long after the last track is published")
	flag.Parse()
	lksdk.SetLogger(logger.GetDiscardLogger())
	found, err := run(*publishers, *subscribers, *isMeeting, *duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}
