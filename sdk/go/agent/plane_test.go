package agent

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// seen is one request that a plane got.
type seen struct {
	method, path, query string
	header              http.Header
	body                map[string]any
	// number counts the requests that this plane got, from 1.
	number int
	// gone is closed when whoever asked has left.
	gone <-chan struct{}
}

// plane is a small control plane: it remembers what it is asked, and answers as it is told.
type plane struct {
	*httptest.Server
	mu    sync.Mutex
	asked []seen
}

// newPlane answers with what the function writes; nil answers as a control plane with everything well does.
func newPlane(t *testing.T, answers func(w http.ResponseWriter, r seen)) *plane {
	t.Helper()
	made := &plane{}
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		one := seen{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.RawQuery, header: r.Header, gone: r.Context().Done()}
		_ = json.Unmarshal(text, &one.body)
		made.mu.Lock()
		one.number = len(made.asked) + 1
		made.asked = append(made.asked, one)
		made.mu.Unlock()
		if answers == nil {
			well(w, one)
			return
		}
		answers(w, one)
	}))
	t.Cleanup(made.Close)
	return made
}

func well(w http.ResponseWriter, r seen) {
	if strings.HasSuffix(r.path, "/register") {
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = io.WriteString(w, `{"success": true, "lease_seconds": 300}`)
}

// got returns the requests whose path ends so.
func (p *plane) got(end string) []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []seen
	for _, one := range p.asked {
		if strings.HasSuffix(one.path, end) {
			found = append(found, one)
		}
	}
	return found
}

func (p *plane) app(options ...Option) *Agent {
	return NewAgent(append([]Option{WithServer(p.URL), WithAPIKey("open-sesame"), quiet()}, options...)...)
}

func quiet() Option { return WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))) }

// eventually waits for something to happen, with a limit.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !happened() {
		if time.Now().After(end) {
			t.Fatalf("%s: it did not happen in time", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}
