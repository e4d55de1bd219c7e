package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAWrongRequestIsNotSent(t *testing.T) {
	server := newPlane(t, nil)
	ctx := within(t, time.Minute)
	good := ExecuteRequest{Target: "a:b"}
	for _, one := range []struct {
		arguments []ExecuteArgument
		want      string
	}{
		{[]ExecuteArgument{ctx}, "a request is needed"},
		{[]ExecuteArgument{nil}, "a request is needed"},
		{[]ExecuteArgument{ctx, good, good}, "two requests"},
		{[]ExecuteArgument{ctx, ctx, good}, "two contexts"},
		{[]ExecuteArgument{(*ExecuteRequest)(nil)}, "one request"},
		{[]ExecuteArgument{ExecuteRequest{}}, "no target"},
		{[]ExecuteArgument{ExecuteRequest{Target: "a:b", Input: 7}}, "becomes 7"},
		{[]ExecuteArgument{ExecuteRequest{Target: "a:b", Input: make(chan int)}}, "encode the input"},
	} {
		_, err := server.app().Execute(one.arguments[0], one.arguments[1:]...)
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: got %v", one.want, err)
		}
	}
	if len(server.got("")) != 0 {
		t.Error("something was sent")
	}
}

func TestAnyInputThatBecomesAnObjectIsSent(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) {
		_, _ = io.WriteString(w, `{"execution_id":"exec_1","status":"succeeded","result":"x"}`)
	})
	for _, input := range []any{nil, map[string]any(nil), map[string]int{"n": 1}, struct{ N int }{1}, &struct{}{}} {
		result, err := server.app().Execute(ExecuteRequest{Target: "a b/c:skill:d", Input: input})
		if err != nil || result.String() != `"x"` {
			t.Errorf("%v: got %v, %v", input, result, err)
		}
	}
	for _, one := range server.got("") {
		if _, isObject := one.body["input"].(map[string]any); !isObject || one.path != "/api/v1/execute/a%20b%2Fc:skill:d" {
			t.Errorf("sent %+v", one)
		}
	}
}

func TestACallInsideACallBelongsToIt(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) {
		_, _ = io.WriteString(w, `{"execution_id":"exec_2","status":"succeeded"}`)
	})
	ctx := withCall(context.Background(), Call{ExecutionID: "exec_1", RunID: "run_1", SessionID: "s", ActorID: "me", RootWorkflowID: "run_0"})

	if _, err := server.app(WithID("writer")).Execute(ctx, ExecuteRequest{Target: "a:b"}); err != nil {
		t.Fatal(err)
	}

	sent := server.got("")[0]
	if sent.path != "/api/v1/execute/async/a:b" || sent.header.Get("Idempotency-Key") == "" {
		t.Errorf("sent %+v", sent)
	}
	got := sent.header
	for name, want := range map[string]string{
		"X-Run-ID": "run_1", "X-Workflow-ID": "run_1", "X-Parent-Execution-ID": "exec_1", "X-Session-ID": "s", "X-Actor-ID": "me",
		"X-Caller-Agent-ID": "writer", "X-Root-Workflow-ID": "run_0", "X-Parent-Workflow-ID": "run_1", "X-Execution-ID": "",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q", name, got.Get(name))
		}
	}
}

func TestACallInsideACallEndsWithIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(withCall(context.Background(), Call{ExecutionID: "exec_1"}))
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.method == http.MethodGet {
			cancel(ErrCancelled)
			<-r.gone
			return
		}
		_, _ = io.WriteString(w, `{"execution_id":"exec_2","status":"running"}`)
	})

	_, err := server.app().Execute(ctx, ExecuteRequest{Target: "a:b"})

	if !errors.Is(err, ErrCancelled) || len(server.got("/exec_2/cancel")) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestAnExecutionThatFailedComesWithItsError(t *testing.T) {
	body := `{"execution_id":"exec_1","status":"failed","error":"boom","status_reason":"agent_error","error_details":{"status":418}}`
	for name, call := range map[string]func(*Agent) (*Execution, error){
		"execute": func(app *Agent) (*Execution, error) { return app.Execute(ExecuteRequest{Target: "a:b"}) },
		"wait":    func(app *Agent) (*Execution, error) { return app.Wait(context.Background(), "exec_1") },
	} {
		server := newPlane(t, func(w http.ResponseWriter, r seen) {
			w.Header().Set("X-Request-ID", "req_1")
			if r.method == http.MethodPost {
				w.WriteHeader(418)
			}
			_, _ = io.WriteString(w, body)
		})

		found, err := call(server.app())

		var failed *APIError
		if !errors.As(err, &failed) || found == nil || found.Error != "boom" {
			t.Fatalf("%s: got %v, %v", name, found, err)
		}
		if failed.Status != 418 || failed.Code != "agent_error" || failed.Message != "boom" || failed.ExecutionID != "exec_1" ||
			failed.RequestID != "req_1" || failed.Details["status"] != 418.0 {
			t.Errorf("%s: got %+v", name, failed)
		}
	}
}

func TestWaitGoesOnUntilTheEndAndThroughAnOutage(t *testing.T) {
	states := []string{"queued", "", "", "running", "succeeded"}
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		state := states[r.number-1]
		if state == "" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"execution_id":"exec_1","status":%q,"result":{"n":1}}`, state)
	})

	found, err := server.app(WithRetryFor(0)).Wait(context.Background(), "exec_1")

	var result struct{ N int }
	if err != nil || found.Decode(&result) != nil || result.N != 1 || len(server.got("")) != len(states) {
		t.Errorf("got %v, %v after %d", found, err, len(server.got("")))
	}
}

func TestExecuteThatWaitedTooLongAsksForTheExecution(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.method == http.MethodPost {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"error":"timeout","message":"not yet","details":{"execution_id":"exec_1"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"execution_id":"exec_1","status":"succeeded","result":2}`)
	})

	result, err := server.app().Execute(ExecuteRequest{Target: "a:b", IdempotencyKey: "k"})

	if err != nil || result.String() != "2" || len(server.got("/a:b")) != 1 {
		t.Errorf("got %v, %v", result, err)
	}
}

func TestAWebhookShowsNoSecret(t *testing.T) {
	hook := Webhook{URL: "https://example.com/path?token=hush", Secret: "hush"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb+verb, hook, &hook); strings.Contains(text, "hush") {
			t.Errorf("%s: %s", verb, text)
		}
	}
}
