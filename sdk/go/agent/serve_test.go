package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type given struct {
	Text string `json:"text"`
}

// serving starts an agent, and returns what ends it and tells how it ended.
func serving(t *testing.T, app *Agent) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("it did not end")
			return nil
		}
	}
}

// call sends an execution to an agent as a control plane does.
func call(t *testing.T, url, path, id, body string) (int, map[string]any) {
	t.Helper()
	sent, err := http.NewRequest(http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	sent.Header.Set("Content-Type", "application/json")
	if id != "" {
		sent.Header.Set("X-Execution-ID", id)
		sent.Header.Set("X-Run-ID", "run_1")
	}
	received, err := http.DefaultClient.Do(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer received.Body.Close()
	text, _ := io.ReadAll(received.Body)
	var document any
	_ = json.Unmarshal(text, &document)
	if fields, ok := document.(map[string]any); ok {
		return received.StatusCode, fields
	}
	return received.StatusCode, map[string]any{"value": document}
}

func echo(_ context.Context, in given) (string, error) { return in.Text, nil }

func TestAnAgentRegistersShowsThatItLivesAndSaysGoodbye(t *testing.T) {
	server := newPlane(t, nil)
	app := server.app(WithID("com.example/a"), WithVersion("2.0.0"), WithAbout("An agent", "lab"), WithHeartbeat(100*time.Millisecond))
	RegisterReasoner(app, "think", echo, Description("Thinks"), Tags("a", "b"), Example("one", given{"x"}))
	RegisterSkill(app, "look", echo, InputSchema(`{"type":"object"}`), OutputSchema(map[string]any{"type": "string"}))
	stop := serving(t, app)
	eventually(t, "three heartbeats", func() bool { return len(server.got("/com.example%2Fa/heartbeat")) >= 3 })

	if err := stop(); err != nil {
		t.Fatal(err)
	}

	sent := server.got("/nodes/register")
	if len(sent) != 1 || len(server.got("/com.example%2Fa/shutdown")) != 1 {
		t.Fatalf("registered %d times", len(sent))
	}
	body := sent[0].body
	for _, name := range []string{"base_url", "instance_id"} {
		if body[name] == "" {
			t.Errorf("no %s", name)
		}
		delete(body, name)
	}
	text, _ := json.Marshal(body)
	same(t, "registration", text, json.RawMessage(`{"id":"com.example/a","version":"2.0.0","lifecycle_status":"ready",
		"deployment_type":"long_running","communication_config":{"protocols":["http"],"heartbeat_interval":"100ms"},
		"metadata":{"custom":{"description":"An agent","tags":["lab"],"sdk":"go"}},
		"reasoners":[{"id":"think","description":"Thinks","tags":["a","b"],"output_schema":{"type":"string"},
			"input_schema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},
			"examples":[{"name":"one","input":{"text":"x"}}]}],
		"skills":[{"id":"look","tags":[],"input_schema":{"type":"object"},"output_schema":{"type":"string"}}]}`))
}

func TestAnAgentThatIsForgottenRegistersAgain(t *testing.T) {
	server := newPlane(t, flakyBeats(1))
	stop := serving(t, server.app(WithID("a"), WithHeartbeat(100*time.Millisecond)))

	eventually(t, "a second registration", func() bool { return len(server.got("/register")) == 2 && len(server.got("/heartbeat")) > 2 })

	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAControlPlaneThatForgetsAtOnceIsNotPressed(t *testing.T) {
	server := newPlane(t, flakyBeats(1<<20))
	stop := serving(t, server.app(WithID("a"), WithHeartbeat(100*time.Millisecond)))
	pressed := time.NewTimer(300 * time.Millisecond) // enough for hundreds
	<-pressed.C

	if err := stop(); err != nil {
		t.Error(err)
	}

	if times := len(server.got("/register")); times == 0 || times > 50 {
		t.Errorf("registered %d times", times)
	}
}

func flakyBeats(times int) func(http.ResponseWriter, seen) {
	var left atomic.Int32
	left.Store(int32(times))
	return func(w http.ResponseWriter, r seen) {
		if strings.HasSuffix(r.path, "/heartbeat") && left.Add(-1) >= 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		well(w, r)
	}
}

func TestAnAgentWaitsForAControlPlaneThatComesLater(t *testing.T) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	probe.Close()
	stop := serving(t, NewAgent(WithServer("http://"+address), WithID("early"), quiet()))

	heard := make(chan struct{}, 10)
	late := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/register") {
			heard <- struct{}{}
			w.WriteHeader(http.StatusCreated)
		}
	})}
	go func() { _ = late.ListenAndServe() }()
	defer late.Close()

	select {
	case <-heard:
	case <-time.After(20 * time.Second):
		t.Fatal("it did not register")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAnAgentThatIsRefusedSaysWhy(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized","message":"invalid or missing API key"}`)
	})

	err := server.app(WithID("a")).Serve(within(t, 20*time.Second))

	var refused *APIError
	if !errors.As(err, &refused) || refused.Status != 401 || !strings.HasPrefix(err.Error(), "serve: register a: ") {
		t.Errorf("got %v", err)
	}
}

