package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	// A skill that is not done by then has its result reported; the control plane would wait for 90 s.
	skillPatience = 10 * time.Second
	largestInput  = 16 << 20
	lastWords     = 3 * time.Second
)

// Run serves until the process is told to end, by SIGINT or SIGTERM; told twice, it ends at once. See [Agent.Serve].
func (a *Agent) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // whoever asks twice does not want to wait
	return a.Serve(ctx)
}

// Serve offers the agent's capabilities until the context ends: it listens, registers, shows that it lives, and at the end
// says goodbye and finishes what it is working on. The control plane may come later, or be away for a while: calls that
// were being worked on are reported when it is back. Serve returns nil after a good end, and an error when the agent
// cannot begin: it has no id, a capability is wrong, the address is taken, or the control plane refuses it.
func (a *Agent) Serve(ctx context.Context) error {
	if err := a.check(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	listener, err := net.Listen("tcp", a.listenAddress())
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	reports, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	server := &http.Server{Handler: &face{agent: a, reports: reports}, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer server.Close()

	touch := a.keepInTouch(ctx, a.announced(listener.Addr()))
	select {
	case err = <-ended:
	case err = <-touch.refused:
	case <-ctx.Done():
	}
	touch.stop()
	a.drain(giveUp)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	closing, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	_ = server.Shutdown(closing) // what is still open then is closed
	return nil
}

// Handler returns what the agent answers to the control plane, for a server of your own: it neither registers nor shows
// that it lives.
func (a *Agent) Handler() http.Handler { return &face{agent: a, reports: context.Background()} }

func (a *Agent) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.client.problem != nil:
		return a.client.problem
	case a.identity.id == "":
		return errors.New("the agent has no id: use agent.WithID")
	case len(a.problems) > 0:
		return errors.Join(a.problems...)
	}
	return nil
}

// drain waits for what is being worked on, cancels what takes too long, and leaves it a moment for its last words.
func (a *Agent) drain(giveUp context.CancelCauseFunc) {
	drained := a.work.drained()
	limit := time.NewTimer(a.manner.drain)
	defer limit.Stop()
	select {
	case <-drained:
		return
	case <-limit.C:
	}
	a.log.Warn("agent.drain.cancelled", "agent", a.identity.id)
	a.work.cancelAll(errDrained)
	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case <-drained:
	case <-last.C:
		giveUp(errDrained)
	}
}

func (a *Agent) listenAddress() string {
	if a.identity.listen != "" {
		return a.identity.listen
	}
	host := ""
	if isLocal(a.client.base.Hostname()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, firstOf(os.Getenv("PORT"), "0"))
}

