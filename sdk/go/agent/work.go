package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"
)

// ErrCancelled is why the context of a reasoner or skill ended when its execution was cancelled: see [context.Cause].
var ErrCancelled = errors.New("the execution was cancelled")

var (
	errDrained     = errors.New("the agent has ended")
	errDisconnects = errors.New("the caller has gone")
)

// work is what an agent is at work on.
type work struct {
	mu      sync.Mutex
	running map[*job]bool
	idle    []chan struct{}
}

// job is one call that is being answered, from its beginning until its result is delivered.
type job struct {
	call   Call
	cancel context.CancelCauseFunc
	done   chan result
}

// result is how a job ended: an encoded value, or an error.
type result struct {
	value    json.RawMessage
	err      error
	cause    error
	duration time.Duration
}

func newWork() *work { return &work{running: map[*job]bool{}} }

// begin starts a job, unless its execution is being worked on already.
func (w *work) begin(call Call, run func(context.Context) (any, error)) *job {
	ctx, cancel := context.WithCancelCause(withCall(context.Background(), call))
	made := &job{call: call, cancel: cancel, done: make(chan result, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for other := range w.running {
		if call.ExecutionID != "" && other.call.ExecutionID == call.ExecutionID {
			cancel(nil)
			return nil
		}
	}
	w.running[made] = true
	go func() { made.done <- outcomeOf(ctx, run) }()
	return made
}

func (w *work) end(ended *job) {
	ended.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, ended)
	if len(w.running) == 0 {
		for _, waiting := range w.idle {
			close(waiting)
		}
		w.idle = nil
	}
}

// cancel ends the context of an execution's job, and says whether there is one.
func (w *work) cancel(executionID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for found := range w.running {
		if found.call.ExecutionID == executionID {
			found.cancel(ErrCancelled)
			return true
		}
	}
	return false
}

func (w *work) cancelAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for found := range w.running {
		found.cancel(cause)
	}
}

// drained returns a channel that is closed when there is nothing left to do.
func (w *work) drained() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := make(chan struct{})
	if len(w.running) == 0 {
		close(waiting)
	} else {
		w.idle = append(w.idle, waiting)
	}
	return waiting
}

func outcomeOf(ctx context.Context, run func(context.Context) (any, error)) result {
	begin := time.Now()
	value, err := guarded(ctx, run)
	ended := result{err: err, cause: context.Cause(ctx), duration: time.Since(begin)}
	if err == nil {
		if ended.value, err = json.Marshal(value); err != nil {
			ended.err = fmt.Errorf("the result cannot be sent: %w", err)
		}
	}
	return ended
}

// guarded turns a panic into an error: one bad call must not end the agent.
func guarded(ctx context.Context, run func(context.Context) (any, error)) (value any, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = &panicked{fmt.Sprint(caught), debug.Stack()}
		}
	}()
	return run(ctx)
}

type panicked struct {
	said  string
	stack []byte
}

func (p *panicked) Error() string { return "it panicked: " + p.said }

// report is the body that tells the control plane of an end.
type report struct {
	Status          string          `json:"status"`
	Result          json.RawMessage `json:"result,omitempty"`
	Error           string          `json:"error,omitempty"`
	ErrorDetails    any             `json:"error_details,omitempty"`
	ErrorStatusCode int             `json:"error_status_code,omitempty"`
	StatusReason    string          `json:"status_reason,omitempty"`
	DurationMS      int64           `json:"duration_ms"`
	CompletedAt     time.Time       `json:"completed_at"`
	ExecutionID     string          `json:"execution_id"`
	Reasoner        string          `json:"reasoner"`
}

func reportOf(call Call, ended result) report {
	made := report{
		Status:      "succeeded",
		Result:      ended.value,
		DurationMS:  ended.duration.Milliseconds(),
		CompletedAt: time.Now().UTC(),
		ExecutionID: call.ExecutionID,
		Reasoner:    call.Capability,
	}
	if ended.err == nil {
		return made
	}
	made.Status, made.Result, made.Error = "failed", nil, ended.err.Error()
	if errors.Is(ended.cause, ErrCancelled) {
		made.Status, made.StatusReason = "cancelled", "cancelled"
	}
	var refused *Refusal
	if errors.As(ended.err, &refused) {
		made.ErrorStatusCode, made.ErrorDetails = refused.status(), refused.Details
	}
	return made
}

// deliver tells the control plane of an end, however long it is away, until the context ends. Not being heard is an error;
// being refused is one, too, and final.
func (a *Agent) deliver(ctx context.Context, call Call, ended result) error {
	told := reportOf(call, ended)
	err := a.send(ctx, told)
	var refused *APIError
	if errors.As(err, &refused) && refused.Status == http.StatusRequestEntityTooLarge && ended.err == nil {
		told.Status, told.Result, told.Error = "failed", nil, "the result is too large for the control plane"
		return a.send(ctx, told)
	}
	return err
}

func (a *Agent) send(ctx context.Context, told report) error {
	body, err := json.Marshal(told)
	if err != nil { // the details of a refusal can be anything
		told.ErrorDetails = nil
		if body, err = json.Marshal(told); err != nil {
			return err
		}
	}
	path := executionsPath + url.PathEscape(told.ExecutionID) + "/status"
	// The first end wins, so that telling it again changes nothing.
	_, err = a.client.do(ctx, request{method: http.MethodPost, path: path, body: body, repeat: true, retryFor: forever})
	return err
}