func TestALeaseIsRenewedInThePlaceOfHeartbeats(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.number == 2 { // the first renewal
			_, _ = io.WriteString(w, `{"lease_seconds":0}`) // somebody said goodbye in its name
			return
		}
		_, _ = io.WriteString(w, `{"lease_seconds":0.3}`)
	})
	stop := serving(t, server.app(WithID("a"), WithLease()))

	eventually(t, "three renewals", func() bool { return len(server.got("/nodes/a/status")) >= 3 })

	if err := stop(); err != nil {
		t.Error(err)
	}
	if len(server.got("/register")) != 2 || len(server.got("/heartbeat")) != 0 || server.got("/status")[0].method != "PATCH" {
		t.Errorf("registered %d times", len(server.got("/register")))
	}
}

func TestOneWhosePlaceWasTakenDoesNotSayGoodbye(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.method == http.MethodGet {
			_, _ = io.WriteString(w, `{"instance_id":"the next process"}`)
			return
		}
		well(w, r)
	})
	stop := serving(t, server.app(WithID("a")))
	eventually(t, "a heartbeat", func() bool { return len(server.got("/heartbeat")) > 0 })

	if err := stop(); err != nil || len(server.got("/shutdown")) != 0 {
		t.Errorf("got %v", err)
	}
}

// answeringAgent is an agent behind an HTTP server of its own, with capabilities of every kind.
func answeringAgent(t *testing.T, server *plane, options ...Option) (*Agent, string) {
	t.Helper()
	app := server.app(append([]Option{WithID("a")}, options...)...)
	RegisterReasoner(app, "think", echo)
	RegisterReasoner(app, "fail", func(context.Context, given) (any, error) { return nil, errors.New("the kettle is empty") })
	RegisterReasoner(app, "refuse", func(context.Context, given) (any, error) {
		return nil, &Refusal{Status: 409, Message: "not now", Details: map[string]any{"when": "later"}}
	})
	RegisterReasoner(app, "panics", func(context.Context, given) (any, error) { panic("oh") })
	RegisterReasoner(app, "nan", func(context.Context, given) (any, error) { return math.NaN(), nil })
	RegisterReasoner(app, "until cancelled", func(ctx context.Context, _ given) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
	RegisterSkill(app, "look", echo)
	RegisterSkill(app, "fail", func(context.Context, given) (any, error) { return nil, errors.New("boom") })
	RegisterSkill(app, "refuse", func(context.Context, given) (any, error) { return nil, Refuse(404, "no tea") })
	RegisterSkill(app, "refuse_by_hand", func(context.Context, given) (any, error) { return nil, &Refusal{Message: "no tea"} })
	RegisterSkill(app, "whose", func(ctx context.Context, _ given) (any, error) { found, _ := CallFrom(ctx); return found, nil })
	behind := httptest.NewServer(app.Handler())
	t.Cleanup(behind.Close)
	return app, behind.URL
}

func TestASkillAnswersAtOnce(t *testing.T) {
	server := newPlane(t, nil)
	_, url := answeringAgent(t, server)
	for _, one := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/skills/look", `{"text":"x"}`, 200, `{"value":"x"}`},
		{"/skills/fail", `{}`, 500, `{"error":"agent_error","message":"boom"}`},
		{"/skills/refuse", ``, 404, `{"error":"refused","message":"no tea"}`},
		{"/skills/refuse_by_hand", `{}`, 400, `{"error":"refused","message":"no tea"}`},
		{"/skills/look", `{"text":7}`, 422, `{"error":"invalid_input","message":"decode the input: $.text: is 7 in the place of a text"}`},
		{"/skills/look", `[`, 422, `{"error":"invalid_input","message":"decode the input: not JSON at byte 1: unexpected end of JSON input"}`},
		{"/skills/nothing", `{}`, 404, `{"error":"not_found","message":"there is no skill \"nothing\""}`},
		{"/nothing", `{}`, 404, `{"error":"not_found","message":"there is nothing at this path"}`},
	} {
		for _, id := range []string{"exec_1", ""} {
			status, got := call(t, url, one.path, id, one.body)
			if status != one.status {
				t.Errorf("%s: got %d", one.path, status)
			}
			same(t, one.path, []byte(one.want), got)
		}
	}
	_, got := call(t, url, "/skills/whose", "exec_7", `{}`)
	if got["ExecutionID"] != "exec_7" || got["RunID"] != "run_1" || got["Capability"] != "whose" || got["AgentID"] != "a" {
		t.Errorf("got %v", got)
	}
	if len(server.got("/status")) != 0 {
		t.Error("something was reported")
	}
}

