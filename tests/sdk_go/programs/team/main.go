// Team is an agent that calls others, works until it is told to stop, and writes down what it was called for. Its id is
// the first argument, the file to write to the second.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Agent-Field/agentfield/sdk/go/agent"
)

type errand struct {
	Target string         `json:"target"`
	Input  map[string]any `json:"input,omitempty"`
}

type marked struct {
	Mark string `json:"mark"`
	Gate string `json:"gate,omitempty"`
}

type worked struct {
	File string `json:"file"`
}

var (
	app  *agent.Agent
	lock sync.Mutex
)

func main() {
	app = agent.NewAgent(agent.WithID(os.Args[1]), agent.WithHeartbeat(500*time.Millisecond))
	agent.RegisterReasoner(app, "relay", relay)
	agent.RegisterReasoner(app, "trace", trace)
	agent.RegisterReasoner(app, "later", later)
	agent.RegisterReasoner(app, "work", work)
	agent.RegisterReasoner(app, "fail", func(context.Context, struct{}) (any, error) { return nil, errors.New("the kettle is empty") })
	agent.RegisterReasoner(app, "refuse", func(context.Context, struct{}) (any, error) { return nil, agent.Refuse(409, "not now") })
	agent.RegisterReasoner(app, "panics", func(context.Context, struct{}) (any, error) { panic("oh") })
	agent.RegisterSkill(app, "shout", func(_ context.Context, in marked) (string, error) { return strings.ToUpper(in.Mark), nil })
	agent.RegisterSkill(app, "slowly", later)
	agent.RegisterSkill(app, "trace_skill", trace)
	if err := app.Run(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended well")
}

// relay has somebody else do it, and tells what both knew of their calls.
func relay(ctx context.Context, in errand) (map[string]any, error) {
	here, err := trace(ctx, struct{}{})
	if err != nil {
		return nil, err
	}
	done, err := app.Execute(ctx, agent.ExecuteRequest{Target: in.Target, Input: in.Input})
	if err != nil {
		return nil, err
	}
	var result any
	if err := done.Decode(&result); err != nil {
		return nil, err
	}
	return map[string]any{"here": here, "there": result}, nil
}

func trace(ctx context.Context, _ struct{}) (map[string]string, error) {
	call, _ := agent.CallFrom(ctx)
	return map[string]string{
		"id": call.ExecutionID, "run": call.RunID, "parent": call.ParentExecutionID, "caller": call.CallerAgentID,
		"session": call.SessionID,
	}, nil
}

// later writes down that it was called, and waits for the file that is its gate.
func later(ctx context.Context, in marked) (string, error) {
	call, _ := agent.CallFrom(ctx)
	lock.Lock()
	file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(file, call.ExecutionID)
		file.Close()
	}
	lock.Unlock()
	return in.Mark, errors.Join(err, opened(ctx, in.Gate))
}

func opened(ctx context.Context, gate string) error {
	for gate != "" {
		if _, err := os.Stat(gate); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// work goes on until there is a second file, or until it is cancelled.
func work(ctx context.Context, in worked) (string, error) {
	if err := os.WriteFile(in.File, []byte("begun"), 0o600); err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(in.File + ".end"); err == nil {
			return "done", nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), os.WriteFile(in.File, []byte("cancelled"), 0o600))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
