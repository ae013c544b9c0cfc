// A client of LiveKit's Go SDK, with the page's actions that the scenarios use: it reads commands from standard input and
// writes results to standard output, as lines of JSON. Its argument is the folder of the published videos.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/livekit/protocol/logger"

	lksdk "github.com/livekit/server-sdk-go/v2"
)

// options are the options of all actions.
type options struct {
	URL, Token        string
	Single            bool
	Codec             string
	Simulcast         bool
	Identity, Quality string
}

type command struct {
	Number  int
	Action  string
	Options options
}

type result struct {
	Number int    `json:"number"`
	Value  any    `json:"value"`
	Error  string `json:"error,omitempty"`
}

func main() {
	lksdk.SetLogger(logger.GetDiscardLogger())
	of := &client{videos: os.Args[1]}
	actions := map[string]func(options) (any, error){
		"join": of.join, "publish": of.publish, "stats": of.stats, "quality": of.quality, "leave": of.leave,
	}
	written := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var told command
		done := result{}
		err := json.Unmarshal(lines.Bytes(), &told)
		done.Number = told.Number
		if action, ok := actions[told.Action]; err == nil && ok {
			done.Value, err = action(told.Options)
		} else if err == nil {
			err = fmt.Errorf("there is no such action")
		}
		if err != nil {
			done.Error = err.Error()
		}
		if err := written.Encode(done); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
