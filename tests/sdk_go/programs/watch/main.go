// Watch prints every change as a line of JSON. Its argument is a pattern for agents; a second one is how many
// milliseconds it takes over each change.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/Agent-Field/agentfield/sdk/go/agent"
)

func main() {
	pause := time.Duration(0)
	if len(os.Args) > 2 {
		milliseconds, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		pause = time.Duration(milliseconds) * time.Millisecond
	}
	printer := json.NewEncoder(os.Stdout)
	agent.NewAgent().Watch(context.Background(), agent.WithAgent(os.Args[1]))(func(change agent.Change, err error) bool {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		if err := printer.Encode(change); err != nil {
			return false
		}
		time.Sleep(pause)
		return true
	})
}