func TestAPageInABrowserCannotCallAnAgent(t *testing.T) {
	_, url := answeringAgent(t, newPlane(t, nil))
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		received, err := http.Post(url+"/skills/look", kind, strings.NewReader(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		received.Body.Close()
		if received.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%q: got %d", kind, received.StatusCode)
		}
	}
}

func TestAReasonerSaysThatItIsAtWorkAndReports(t *testing.T) {
	server := newPlane(t, nil)
	_, url := answeringAgent(t, server)
	for _, one := range []struct{ path, want string }{
		{"think", `{"status":"succeeded","result":"x"}`},
		{"fail", `{"status":"failed","error":"the kettle is empty"}`},
		{"refuse", `{"status":"failed","error":"not now","error_status_code":409,"error_details":{"when":"later"}}`},
		{"panics", `{"status":"failed","error":"it panicked: oh"}`},
		{"nan", `{"status":"failed","error":"the result cannot be sent: json: unsupported value: NaN"}`},
	} {
		id := "exec_" + one.path
		if status, _ := call(t, url, "/reasoners/"+one.path, id, `{"text":"x"}`); status != 202 {
			t.Errorf("%s: got %d", one.path, status)
		}
		eventually(t, one.path, func() bool { return len(server.got(id+"/status")) == 1 })
		got := server.got(id + "/status")[0].body
		if got["execution_id"] != id || got["reasoner"] != one.path || got["completed_at"] == nil {
			t.Errorf("%s: got %v", one.path, got)
		}
		for _, name := range []string{"execution_id", "reasoner", "completed_at", "duration_ms"} {
			delete(got, name)
		}
		same(t, one.path, []byte(one.want), got)
	}
}

func TestACancellationEndsTheContext(t *testing.T) {
	server := newPlane(t, nil)
	_, url := answeringAgent(t, server)
	for range 2 { // sent twice, run once
		if status, _ := call(t, url, "/reasoners/until%20cancelled", "exec_1", `{}`); status != 202 {
			t.Fatalf("got %d", status)
		}
	}

	if _, got := call(t, url, "/_internal/executions/exec_1/cancel", "", `{}`); got["cancelled"] != true {
		t.Errorf("got %v", got)
	}

	eventually(t, "a report", func() bool { return len(server.got("/exec_1/status")) == 1 })
	if got := server.got("/status")[0].body; got["status"] != "cancelled" || got["error"] != ErrCancelled.Error() {
		t.Errorf("got %v", got)
	}
	eventually(t, "nothing left", func() bool {
		_, got := call(t, url, "/_internal/executions/exec_1/cancel", "", `{}`)
		return got["cancelled"] == false
	})
}

func TestAReportIsSentUntilTheControlPlaneIsBack(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.number <= 2 {
			panic(http.ErrAbortHandler)
		}
		switch r.number {
		case 3:
			w.WriteHeader(http.StatusInternalServerError)
		case 4:
			away(w)
		}
	})
	app, url := answeringAgent(t, server, WithRetryFor(0))

	call(t, url, "/reasoners/think", "exec_1", `{"text":"x"}`)

	<-app.work.drained()
	if got := server.got("/exec_1/status"); len(got) != 5 || got[4].body["result"] != "x" {
		t.Errorf("told %d times", len(got))
	}
}

