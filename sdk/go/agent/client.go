package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	quickly     = 30 * time.Second
	largestBody = 64 << 20
	firstPause  = 50 * time.Millisecond
	longestWait = time.Second
	forever     = time.Duration(1<<63 - 1)
)

// client sends requests to one control plane. It is the only place that does.
type client struct {
	base    *url.URL
	problem error
	// Functions, so that printing a client with any verb shows no key.
	authorize func(http.Header)
	hide      func(string) string
	http      *http.Client
	retryFor  time.Duration
}

// request is one request, which may take several attempts.
type request struct {
	method, path, query string
	header              http.Header
	body                []byte
	// repeat says that it may be sent twice.
	repeat bool
	// timeout is for one attempt.
	timeout time.Duration
	// retryFor is for all of them; the client's own if it is 0.
	retryFor time.Duration
}

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time
}

func newClient(server, key string, given *http.Client, retryFor time.Duration) *client {
	own := *given
	// The key is no header that net/http takes off when a redirect leads elsewhere.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	made := &client{http: &own, retryFor: retryFor}
	made.base, made.problem = serverURL(server)
	made.authorize = func(header http.Header) {
		if key != "" {
			header.Set("X-API-Key", key)
		}
	}
	made.hide = func(text string) string {
		if key == "" {
			return text
		}
		return strings.ReplaceAll(text, key, "[hidden]")
	}
	return made
}

func serverURL(text string) (*url.URL, error) {
	found, err := url.Parse(strings.TrimSpace(text))
	if err != nil || (found.Scheme != "http" && found.Scheme != "https") || found.Host == "" {
		// The text is not repeated: it may have a password in it.
		return &url.URL{}, errors.New("the address of the control plane must be like http://localhost:8080")
	}
	found.Path, found.RawPath = strings.TrimRight(found.Path, "/"), ""
	found.RawQuery, found.Fragment = "", ""
	return found, nil
}

func (c *client) shown() string { return c.base.Redacted() }

// do sends a request, again if it may be and the control plane does not answer, and returns the answer. For every status
// but 2xx and 304 it returns an [*APIError], too.
func (c *client) do(ctx context.Context, wanted request) (*answer, error) {
	if c.problem != nil {
		return nil, c.problem
	}
	limit := wanted.retryFor
	if limit == 0 {
		limit = c.retryFor
	}
	begin := time.Now()
	for attempt := 0; ; attempt++ {
		got, err := c.attempt(ctx, wanted)
		pause, again := retryPause(wanted, got, err, attempt)
		if !again || ctx.Err() != nil || time.Since(begin)+pause > limit {
			return c.judged(wanted, got, err)
		}
		if sleep(ctx, pause) != nil {
			return c.judged(wanted, got, err)
		}
	}
}

func (c *client) attempt(ctx context.Context, wanted request) (*answer, error) {
	timeout := wanted.timeout
	if timeout == 0 {
		timeout = quickly
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, wanted.method, c.url(wanted), bytes.NewReader(wanted.body))
	if err != nil {
		return nil, err
	}
	for name, values := range wanted.header {
		sent.Header[name] = values
	}
	if wanted.body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	sent.Header.Set("User-Agent", "agentfield-go")
	c.authorize(sent.Header)
	received, err := c.http.Do(sent)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer received.Body.Close()
	body, err := io.ReadAll(io.LimitReader(received.Body, largestBody+1))
	if err != nil {
		return nil, causeOf(ctx, fmt.Errorf("read the answer: %w", err))
	}
	if len(body) > largestBody {
		return nil, fmt.Errorf("the answer is larger than %d MiB", largestBody>>20)
	}
	return &answer{status: received.StatusCode, header: received.Header, body: body, at: time.Now()}, nil
}

func (c *client) url(wanted request) string {
	text := c.base.String() + wanted.path
	if wanted.query != "" {
		text += "?" + wanted.query
	}
	return text
}

func (c *client) judged(wanted request, got *answer, err error) (*answer, error) {
	switch {
	case err != nil:
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // its text repeats the address, with everything in it
		}
		return nil, fmt.Errorf("%s %s%s: %w", strings.ToLower(wanted.method), c.shown(), wanted.path, err)
	case got.status/100 == 2 || got.status == http.StatusNotModified:
		return got, nil
	default:
		return got, newAPIError(got, c.hide)
	}
}

// causeOf returns why a context ended, where that is why a request failed.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// retryPause says whether a request is to be sent again, and after how long. An end of an execution comes with the same
// codes as a server that is away; it is known by its id.
func retryPause(wanted request, got *answer, err error, attempt int) (time.Duration, bool) {
	if !wanted.repeat {
		return 0, false
	}
	pause := min(firstPause<<min(attempt, 10), longestWait)
	pause = pause/2 + rand.N(pause)
	if err != nil {
		return pause, true
	}
	stubborn := wanted.retryFor == forever // nobody else will say it
	switch {
	case isAway(got.status):
	case stubborn && (got.status == http.StatusRequestTimeout || got.status == http.StatusInternalServerError):
	default:
		return 0, false
	}
	if seconds, bad := strconv.ParseFloat(got.header.Get("Retry-After"), 64); bad == nil && seconds > 0 && seconds < 1e6 {
		pause = max(pause, time.Duration(seconds*float64(time.Second)))
	}
	return pause, stubborn || executionIDIn(got.body) == ""
}

// isAway says whether a status is that of a server that may answer soon.
func isAway(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// executionIDIn returns the id of the execution that an error body is about.
func executionIDIn(body []byte) string {
	var told struct {
		ExecutionID any            `json:"execution_id"`
		Details     map[string]any `json:"details"`
	}
	if json.Unmarshal(body, &told) != nil {
		return ""
	}
	if id, ok := told.ExecutionID.(string); ok && id != "" {
		return id
	}
	id, _ := told.Details["execution_id"].(string)
	return id
}

// sleep waits, or returns why the context ended before.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
