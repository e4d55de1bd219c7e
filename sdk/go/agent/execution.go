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
	executionsPath = "/api/v1/executions/"
	waitSeconds    = 30
	// waitOutage is how long the control plane may be away while an accepted execution is waited for.
	waitOutage = 60 * time.Second
	shortest   = 100 * time.Millisecond
	breath     = 250 * time.Millisecond
)

// Execution is one run of one reasoner or skill, as far as it is.
type Execution struct {
	ExecutionID       string `json:"execution_id"`
	RunID             string `json:"run_id,omitempty"`
	WorkflowID        string `json:"workflow_id,omitempty"`
	ParentExecutionID string `json:"parent_execution_id,omitempty"`
	// Status is queued, running, succeeded, failed, cancelled or timeout.
	Status string `json:"status"`
	Target string `json:"target,omitempty"`
	NodeID string `json:"node_id,omitempty"`
	Type   string `json:"type,omitempty"`

	CreatedAt         time.Time `json:"created_at,omitzero"`
	EnqueuedAt        time.Time `json:"enqueued_at,omitzero"`
	StartedAt         time.Time `json:"started_at,omitzero"`
	CompletedAt       time.Time `json:"completed_at,omitzero"`
	FinishedAt        time.Time `json:"finished_at,omitzero"`
	DurationMS        float64   `json:"duration_ms,omitempty"`
	WebhookRegistered bool      `json:"webhook_registered"`

	// Result is any JSON, as it came; see Decode.
	Result       json.RawMessage `json:"result,omitempty"`
	Error        string          `json:"error,omitempty"`
	ErrorMessage string          `json:"error_message,omitempty"`
	StatusReason string          `json:"status_reason,omitempty"`
	ErrorDetails json.RawMessage `json:"error_details,omitempty"`

	// Freshness says of which request this is.
	Freshness Freshness `json:"-"`
}

// Ended says whether the execution has ended, well or not.
func (e *Execution) Ended() bool {
	switch e.Status {
	case "succeeded", "failed", "cancelled", "timeout":
		return true
	}
	return false
}

// Decode reads the result into a variable of yours.
func (e *Execution) Decode(into any) error {
	result := e.Result
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if err := json.Unmarshal(result, into); err != nil {
		return fmt.Errorf("decode the result of %s: %w", e.ExecutionID, err)
	}
	return nil
}

// String returns the result as JSON, or how far the execution is.
func (e *Execution) String() string {
	switch {
	case e == nil:
		return ""
	case len(e.Result) > 0:
		return string(e.Result)
	default:
		return fmt.Sprintf("execution %s: %s", e.ExecutionID, e.Status)
	}
}

// Execution asks how far an execution is.
func (a *Agent) Execution(ctx context.Context, id string) (*Execution, error) {
	return a.ask(ctx, id, request{})
}

// Wait waits for the end of an execution, also while the control plane is away for up to a minute. An execution that ended
// other than well comes with an [*APIError]. When the context ends, the execution goes on; see [Agent.Cancel].
func (a *Agent) Wait(ctx context.Context, id string) (*Execution, error) {
	found, err := a.wait(ctx, id)
	if err != nil {
		return found, fmt.Errorf("wait: %w", err)
	}
	return found, nil
}

func (a *Agent) wait(ctx context.Context, id string) (*Execution, error) {
	asked := request{
		query:    fmt.Sprintf("wait=%d", waitSeconds),
		timeout:  waitSeconds*time.Second + quickly,
		retryFor: max(waitOutage, a.client.retryFor),
	}
	for {
		begin := time.Now()
		found, err := a.ask(ctx, id, asked)
		if err != nil || found.Ended() {
			return outcome(found, err)
		}
		if time.Since(begin) < shortest { // a server that does not know wait=
			if err := sleep(ctx, breath); err != nil {
				return nil, err
			}
		}
	}
}

// Cancel ends an execution. The agent that works on it is told. One that has ended is an [*APIError] with the code
// invalid_state.
func (a *Agent) Cancel(ctx context.Context, id, reason string) error {
	body, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return err
	}
	path := executionsPath + url.PathEscape(id) + "/cancel"
	if _, err := a.client.do(ctx, request{method: http.MethodPost, path: path, body: body}); err != nil {
		return fmt.Errorf("cancel %s: %w", id, err)
	}
	return nil
}

func (a *Agent) ask(ctx context.Context, id string, asked request) (*Execution, error) {
	asked.method, asked.path, asked.repeat = http.MethodGet, executionsPath+url.PathEscape(id), true
	got, err := a.client.do(ctx, asked)
	if err != nil {
		return nil, err
	}
	return readExecution(got)
}

func readExecution(got *answer) (*Execution, error) {
	var found Execution
	if err := decode("the execution", got.body, &found); err != nil {
		return nil, err
	}
	if found.ExecutionID == "" || found.Status == "" {
		return nil, errors.New("decode the execution: $: has no execution_id, or no status")
	}
	found.Freshness = freshnessOf(got, time.Time{})
	return &found, nil
}

// outcome returns an end that was no success as the error it is, beside the execution.
func outcome(found *Execution, err error) (*Execution, error) {
	if err != nil || found.Status == "succeeded" {
		return found, err
	}
	failed := &APIError{
		Status:      endStatus(found),
		Code:        firstOf(found.StatusReason, found.Status),
		Message:     firstOf(found.ErrorMessage, found.Error, found.Status),
		RequestID:   found.Freshness.RequestID,
		ExecutionID: found.ExecutionID,
	}
	var details any
	if json.Unmarshal(found.ErrorDetails, &details) == nil && details != nil {
		fields, ok := details.(map[string]any)
		if !ok {
			fields = map[string]any{"error_details": details}
		}
		failed.Details = fields
	}
	return found, failed
}

// endStatus returns the status that a caller would have got who had waited on the request itself.
func endStatus(found *Execution) int {
	var details struct {
		Status int `json:"status"`
	}
	if json.Unmarshal(found.ErrorDetails, &details) == nil && details.Status/100 == 4 {
		return details.Status
	}
	switch {
	case found.StatusReason == "agent_unknown":
		return http.StatusNotFound
	case found.StatusReason == "agent_unreachable":
		return http.StatusServiceUnavailable
	case found.Status == "timeout":
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
