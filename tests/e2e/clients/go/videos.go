package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pion/webrtc/v4/pkg/media/h264reader"
	"github.com/pion/webrtc/v4/pkg/media/h265reader"
	"github.com/pion/webrtc/v4/pkg/media/ivfreader"
)

// part reads the next part of a video, and returns whether a frame ends with it.
type part func() (data []byte, isLast bool, err error)

// read returns the frames of a video.
func read(file, codec string) ([][]byte, error) {
	video, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	next, err := parts(bytes.NewReader(video), codec)
	if err != nil {
		return nil, err
	}
	var frames [][]byte
	var frame []byte
	for {
		data, isLast, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		frame = append(frame, data...)
		if isLast {
			frames, frame = append(frames, frame), nil
		}
	}
	if len(frames) == 0 || len(frames)%framesPerSecond != 0 {
		return nil, fmt.Errorf("%s has %d frames, which are no whole seconds", file, len(frames))
	}
	return frames, nil
}

// parts are frames, or the NAL units of frames with one slice, which is their last unit.
func parts(video io.Reader, codec string) (part, error) {
	switch codec {
	case "h264":
		reader, err := h264reader.NewReader(video)
		return func() ([]byte, bool, error) {
			unit, err := reader.NextNAL()
			if err != nil {
				return nil, false, err
			}
			isSlice := unit.UnitType >= h264reader.NalUnitTypeCodedSliceNonIdr && unit.UnitType <= h264reader.NalUnitTypeCodedSliceIdr
			return withStartCode(unit.Data), isSlice, nil
		}, err
	case "h265":
		reader, err := h265reader.NewReader(video)
		return func() ([]byte, bool, error) {
			unit, err := reader.NextNAL()
			if err != nil {
				return nil, false, err
			}
			// Types below 32 are slices (VCL NAL units).
			return withStartCode(unit.Data), unit.NalUnitType < 32, nil
		}, err
	default:
		reader, _, err := ivfreader.NewWith(video)
		return func() ([]byte, bool, error) {
			frame, _, err := reader.ParseNextFrame()
			return frame, true, err
		}, err
	}
}

func withStartCode(unit []byte) []byte {
	return append([]byte{0, 0, 0, 1}, unit...)
}
