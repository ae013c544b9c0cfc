package main

import (
	"strings"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"
)

// patience is the wait for a lost packet in units of the video clock: the longest wait of decoders.
const patience = 90_000

// frames counts a track's complete frames. The Go SDK has no decoder; it requests lost packets again and delivers the
// retransmissions. The server renumbers the packets for each subscriber. A gap in the sequence is a loss, either on the way to the
// subscriber, or on the way from the publisher to the server, which then cannot know whether the subscriber needs the packet. A frame's last
// packet has the marker. Thus a frame is complete if all packets from its first one to the marker arrived.
type frames struct {
	// startsFrame reports whether a frame can start with a video payload.
	startsFrame func([]byte) bool
	// whole is the number of complete frames, broken of incomplete ones, and lost of packets that were given up.
	whole, broken, lost int

	hasBegun bool
	// waiting contains the packets after the missing packet `next`.
	waiting      map[uint64]*rtp.Packet
	next, newest uint64
	// timestamp is the current frame's, which isBroken if packets of it are missing.
	timestamp uint32
	isBroken  bool
}

func newFrames(codec webrtc.RTPCodecParameters) frames {
	depacketizers := map[string]rtp.Depacketizer{
		webrtc.MimeTypeVP8: &codecs.VP8Packet{}, webrtc.MimeTypeVP9: &codecs.VP9Packet{}, webrtc.MimeTypeH264: &codecs.H264Packet{},
		webrtc.MimeTypeH265: &codecs.H265Depacketizer{}, webrtc.MimeTypeAV1: &codecs.AV1Depacketizer{},
	}
	for mime, depacketizer := range depacketizers {
		if strings.EqualFold(mime, codec.MimeType) {
			return frames{startsFrame: depacketizer.IsPartitionHead}
		}
	}
	return frames{startsFrame: func([]byte) bool { return true }}
}

// add counts a packet, and returns whether a frame proves to be broken.
func (f *frames) add(packet *rtp.Packet) bool {
	if !f.hasBegun {
		f.hasBegun, f.timestamp = true, packet.Timestamp
		f.isBroken = !f.startsFrame(packet.Payload)
		f.waiting = map[uint64]*rtp.Packet{}
		f.next = uint64(packet.SequenceNumber) + 1<<16
		f.newest = f.next
	}
	number := f.newest + uint64(int64(int16(packet.SequenceNumber-uint16(f.newest))))
	// A retransmission can arrive twice, or too late.
	if number < f.next {
		return false
	}
	f.newest = max(f.newest, number)
	f.waiting[number] = packet
	before := f.broken
	f.take(false)
	if len(f.waiting) > 0 && int32(f.waiting[f.newest].Timestamp-f.timestamp) > patience {
		for f.waiting[f.next] == nil {
			f.next++
			f.lost++
		}
		f.take(true)
	}
	return f.broken > before
}

// take advances to the next missing packet.
func (f *frames) take(isBehindGap bool) {
	for packet := f.waiting[f.next]; packet != nil; packet = f.waiting[f.next] {
		delete(f.waiting, f.next)
		f.next++
		if packet.Timestamp != f.timestamp {
			f.timestamp = packet.Timestamp
			f.isBroken = isBehindGap && !f.startsFrame(packet.Payload)
		} else if isBehindGap {
			f.isBroken = true
		}
		isBehindGap = false
		if !packet.Marker {
			continue
		}
		if f.isBroken {
			f.broken++
		} else {
			f.whole++
		}
		f.isBroken = false
	}
}
