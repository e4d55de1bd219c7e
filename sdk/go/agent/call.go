package agent

import (
	"context"
	"net/http"
)

// Call is what a reasoner or skill knows of the call it answers.
type Call struct {
	// AgentID and Capability are who was called.
	AgentID, Capability string
	// ExecutionID is this execution; "" for a call that did not come through a control plane.
	ExecutionID string
	// RunID holds together all executions of one wish.
	RunID string
	// ParentExecutionID is the execution that wanted this one, or "".
	ParentExecutionID string
	// CallerAgentID is the agent that wanted it, or "".
	CallerAgentID string
	// SessionID and ActorID are what the first caller said, or "".
	SessionID, ActorID string
	// RootWorkflowID is the run that everything began with, or "".
	RootWorkflowID string
}

type callKey struct{}

// CallFrom returns what is known of the call that a context belongs to, and whether it belongs to one.
func CallFrom(ctx context.Context) (Call, bool) {
	call, found := ctx.Value(callKey{}).(Call)
	return call, found
}

func withCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

func callOf(header http.Header, agentID, capability string) Call {
	return Call{
		AgentID:           agentID,
		Capability:        capability,
		ExecutionID:       header.Get("X-Execution-ID"),
		RunID:             firstOf(header.Get("X-Run-ID"), header.Get("X-Workflow-ID")),
		ParentExecutionID: header.Get("X-Parent-Execution-ID"),
		CallerAgentID:     header.Get("X-Caller-Agent-ID"),
		SessionID:         header.Get("X-Session-ID"),
		ActorID:           header.Get("X-Actor-ID"),
		RootWorkflowID:    header.Get("X-Root-Workflow-ID"),
	}
}

// passedOn returns the headers by which a call that is made inside another belongs to it.
func passedOn(ctx context.Context, agentID string, wanted ExecuteRequest) http.Header {
	call, _ := CallFrom(ctx)
	header := http.Header{}
	for name, value := range map[string]string{
		"X-Run-ID":              firstOf(wanted.RunID, call.RunID),
		"X-Workflow-ID":         firstOf(wanted.RunID, call.RunID),
		"X-Parent-Execution-ID": call.ExecutionID,
		"X-Session-ID":          firstOf(wanted.SessionID, call.SessionID),
		"X-Actor-ID":            firstOf(wanted.ActorID, call.ActorID),
		"X-Caller-Agent-ID":     firstOf(agentID, call.AgentID),
		"X-Root-Workflow-ID":    firstOf(call.RootWorkflowID, call.RunID),
		"X-Parent-Workflow-ID":  call.RunID,
	} {
		if value != "" {
			header.Set(name, value)
		}
	}
	return header
}
