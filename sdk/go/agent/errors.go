package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

const longestSaid = 300

// APIError is every error that a control plane answers with, and every execution that ended other than well.
//
//	var failed *agent.APIError
//	if errors.As(err, &failed) && failed.Code == "not_found" { ... }
type APIError struct {
	// Status is the status of the answer, such as 404.
	Status int
	// Code is the word for programs: invalid_parameter, not_found, ...; for an execution, why it ended so: agent_error,
	// agent_timeout, ...
	Code string
	// Message is the sentence for people, as the control plane, or the agent, has it.
	Message string
	// RequestID finds the request in the log of the control plane.
	RequestID string
	// Details is what else was said: the parameter, what is allowed, what comes nearest, the schema.
	Details map[string]any
	// ExecutionID is the execution that the error is about, or "".
	ExecutionID string
}

// Error says all of it on one line, but the details.
func (e *APIError) Error() string {
	var text strings.Builder
	if e.ExecutionID != "" {
		fmt.Fprintf(&text, "execution %s: ", e.ExecutionID)
	}
	fmt.Fprintf(&text, "control plane answers %d", e.Status)
	for _, part := range []struct{ before, said string }{{" ", e.Code}, {": ", e.Message}} {
		if part.said != "" {
			text.WriteString(part.before + part.said)
		}
	}
	if e.RequestID != "" {
		fmt.Fprintf(&text, " (request %s)", e.RequestID)
	}
	return text.String()
}

// newAPIError reads an error out of any body at all.
func newAPIError(got *answer, hide func(string) string) *APIError {
	made := &APIError{Status: got.status, RequestID: got.header.Get("X-Request-ID")}
	var fields map[string]any
	if json.Unmarshal(got.body, &fields) != nil || fields == nil {
		made.Message = hide(plainly(got))
		return made
	}
	told := func(name string) string { text, _ := fields[name].(string); return text }
	if told("message") != "" {
		made.Code, made.Message = told("error"), told("message")
	} else {
		made.Code, made.Message = told("status_reason"), firstOf(told("error_message"), told("error"), told("detail"))
	}
	made.ExecutionID = executionIDIn(got.body)
	made.RequestID = firstOf(made.RequestID, told("request_id"))
	made.Message = hide(firstOf(made.Message, told("status"), http.StatusText(got.status)))
	made.Code = hide(made.Code)
	for _, name := range []string{"details", "error_details"} {
		if found, ok := hidden(fields[name], hide).(map[string]any); ok {
			made.Details = found
		} else if fields[name] != nil {
			made.Details = map[string]any{name: hidden(fields[name], hide)}
		}
	}
	return made
}

// plainly returns the beginning of a body that is no JSON object: of a proxy, or of something that is no control plane.
func plainly(got *answer) string {
	if to := got.header.Get("Location"); got.status/100 == 3 && to != "" {
		return "redirects are not followed; use the address itself"
	}
	text := strings.Map(func(char rune) rune {
		if unicode.IsPrint(char) {
			return char
		}
		return ' '
	}, string(got.body[:min(len(got.body), 4*longestSaid)]))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return firstOf(string(runes[:min(len(runes), longestSaid)]), http.StatusText(got.status))
}

// hidden returns a JSON value with every text in it shown to hide.
func hidden(value any, hide func(string) string) any {
	switch found := value.(type) {
	case string:
		return hide(found)
	case []any:
		for place, item := range found {
			found[place] = hidden(item, hide)
		}
	case map[string]any:
		for name, item := range found {
			found[name] = hidden(item, hide)
		}
	}
	return value
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
