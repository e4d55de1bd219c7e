package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The control plane lets a caller wait for 600 s.
const executeTimeout = 630 * time.Second

// ExecuteArgument is what [Agent.Execute] takes: a [context.Context], and an [ExecuteRequest]. Both have a method Err, and
// so one signature takes calls with and without a context; what has no such method does not compile.
type ExecuteArgument interface {
	Err() error
}

// ExecuteRequest is what is to be done, and by whom.
type ExecuteRequest struct {
	// Target is what discovery prints as invocation target.
	Target string
	// Input is what becomes a JSON object: a map, or a struct. Nil is an empty one.
	Input any
	// IdempotencyKey makes requests with the same key one execution; without one, every request is one of its own.
	IdempotencyKey string
	// Webhook is told of the end.
	Webhook *Webhook
	// RunID, SessionID and ActorID are for a call that belongs to something; inside a reasoner they come from its own call.
	RunID, SessionID, ActorID string
}

// Webhook is an address that is told of the end of an execution.
type Webhook struct {
	URL string `json:"url"`
	// Secret signs the message; it is never shown again.
	Secret  string            `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// String shows where it leads, and no secret.
func (w Webhook) String() string {
	if where, err := url.Parse(w.URL); err == nil {
		return "webhook to " + where.Scheme + "://" + where.Host
	}
	return "webhook"
}

// GoString is String.
func (w Webhook) GoString() string { return w.String() }

// Err says why the request cannot be sent, or nil.
func (r ExecuteRequest) Err() error {
	_, err := r.body()
	return err
}

func (r ExecuteRequest) body() ([]byte, error) {
	if r.Target == "" {
		return nil, errors.New("the request has no target")
	}
	input := json.RawMessage("{}")
	if r.Input != nil {
		encoded, err := json.Marshal(r.Input)
		if err != nil {
			return nil, fmt.Errorf("encode the input: %w", err)
		}
		if !bytes.Equal(encoded, []byte("null")) { // a nil map
			input = encoded
		}
	}
	if input[0] != '{' {
		return nil, fmt.Errorf("the input must become a JSON object, and becomes %s", shortly(treeOf(input)))
	}
	return json.Marshal(struct {
		Input   json.RawMessage `json:"input"`
		Webhook *Webhook        `json:"webhook,omitempty"`
	}{input, r.Webhook})
}

// Execute has a target run, and waits for its end. It takes an [ExecuteRequest], and a context before it if there is one.
// An execution that ended other than well comes with an [*APIError].
//
//	result, err := app.Execute(ctx, agent.ExecuteRequest{Target: target, Input: map[string]any{"query": query}})
//
// Inside a reasoner or skill, pass its context on: the call then belongs to the same run, survives a restart of the control
// plane, and is cancelled when the context ends. Elsewhere, when the context ends, only waiting does; see [Agent.Submit].
func (a *Agent) Execute(first ExecuteArgument, more ...ExecuteArgument) (*Execution, error) {
	ctx, wanted, err := requestOf(append([]ExecuteArgument{first}, more...))
	if err != nil {
		return nil, fmt.Errorf("execute: %w", err)
	}
	run := a.execute
	if call, _ := CallFrom(ctx); call.ExecutionID != "" {
		run = a.executeNested
	}
	done, err := run(ctx, wanted)
	if err != nil {
		return done, fmt.Errorf("execute %s: %w", wanted.Target, err)
	}
	return done, nil
}

// executeNested submits and waits, so that the id is known, and neither a crash of the control plane nor the end of what
// wants the result leaves anything behind.
func (a *Agent) executeNested(ctx context.Context, wanted ExecuteRequest) (*Execution, error) {
	accepted, err := a.submit(ctx, wanted, max(waitOutage, a.client.retryFor))
	if err != nil {
		return nil, err
	}
	done, err := a.wait(ctx, accepted.ExecutionID)
	if ctx.Err() != nil && (done == nil || !done.Ended()) {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		_ = a.Cancel(last, accepted.ExecutionID, "its parent has ended") // it may have ended, too
	}
	return done, err
}

func (a *Agent) execute(ctx context.Context, wanted ExecuteRequest) (*Execution, error) {
	wanted.IdempotencyKey = firstOf(wanted.IdempotencyKey, randomHex(16))
	got, err := a.post(ctx, "/api/v1/execute/", wanted)
	var refused *APIError
	switch {
	case err == nil:
		found, err := readExecution(got)
		if err != nil || found.Ended() {
			return outcome(found, err)
		}
		return a.wait(ctx, found.ExecutionID)
	case errors.As(err, &refused) && refused.Code == "timeout" && refused.ExecutionID != "":
		return a.wait(ctx, refused.ExecutionID) // it goes on, and so do we
	case errors.As(err, &refused) && refused.ExecutionID != "":
		found, _ := readExecution(got)
		return found, err
	case ctx.Err() != nil || a.client.retryFor <= 0 || (refused != nil && !isAway(refused.Status)):
		return nil, err
	}
	return a.resume(ctx, wanted, err)
}

// resume finds the execution of a request that got no answer again, by its key, and waits for it. A control plane that went
// away meanwhile is waited for as long as in [Agent.Wait]; one that was never reached, or is busy, as for every request.
func (a *Agent) resume(ctx context.Context, wanted ExecuteRequest, lost error) (*Execution, error) {
	outage := max(waitOutage, a.client.retryFor)
	var dialed *net.OpError
	var refused *APIError
	if errors.As(lost, &refused) || (errors.As(lost, &dialed) && dialed.Op == "dial") {
		outage = a.client.retryFor
	}
	accepted, err := a.submit(ctx, wanted, outage)
	if err != nil {
		return nil, err
	}
	return a.wait(ctx, accepted.ExecutionID) // one that has ended, too: a submission is answered without a result
}

func requestOf(arguments []ExecuteArgument) (context.Context, ExecuteRequest, error) {
	var given context.Context
	var wanted *ExecuteRequest
	for _, argument := range arguments {
		switch found := argument.(type) {
		case nil:
		case ExecuteRequest:
			if wanted != nil {
				return nil, found, errors.New("two requests were given")
			}
			wanted = &found
		case *ExecuteRequest:
			if found == nil || wanted != nil {
				return nil, ExecuteRequest{}, errors.New("one request is needed")
			}
			wanted = found
		case context.Context:
			if given != nil {
				return nil, ExecuteRequest{}, errors.New("two contexts were given")
			}
			given = found
		default:
			return nil, ExecuteRequest{}, fmt.Errorf("%T is neither a context nor a request", argument)
		}
	}
	if wanted == nil {
		return nil, ExecuteRequest{}, errors.New("a request is needed")
	}
	if given == nil {
		given = context.Background()
	}
	return given, *wanted, nil
}

// Submit has a target run, and does not wait. What it returns is on the disk of the control plane: it is not lost, and
// [Agent.Wait] waits for it. A request that got no answer is sent again, and still runs once.
func (a *Agent) Submit(ctx context.Context, wanted ExecuteRequest) (*Execution, error) {
	found, err := a.submit(ctx, wanted, 0)
	if err != nil {
		return nil, fmt.Errorf("submit %s: %w", wanted.Target, err)
	}
	return found, nil
}

func (a *Agent) submit(ctx context.Context, wanted ExecuteRequest, retryFor time.Duration) (*Execution, error) {
	wanted.IdempotencyKey = firstOf(wanted.IdempotencyKey, randomHex(16))
	got, err := a.post(ctx, "/api/v1/execute/async/", wanted, func(sent *request) {
		sent.repeat, sent.retryFor = true, retryFor
	})
	if err != nil {
		return nil, err
	}
	return readExecution(got)
}

func (a *Agent) post(ctx context.Context, path string, wanted ExecuteRequest, changes ...func(*request)) (*answer, error) {
	body, err := wanted.body()
	if err != nil {
		return nil, err
	}
	sent := request{
		method:  http.MethodPost,
		path:    path + url.PathEscape(wanted.Target),
		header:  passedOn(ctx, a.identity.id, wanted),
		body:    body,
		timeout: executeTimeout,
	}
	sent.header.Set("Idempotency-Key", wanted.IdempotencyKey)
	for _, change := range changes {
		change(&sent)
	}
	return a.client.do(ctx, sent)
}
