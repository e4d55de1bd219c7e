package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

const page = `{"discovered_at":"2026-11-15T10:30:00Z","total_agents":0,"capabilities":[]}`

func TestAnAgentWithoutArgumentsGoesByTheEnvironment(t *testing.T) {
	for _, one := range []struct{ server, want string }{
		{"", "http://localhost:8080"},
		{"http://plane.example:9000/", "http://plane.example:9000"},
		{"https://user:pass@plane.example/below/", "https://user:xxxxx@plane.example/below"},
	} {
		t.Setenv("AGENTFIELD_SERVER", one.server)
		if got := NewAgent().client.shown(); got != one.want {
			t.Errorf("%q: got %s, want %s", one.server, got, one.want)
		}
	}
}

func TestAnAddressThatCannotBeOneIsSaidByTheFirstCallWithoutRepeatingIt(t *testing.T) {
	for _, server := range []string{"localhost:8080", "ftp://secret@x", "http://", "http://a b", "://"} {
		_, err := NewAgent(WithServer(server)).Discover()
		if err == nil || !strings.Contains(err.Error(), "must be like http://localhost:8080") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// flaky breaks the connection, or is away, for a number of times.
func flaky(times int, how func(w http.ResponseWriter), answer string) func(http.ResponseWriter, seen) {
	left := make(chan struct{}, times)
	for range times {
		left <- struct{}{}
	}
	return func(w http.ResponseWriter, _ seen) {
		select {
		case <-left:
			how(w)
		default:
			_, _ = io.WriteString(w, answer)
		}
	}
}

func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func away(w http.ResponseWriter) {
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"error":"service_unavailable","message":"The database does not answer."}`)
}

func failedRun(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, `{"execution_id":"exec_1","status":"failed","error":"boom","status_reason":"agent_error"}`)
}

func TestWhatMayBeSentTwiceIsAndNothingElse(t *testing.T) {
	done := `{"execution_id":"exec_1","status":"succeeded","result":1}`
	execute := func(key string) func(*Agent) error {
		return func(app *Agent) error {
			_, err := app.Execute(ExecuteRequest{Target: "a:b", IdempotencyKey: key})
			return err
		}
	}
	discover := func(app *Agent) error { _, err := app.Discover(); return err }
	submit := func(app *Agent) error {
		_, err := app.Submit(context.Background(), ExecuteRequest{Target: "a:b"})
		return err
	}
	cancel := func(app *Agent) error { return app.Cancel(context.Background(), "exec_1", "") }
	for name, one := range map[string]struct {
		call  func(*Agent) error
		how   func(http.ResponseWriter)
		body  string
		times int
		well  bool
	}{
		"a read through broken connections":     {discover, hangUp, page, 3, true},
		"a read while the server is away":       {discover, away, page, 3, true},
		"an execution, which gets its own key":  {execute(""), hangUp, done, 3, true},
		"an execution while the server is away": {execute(""), away, done, 3, true},
		"an execution with a key, broken":       {execute("k"), hangUp, done, 3, true},
		"an execution with a key, away":         {execute("k"), away, done, 3, true},
		"an execution with a key that failed":   {execute("k"), failedRun, done, 1, false},
		"a submission, which gets its own key":  {submit, hangUp, done, 3, true},
		"a cancellation, which is not repeated": {cancel, hangUp, done, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := newPlane(t, flaky(one.times, one.how, one.body))

			err := one.call(server.app())

			if (err == nil) != one.well {
				t.Fatalf("got %v", err)
			}
			wanted := 1
			if one.well {
				wanted = one.times + 1
			}
			if asked := len(server.got("")) - len(server.got("/executions/exec_1")); asked != wanted {
				t.Errorf("asked %d times, want %d", asked, wanted)
			}
		})
	}
}

func TestEveryAttemptOfACallHasTheSameKey(t *testing.T) {
	for name, call := range map[string]func(*Agent) (*Execution, error){
		"submit": func(app *Agent) (*Execution, error) {
			return app.Submit(context.Background(), ExecuteRequest{Target: "a:b"})
		},
		"execute": func(app *Agent) (*Execution, error) { return app.Execute(ExecuteRequest{Target: "a:b"}) },
	} {
		server := newPlane(t, flaky(2, hangUp, `{"execution_id":"exec_1","status":"succeeded"}`))

		if _, err := call(server.app()); err != nil {
			t.Fatal(err)
		}

		keys := map[string]bool{}
		for _, one := range server.got("/a:b") {
			keys[one.header.Get("Idempotency-Key")] = true
		}
		if len(keys) != 1 || keys[""] {
			t.Errorf("%s: keys: %v", name, keys)
		}
	}
}

func TestWhoNeverRetriesGetsTheErrorAtOnce(t *testing.T) {
	server := newPlane(t, flaky(1, hangUp, `{"execution_id":"exec_1","status":"succeeded"}`))

	_, err := server.app(WithRetryFor(0)).Execute(ExecuteRequest{Target: "a:b"})

	if err == nil || len(server.got("")) != 1 {
		t.Errorf("asked %d times: %v", len(server.got("")), err)
	}
}

func TestRetriesEndAfterTheirTimeAndWithTheContext(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) { away(w) })

	if _, err := server.app(WithRetryFor(0)).Discover(); err == nil || len(server.got("")) != 1 {
		t.Errorf("without retries: %v after %d", err, len(server.got("")))
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := server.app(WithRetryFor(time.Hour)).Discover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestAnErrorSaysWhatTheServerSaid(t *testing.T) {
	for name, one := range map[string]struct {
		status int
		body   string
		want   APIError
		text   string
	}{
		"as everywhere": {
			400, `{"error":"invalid_parameter","message":"Invalid limit","details":{"parameter":"limit"},"request_id":"req_2"}`,
			APIError{Code: "invalid_parameter", Message: "Invalid limit", RequestID: "req_1"},
			"discover: control plane answers 400 invalid_parameter: Invalid limit (request req_1)",
		},
		"as AgentField":  {404, `{"error":"node not found"}`, APIError{Message: "node not found"}, "answers 404: node not found"},
		"of a proxy":     {502, "<html>\n<h1>Bad   Gateway</h1>", APIError{Message: "<html> <h1>Bad Gateway</h1>"}, "answers 502: <html>"},
		"nothing at all": {500, "", APIError{Message: "Internal Server Error"}, "answers 500: Internal Server Error"},
		"odd types":      {400, `{"error":{"a":1},"message":7,"details":[1]}`, APIError{Message: "Bad Request"}, "Bad Request"},
		"a list":         {400, `[1,2]`, APIError{Message: "[1,2]"}, "[1,2]"},
		"a redirect":     {307, "", APIError{Message: "redirects are not followed; use the address itself"}, "not followed"},
		"the key itself": {401, `{"error":"unauthorized","message":"open-sesame is wrong","details":{"x":["open-sesame"]}}`,
			APIError{Code: "unauthorized", Message: "[hidden] is wrong"}, "[hidden] is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newPlane(t, func(w http.ResponseWriter, _ seen) {
				w.Header().Set("X-Request-ID", "req_1")
				w.Header().Set("Location", "http://elsewhere.example/")
				w.WriteHeader(one.status)
				_, _ = io.WriteString(w, one.body)
			})

			_, err := server.app(WithRetryFor(0)).Discover()

			var got *APIError
			if !errors.As(err, &got) {
				t.Fatalf("got %T %v", err, err)
			}
			if got.Status != one.status || got.Code != one.want.Code || got.Message != one.want.Message || got.RequestID != "req_1" {
				t.Errorf("got %+v", got)
			}
			if !strings.Contains(err.Error(), one.text) || strings.Contains(fmt.Sprintf("%+v", got), "open-sesame") {
				t.Errorf("says %s", err)
			}
		})
	}
}

func TestTheKeyIsSentAndNeverShown(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) { _, _ = io.WriteString(w, page) })
	var said bytes.Buffer
	app := server.app(WithID("shy"), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))

	if _, err := app.Discover(); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%q", "%x"} {
		fmt.Fprintf(&said, verb, app)
		fmt.Fprintf(&said, verb, app.client)
	}
	_, err := NewAgent(WithServer("http://127.0.0.1:1"), WithAPIKey("open-sesame"), WithRetryFor(0)).Discover()
	fmt.Fprintf(&said, "%v %+v", err, err)
	_, err = server.app(WithAPIKey("open-sesame\n")).Discover()
	fmt.Fprintf(&said, "%v %+v", err, err)

	if key := server.got("")[0].header.Get("X-API-Key"); key != "open-sesame" {
		t.Errorf("sent %q", key)
	}
	if strings.Contains(said.String(), "open-sesame") || strings.Contains(said.String(), fmt.Sprintf("%x", "open-sesame")) {
		t.Errorf("said %s", said.String())
	}
}

func TestARedirectIsNotFollowedSoThatNobodyElseGetsTheKey(t *testing.T) {
	other := newPlane(t, nil)
	server := newPlane(t, func(w http.ResponseWriter, _ seen) {
		w.Header().Set("Location", other.URL+discoveryPath)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})

	_, err := server.app(WithHTTPClient(http.DefaultClient)).Discover()

	if err == nil || len(other.got("")) != 0 {
		t.Errorf("got %v, and the other was asked %d times", err, len(other.got("")))
	}
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	server := newPlane(t, func(http.ResponseWriter, seen) { <-release })
	defer close(release)

	_, err := server.app().client.do(context.Background(), request{method: "GET", path: "/x", timeout: 10 * time.Millisecond})

	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 10ms") {
		t.Errorf("got %v", err)
	}
}
