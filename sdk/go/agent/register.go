package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	nodesPath       = "/api/v1/nodes/"
	registerTimeout = 10 * time.Second
	beatTimeout     = 5 * time.Second
	registerPause   = time.Second
)

// registration is what an agent says of itself.
type registration struct {
	ID              string            `json:"id"`
	BaseURL         string            `json:"base_url"`
	Version         string            `json:"version"`
	InstanceID      string            `json:"instance_id"`
	LifecycleStatus string            `json:"lifecycle_status"`
	DeploymentType  string            `json:"deployment_type"`
	Reasoners       []offer           `json:"reasoners"`
	Skills          []offer           `json:"skills"`
	Communication   map[string]any    `json:"communication_config"`
	Metadata        map[string]custom `json:"metadata"`
}

type custom struct {
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	SDK         string   `json:"sdk"`
}

// offer is one capability in a registration.
type offer struct {
	ID           string           `json:"id"`
	Description  string           `json:"description,omitempty"`
	Tags         []string         `json:"tags"`
	InputSchema  json.RawMessage  `json:"input_schema,omitempty"`
	OutputSchema json.RawMessage  `json:"output_schema,omitempty"`
	Examples     []map[string]any `json:"examples,omitempty"`
}

// touch is an agent's connection with the control plane, as long as it serves.
type touch struct {
	refused chan error
	stop    func()
}

// keepInTouch registers, and shows that the agent lives, until it is stopped.
func (a *Agent) keepInTouch(ctx context.Context, baseURL string) touch {
	ctx, cancel := context.WithCancel(ctx)
	refused, over := make(chan error, 1), make(chan struct{})
	registered := false
	go func() {
		defer close(over)
		a.live(ctx, baseURL, refused, &registered)
	}()
	return touch{refused: refused, stop: func() {
		cancel()
		<-over
		if registered {
			a.goodbye()
		}
	}}
}

// live is the whole life of a registration: register, be heard, and register again when the control plane has forgotten.
func (a *Agent) live(ctx context.Context, baseURL string, refused chan<- error, registered *bool) {
	known, heard, settled := false, true, false
	for ctx.Err() == nil {
		var err error
		pause := registerPause
		if known {
			pause, err = a.showLife(ctx)
		} else if err = a.register(ctx, baseURL); err == nil {
			a.log.Info("agent.registered", "agent", a.identity.id, "server", a.client.shown(), "url", baseURL)
			known, settled, *registered = true, false, true
			continue // the first sign of life follows at once
		}
		if ctx.Err() != nil {
			*registered = true // it may have been heard, so it says goodbye
			return
		}
		if err != nil && isFinal(err) && !*registered {
			refused <- err
			return
		}
		if isForgotten(err) && known {
			known = false
			if !settled { // it forgets us as soon as we register: not as often as it can
				_ = sleep(ctx, registerPause)
			}
			continue
		}
		settled = settled || err == nil
		if (err == nil) != heard {
			heard = err == nil
			a.logTouch(heard, err)
		}
		_ = sleep(ctx, pause)
	}
}

func (a *Agent) logTouch(heard bool, err error) {
	if heard {
		a.log.Info("agent.reconnected", "agent", a.identity.id, "server", a.client.shown())
		return
	}
	a.log.Warn("agent.unheard", "agent", a.identity.id, "server", a.client.shown(), "error", err)
}

func (a *Agent) register(ctx context.Context, baseURL string) error {
	body, err := json.Marshal(a.registration(baseURL))
	if err != nil {
		return fmt.Errorf("register %s: %w", a.identity.id, err)
	}
	sent := request{method: http.MethodPost, path: nodesPath + "register", body: body, timeout: registerTimeout}
	got, err := a.client.do(ctx, sent)
	if err != nil {
		return fmt.Errorf("register %s: %w", a.identity.id, err)
	}
	var told struct {
		Warnings []string `json:"warnings"`
	}
	if json.Unmarshal(got.body, &told) == nil && len(told.Warnings) > 0 {
		a.log.Warn("agent.registered.changed", "agent", a.identity.id, "warnings", told.Warnings)
	}
	return nil
}

func (a *Agent) registration(baseURL string) registration {
	a.mu.Lock()
	defer a.mu.Unlock()
	made := registration{
		ID: a.identity.id, BaseURL: baseURL, Version: a.identity.version, InstanceID: a.identity.instance,
		LifecycleStatus: "ready", DeploymentType: "long_running", Reasoners: []offer{}, Skills: []offer{},
		Communication: map[string]any{"protocols": []string{"http"}, "heartbeat_interval": a.manner.heartbeat.String()},
		Metadata: map[string]custom{"custom": {
			Description: a.identity.description, Tags: orEmpty(a.identity.tags), SDK: "go",
		}},
	}
	for _, one := range a.capabilities {
		offered := offer{
			ID: one.id, Description: one.description, Tags: orEmpty(one.tags), InputSchema: one.input,
			OutputSchema: one.output, Examples: one.examples,
		}
		if one.kind == reasoner {
			made.Reasoners = append(made.Reasoners, offered)
		} else {
			made.Skills = append(made.Skills, offered)
		}
	}
	return made
}

// showLife sends a heartbeat, or renews the lease, and returns how long to wait until the next.
func (a *Agent) showLife(ctx context.Context) (time.Duration, error) {
	sent := request{
		method: http.MethodPost, path: nodesPath + url.PathEscape(a.identity.id) + "/heartbeat", timeout: beatTimeout,
		body: []byte(`{"status":"ready"}`),
	}
	pause := a.manner.heartbeat
	if a.manner.lease {
		sent.method, sent.path = http.MethodPatch, nodesPath+url.PathEscape(a.identity.id)+"/status"
		sent.body = []byte(`{"phase":"ready"}`)
	}
	got, err := a.client.do(ctx, sent)
	if err != nil {
		return min(pause, 10*time.Second), err
	}
	if !a.manner.lease {
		return pause, nil
	}
	var lease struct {
		Seconds float64 `json:"lease_seconds"`
	}
	if err := decode("the lease", got.body, &lease); err != nil {
		return pause, err
	}
	if lease.Seconds <= 0 { // somebody said goodbye in our name: register again
		return pause, &APIError{Status: http.StatusNotFound, Code: "not_found", Message: "the lease has ended"}
	}
	return max(time.Duration(min(lease.Seconds, 3600)/3*float64(time.Second)), 100*time.Millisecond), nil
}

// goodbye says that the agent ends, unless another process has taken its place under the same id.
func (a *Agent) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), beatTimeout)
	defer cancel()
	path := nodesPath + url.PathEscape(a.identity.id)
	var known struct {
		InstanceID string `json:"instance_id"`
	}
	got, err := a.client.do(ctx, request{method: http.MethodGet, path: path})
	if err == nil && json.Unmarshal(got.body, &known) == nil && known.InstanceID != "" && known.InstanceID != a.identity.instance {
		a.log.Info("agent.replaced", "agent", a.identity.id)
		return
	}
	sent := request{method: http.MethodPost, path: path + "/shutdown", body: []byte(`{"reason":"shutdown"}`), repeat: true}
	if _, err := a.client.do(ctx, sent); err != nil && !isForgotten(err) {
		a.log.Warn("agent.goodbye.unheard", "agent", a.identity.id, "error", err)
		return
	}
	a.log.Info("agent.goodbye", "agent", a.identity.id)
}

// isFinal says whether trying again would be answered the same.
func isFinal(err error) bool {
	var refused *APIError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

func isForgotten(err error) bool {
	var refused *APIError
	return errors.As(err, &refused) && refused.Status == http.StatusNotFound
}