// announced returns the address that the control plane is told. One that listens everywhere says the address of this
// machine that leads to the control plane.
func (a *Agent) announced(bound net.Addr) string {
	if a.identity.publicURL != "" {
		return strings.TrimRight(a.identity.publicURL, "/")
	}
	host, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "http://" + bound.String()
	}
	if address := net.ParseIP(host); address != nil && address.IsUnspecified() {
		host = "127.0.0.1"
		probe, err := net.Dial("udp", net.JoinHostPort(a.client.base.Hostname(), firstOf(a.client.base.Port(), "80")))
		if err == nil { // nothing is sent
			host, _, _ = net.SplitHostPort(probe.LocalAddr().String())
			probe.Close()
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

func isLocal(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || (address != nil && address.IsLoopback())
}

// face is the HTTP side of an agent.
type face struct {
	agent   *Agent
	reports context.Context
}

// ServeHTTP answers what a control plane asks of an agent.
func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for place, part := range parts {
		if decoded, err := url.PathUnescape(part); err == nil {
			parts[place] = decoded
		}
	}
	switch {
	case r.Method == http.MethodPost && !isJSON(r): // a page in a browser cannot send this type elsewhere without asking
		sayError(w, http.StatusUnsupportedMediaType, "invalid_request", "send application/json", nil)
	case len(parts) == 1 && parts[0] == "health":
		f.health(w)
	case r.Method == http.MethodPost && len(parts) == 2 && parts[0] == "reasoners":
		f.call(w, r, reasoner, parts[1])
	case r.Method == http.MethodPost && len(parts) == 2 && parts[0] == "skills":
		f.call(w, r, skill, parts[1])
	case r.Method == http.MethodPost && len(parts) == 4 && parts[0] == "_internal" && parts[1] == "executions" && parts[3] == "cancel":
		say(w, http.StatusOK, map[string]any{"cancelled": f.agent.work.cancel(parts[2]), "execution_id": parts[2]})
	default:
		sayError(w, http.StatusNotFound, "not_found", "there is nothing at this path", nil)
	}
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

func (f *face) health(w http.ResponseWriter) {
	say(w, http.StatusOK, map[string]any{
		"status": "healthy", "node_id": f.agent.identity.id, "version": f.agent.identity.version,
	})
}

// call runs a capability, and answers with its result, or says that it will be reported.
func (f *face) call(w http.ResponseWriter, r *http.Request, kind kind, id string) {
	found := f.agent.find(kind, id)
	if found == nil || found.problem != nil {
		sayError(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s %q", kind, id), nil)
		return
	}
	body, err := readInput(w, r)
	if err != nil {
		sayError(w, http.StatusBadRequest, "invalid_request", "the input could not be read to its end", nil)
		return
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	run, err := found.prepare(body)
	if err != nil {
		sayError(w, http.StatusUnprocessableEntity, "invalid_input", err.Error(), nil)
		return
	}
	call := callOf(r.Header, f.agent.identity.id, id)
	begun := f.agent.work.begin(call, run)
	if begun == nil { // the same execution again: once is enough
		accept(w, call)
		return
	}
	f.answer(w, r, kind, begun)
}

// readInput reads a body within limits of size and time. The limit of time must not outlast it: it would end the request.
func readInput(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(quickly)) // not every server of others can
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestInput))
	_ = control.SetReadDeadline(time.Time{})
	return body, err
}

func (f *face) answer(w http.ResponseWriter, r *http.Request, kind kind, begun *job) {
	if begun.call.ExecutionID == "" { // somebody calls without a control plane, so there is nobody to report to
		defer f.agent.work.end(begun)
		defer context.AfterFunc(r.Context(), func() { begun.cancel(errDisconnects) })()
		f.tell(w, begun, <-begun.done)
		return
	}
	if kind == reasoner {
		accept(w, begun.call)
		go f.report(begun, nil)
		return
	}
	patience := time.NewTimer(f.agent.manner.patience)
	defer patience.Stop()
	select {
	case ended := <-begun.done:
		if r.Context().Err() != nil {
			go f.report(begun, &ended)
			return
		}
		f.tell(w, begun, ended)
		f.agent.work.end(begun)
	case <-r.Context().Done(): // the control plane may have crashed: what comes of it is still wanted
		go f.report(begun, nil)
	case <-patience.C:
		accept(w, begun.call)
		go f.report(begun, nil)
	}
}

// report waits for an end and delivers it.
func (f *face) report(begun *job, ended *result) {
	defer f.agent.work.end(begun)
	if ended == nil {
		found := <-begun.done
		ended = &found
	}
	f.note(begun.call, *ended)
	if err := f.agent.deliver(f.reports, begun.call, *ended); err != nil {
		f.agent.log.Error("agent.report.lost", "agent", f.agent.identity.id, "execution", begun.call.ExecutionID, "error", err)
	}
}

func (f *face) tell(w http.ResponseWriter, begun *job, ended result) {
	f.note(begun.call, ended)
	var refused *Refusal
	switch {
	case ended.err == nil:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(ended.value)
	case errors.As(ended.err, &refused):
		sayError(w, refused.status(), "refused", refused.Message, refused.Details)
	default:
		sayError(w, http.StatusInternalServerError, "agent_error", ended.err.Error(), nil)
	}
}

// note logs what nobody else would see: a panic's place.
func (f *face) note(call Call, ended result) {
	var caught *panicked
	if errors.As(ended.err, &caught) {
		f.agent.log.Error("agent.panic", "capability", call.Capability, "execution", call.ExecutionID, "stack", string(caught.stack))
	}
}

func accept(w http.ResponseWriter, call Call) {
	say(w, http.StatusAccepted, map[string]any{
		"status": "processing", "execution_id": call.ExecutionID, "run_id": call.RunID, "reasoner_name": call.Capability,
	})
}

func sayError(w http.ResponseWriter, status int, code, message string, details any) {
	document := map[string]any{"error": code, "message": message}
	if details != nil {
		document["details"] = details
	}
	say(w, status, document)
}

func say(w http.ResponseWriter, status int, document map[string]any) {
	body, err := json.Marshal(document)
	if err != nil {
		delete(document, "details")
		body, _ = json.Marshal(document)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