func TestAReportThatIsRefusedIsNotRepeatedAndOneTooLargeSaysSo(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		switch {
		case r.body["status"] == "succeeded" && strings.Contains(r.path, "exec_1"):
			w.WriteHeader(http.StatusNotFound)
		case r.body["status"] == "succeeded":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	app, url := answeringAgent(t, server)
	call(t, url, "/reasoners/think", "exec_1", `{"text":"x"}`)
	<-app.work.drained()
	if len(server.got("/exec_1/status")) != 1 {
		t.Errorf("told %d times", len(server.got("/exec_1/status")))
	}

	call(t, url, "/reasoners/think", "exec_2", `{"text":"x"}`)
	<-app.work.drained()
	if got := server.got("/exec_2/status"); len(got) != 2 || got[1].body["error"] != "the result is too large for the control plane" {
		t.Errorf("got %+v", got)
	}
}

func TestASkillThatTakesLongIsReportedInThePlaceOfItsAnswer(t *testing.T) {
	server := newPlane(t, nil)
	app, url := answeringAgent(t, server)
	app.manner.patience = time.Millisecond
	release := make(chan struct{})
	RegisterSkill(app, "slow", func(context.Context, given) (string, error) { <-release; return "done", nil })

	status, _ := call(t, url, "/skills/slow", "exec_1", `{}`)
	close(release)

	<-app.work.drained()
	if got := server.got("/exec_1/status"); status != 202 || len(got) != 1 || got[0].body["result"] != "done" {
		t.Errorf("got %d, %+v", status, got)
	}
}

func TestASkillWhoseCallerCrashedIsReported(t *testing.T) {
	server := newPlane(t, nil)
	app, _ := answeringAgent(t, server)
	release, gone := make(chan struct{}), make(chan struct{})
	RegisterSkill(app, "slow", func(ctx context.Context, _ given) (string, error) {
		<-release
		return fmt.Sprint("done ", ctx.Err()), nil
	})
	begun := make(chan context.Context, 1)
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- r.Context()
		app.Handler().ServeHTTP(w, r)
		close(gone)
	}))
	defer behind.Close()
	connection, err := net.Dial("tcp", strings.TrimPrefix(behind.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(connection, "POST /skills/slow HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-Execution-ID: exec_1\r\nContent-Length: 2\r\n\r\n{}")
	<-begun

	connection.Close()
	<-gone
	close(release)

	<-app.work.drained()
	if got := server.got("/exec_1/status"); len(got) != 1 || got[0].body["result"] != "done <nil>" {
		t.Errorf("got %+v", got)
	}
}

func TestAnAgentThatEndsFinishesItsWorkAndCancelsWhatTakesTooLong(t *testing.T) {
	server := newPlane(t, nil)
	address := func() string { return server.got("/register")[0].body["base_url"].(string) }
	release := make(chan struct{})
	app := server.app(WithID("a"), WithDrain(10*time.Second))
	RegisterReasoner(app, "slow", func(ctx context.Context, _ given) (string, error) { <-release; return fmt.Sprint(ctx.Err()), nil })
	stop := serving(t, app)
	eventually(t, "a registration", func() bool { return len(server.got("/heartbeat")) > 0 })
	call(t, address(), "/reasoners/slow", "exec_1", `{}`)
	go func() {
		eventually(t, "a goodbye", func() bool { return len(server.got("/shutdown")) == 1 })
		close(release)
	}()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := server.got("/exec_1/status"); len(got) != 1 || got[0].body["result"] != "<nil>" {
		t.Errorf("got %+v", got)
	}

	other := newPlane(t, nil)
	hasty := other.app(WithID("a"), WithDrain(time.Millisecond))
	RegisterReasoner(hasty, "endless", func(ctx context.Context, _ given) (any, error) { <-ctx.Done(); return nil, context.Cause(ctx) })
	stop = serving(t, hasty)
	eventually(t, "a registration", func() bool { return len(other.got("/heartbeat")) > 0 })
	call(t, other.got("/register")[0].body["base_url"].(string), "/reasoners/endless", "exec_2", `{}`)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := other.got("/exec_2/status"); len(got) != 1 || got[0].body["error"] != "the agent has ended" {
		t.Errorf("got %+v", got)
	}
}

func TestWhereAnAgentListensAndWhatItAnnounces(t *testing.T) {
	t.Setenv("PORT", "9001")
	everywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 9001}
	for _, one := range []struct {
		options          []Option
		listen, announce string
	}{
		{[]Option{WithServer("http://localhost:8080")}, "127.0.0.1:9001", "http://127.0.0.1:9001"},
		{[]Option{WithServer("http://192.0.2.7:8080"), WithPublicURL("https://a.example/x/")}, ":9001", "https://a.example/x"},
		{[]Option{WithServer("http://127.0.0.1:8080"), WithListen(":7")}, ":7", "http://127.0.0.1:9001"},
	} {
		app := NewAgent(one.options...)
		if app.listenAddress() != one.listen || app.announced(everywhere) != one.announce {
			t.Errorf("got %s, %s", app.listenAddress(), app.announced(everywhere))
		}
	}
}
