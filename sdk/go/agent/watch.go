package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	watchPath = "/api/v1/discovery/watch"
	pageOfAll = 500
	// The server says something every fifteen seconds: a line that is silent for so long is dead.
	longestSilence = 45 * time.Second
	usualRetry     = time.Second
	longestRetry   = 30 * time.Second
	// How far behind another instance may be; usually it is milliseconds.
	longestLag   = 2 * time.Second
	largestEvent = 16 << 20
	askEvery     = time.Second
)

// ChangeKind is what happened to an agent.
type ChangeKind string

// What can happen to an agent.
const (
	// AgentAdded says that an agent is there that was not.
	AgentAdded ChangeKind = "added"
	// AgentRemoved says that an agent is gone.
	AgentRemoved ChangeKind = "removed"
	// AgentChanged says that an agent offers something else.
	AgentChanged ChangeKind = "changed"
	// AgentHealth says that an agent offers what it did, and feels otherwise.
	AgentHealth ChangeKind = "health"
)

// Change is one agent that came, went, or is not as it was.
type Change struct {
	Kind  ChangeKind      `json:"kind"`
	Agent AgentCapability `json:"agent"`
	// Before is what it was, nil for one that is new.
	Before *AgentCapability `json:"before,omitempty"`
	// Reason says why, if that was told.
	Reason string `json:"reason,omitempty"`
	// Since says since when its health is so, if that was told.
	Since time.Time `json:"since"`
}

// Watch tells every agent that is there, and then every change, until the context ends or yield returns false. From Go
// 1.23 on it can be ranged over:
//
//	for change, err := range app.Watch(ctx, agent.WithTags([]string{"research"})) { ... }
//
// The control plane tells changes as they happen. One that is away is waited for, and what was missed meanwhile is told
// then; one that cannot tell is asked once a second. Watch ends with an error only where the question is refused, or the
// context has ended.
func (a *Agent) Watch(arguments ...DiscoverArgument) func(yield func(Change, error) bool) {
	return func(yield func(Change, error) bool) {
		ctx, asked, err := questionOf(arguments)
		if err != nil {
			yield(Change{}, fmt.Errorf("watch: %w", err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		asked.parameters.Del("limit")
		asked.parameters.Del("offset")
		asked.parameters.Del("format")
		one := &watcher{app: a, parameters: asked.parameters, known: map[string]AgentCapability{}, yield: yield, retry: usualRetry}
		if err := one.run(ctx); !errors.Is(err, errEnough) {
			yield(Change{}, fmt.Errorf("watch: %w", err))
		}
	}
}

var errEnough = errors.New("whoever watches has enough")

// watcher is one who watches: what it knows, and where it was.
type watcher struct {
	app        *Agent
	parameters url.Values
	known      map[string]AgentCapability
	yield      func(Change, error) bool
	// last is the id of the last event; "" where what is known is not to be built on.
	last string
	// skip is the version up to which discovery has told everything already.
	skip  int64
	retry time.Duration
}

// told is what an event says, of whatever kind it is.
type told struct {
	Version  int64            `json:"version"`
	Instance string           `json:"instance"`
	AgentID  string           `json:"agent_id"`
	Agent    *AgentCapability `json:"agent"`
	Reason   string           `json:"reason"`
	Since    time.Time        `json:"since"`
}

func (w *watcher) run(ctx context.Context) error {
	if w.app.client.problem != nil {
		return w.app.client.problem
	}
	for failures := 0; ; failures = min(failures+1, 5) {
		opened, err := w.listen(ctx)
		switch {
		case errors.Is(err, errNoWatch):
			return w.askAgainAndAgain(ctx)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errEnough) || isRefusal(err):
			return err
		}
		if opened {
			failures = 0
		}
		pause := min(w.retry<<failures, longestRetry)
		// Not all at once: a server that ends has thousands of them.
		if err := sleep(ctx, pause/3+rand.N(pause*2/3+1)); err != nil {
			return err
		}
	}
}

var errNoWatch = errors.New("this server does not tell changes")

// isRefusal says whether asking again would not help.
func isRefusal(err error) bool {
	var failed *APIError
	return errors.As(err, &failed) && failed.Status/100 == 4 && failed.Status != http.StatusRequestTimeout && !isAway(failed.Status)
}

// listen follows one connection until it breaks, and says whether there was one.
func (w *watcher) listen(ctx context.Context) (bool, error) {
	c := w.app.client
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(longestSilence, cancel)
	defer silence.Stop()
	wanted := request{method: http.MethodGet, path: watchPath, query: w.parameters.Encode()}
	sent, err := http.NewRequestWithContext(ctx, wanted.method, c.url(wanted), nil)
	if err != nil {
		return false, err
	}
	sent.Header.Set("Accept", "text/event-stream")
	sent.Header.Set("User-Agent", "agentfield-go")
	if w.last != "" {
		sent.Header.Set("Last-Event-ID", w.last)
	}
	c.authorize(sent.Header)
	received, err := c.http.Do(sent)
	if err != nil {
		return false, err
	}
	defer received.Body.Close()
	if err := w.judge(wanted, received); err != nil {
		return false, err
	}
	return true, w.follow(ctx, received.Body, func() { silence.Reset(longestSilence) })
}

// judge says what is wrong with an answer that is no stream of events.
func (w *watcher) judge(wanted request, received *http.Response) error {
	isStream := strings.HasPrefix(received.Header.Get("Content-Type"), "text/event-stream")
	switch received.StatusCode {
	case http.StatusOK:
		if isStream {
			return nil
		}
		return errNoWatch
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return errNoWatch
	}
	body, err := io.ReadAll(io.LimitReader(received.Body, largestBody))
	if err != nil {
		return err
	}
	_, err = w.app.client.judged(wanted, &answer{status: received.StatusCode, header: received.Header, body: body}, nil)
	return err
}

// follow takes in one event after the other. See https://html.spec.whatwg.org, section 9.2.
func (w *watcher) follow(ctx context.Context, body io.Reader, heard func()) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4096), largestEvent)
	var kind, id string
	var data [][]byte
	id = w.last
	for lines.Scan() {
		heard()
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\r"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && data != nil:
			if err := w.take(ctx, kind, id, bytes.Join(data, []byte("\n"))); err != nil {
				return err
			}
			kind, data = "", nil
		case string(name) == "event":
			kind = string(value)
		case string(name) == "id":
			id = string(value)
		case string(name) == "data":
			data = append(data, bytes.Clone(value))
		case string(name) == "retry":
			if milliseconds, err := strconv.Atoi(string(value)); err == nil && milliseconds > 0 {
				w.retry = min(time.Duration(milliseconds)*time.Millisecond, longestRetry)
			}
		}
	}
	return lines.Err()
}

func (w *watcher) take(ctx context.Context, kind, id string, data []byte) error {
	var said told
	if err := json.Unmarshal(data, &said); err != nil {
		return fmt.Errorf("decode an event: %w", err)
	}
	if err := w.applied(ctx, kind, said); err != nil {
		return err
	}
	w.last = id
	return nil
}

func (w *watcher) applied(ctx context.Context, kind string, said told) error {
	switch {
	case kind == "snapshot":
		w.last = ""
		return w.beginAnew(ctx, said.Instance)
	case kind == "resumed" || said.Version <= w.skip:
		return nil
	case kind == "removed":
		before, found := w.known[said.AgentID]
		if !found {
			return nil
		}
		delete(w.known, said.AgentID)
		return w.tell(&Change{Kind: AgentRemoved, Agent: before, Before: &before, Reason: said.Reason})
	case said.Agent != nil:
		withLists(said.Agent)
		before, found := w.known[said.AgentID]
		w.known[said.AgentID] = *said.Agent
		change := difference(before, found, *said.Agent)
		if change != nil {
			change.Reason, change.Since = said.Reason, said.Since
		}
		return w.tell(change)
	}
	return nil
}

// beginAnew asks discovery for everything and tells what is different; once more if another instance answered.
func (w *watcher) beginAnew(ctx context.Context, instance string) error {
	w.skip = 0
	for _, pause := range []time.Duration{0, longestLag} {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		agents, places, err := w.everything(ctx)
		if err != nil {
			return err
		}
		if err := w.compare(agents); err != nil {
			return err
		}
		if version, same := oldestAt(places, instance); same {
			w.skip = version
			return nil
		}
	}
	return nil
}

type place struct {
	instance string
	version  int64
}

func oldestAt(places []place, instance string) (int64, bool) {
	oldest := places[0].version
	for _, one := range places {
		if one.instance != instance {
			return 0, false
		}
		oldest = min(oldest, one.version)
	}
	return oldest, true
}

// everything asks for every page. Agents that go meanwhile would push others over the edge of a page: each page begins
// with the end of the one before, or is asked for from further back. Agents are in the order of their ids.
func (w *watcher) everything(ctx context.Context) (map[string]AgentCapability, []place, error) {
	agents, places := map[string]AgentCapability{}, []place{}
	offset, last := 0, ""
	for {
		query := url.Values{"limit": {strconv.Itoa(pageOfAll)}, "offset": {strconv.Itoa(offset)}}
		for name, values := range w.parameters {
			query[name] = values
		}
		page, err := w.app.discover(ctx, query.Encode(), nil)
		if err != nil {
			return nil, nil, err
		}
		found := page.Capabilities
		if offset > 0 && (len(found) == 0 || found[0].AgentID > last) {
			offset = max(0, offset-pageOfAll/2)
			continue
		}
		places = append(places, placeOf(page.Freshness.ETag))
		for _, one := range found {
			agents[one.AgentID] = one
			last = max(last, one.AgentID)
		}
		if !page.Pagination.HasMore || len(found) == 0 {
			return agents, places, nil
		}
		offset += max(len(found)-1, 1)
	}
}

// placeOf reads the instance and the version of the catalogue out of an ETag of Switchboard.
func placeOf(etag string) place {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), "-")
	if len(parts) != 3 {
		return place{}
	}
	version, err := strconv.ParseInt(parts[1], 16, 64)
	if err != nil {
		return place{}
	}
	return place{parts[0], version}
}

// askAgainAndAgain is for servers that do not tell.
func (w *watcher) askAgainAndAgain(ctx context.Context) error {
	var previous *DiscoveryResponse
	for {
		query := url.Values{"limit": {strconv.Itoa(pageOfAll)}}
		for name, values := range w.parameters {
			query[name] = values
		}
		page, err := w.app.discover(ctx, query.Encode(), previous)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isRefusal(err):
			return err
		case err == nil && !page.Freshness.NotModified:
			agents, err := w.pages(ctx, page, query)
			if err == nil {
				previous, err = page, w.compare(agents)
			}
			if errors.Is(err, errEnough) {
				return err
			}
		}
		if err := sleep(ctx, askEvery); err != nil {
			return err
		}
	}
}

// pages goes on from the first page to the last.
func (w *watcher) pages(ctx context.Context, page *DiscoveryResponse, asked url.Values) (map[string]AgentCapability, error) {
	agents, seen := map[string]AgentCapability{}, map[string]bool{}
	for {
		for _, one := range page.Capabilities {
			agents[one.AgentID] = one
		}
		query := nextQuery(page, asked)
		if query == "" || seen[query] {
			return agents, nil
		}
		seen[query] = true
		next, err := w.app.discover(ctx, query, nil)
		if err != nil {
			return nil, err
		}
		page = next
	}
}

// compare tells what is different from what was known, by the order of ids.
func (w *watcher) compare(now map[string]AgentCapability) error {
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	for name := range w.known {
		if _, found := now[name]; !found {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		before, known := w.known[name]
		after, found := now[name]
		change := &Change{Kind: AgentRemoved, Agent: before, Before: &before}
		if found {
			change = difference(before, known, after)
			w.known[name] = after
		} else {
			delete(w.known, name)
		}
		if err := w.tell(change); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) tell(change *Change) error {
	if change != nil && !w.yield(*change, nil) {
		return errEnough
	}
	return nil
}

// difference says what became of an agent, nil where nothing did; a sign of life alone is nothing.
func difference(before AgentCapability, known bool, now AgentCapability) *Change {
	if !known {
		return &Change{Kind: AgentAdded, Agent: now}
	}
	old, same := before, now
	old.LastHeartbeat, same.LastHeartbeat = time.Time{}, time.Time{}
	if reflect.DeepEqual(old, same) {
		return nil
	}
	old.HealthStatus = same.HealthStatus
	if reflect.DeepEqual(old, same) {
		return &Change{Kind: AgentHealth, Agent: now, Before: &before}
	}
	return &Change{Kind: AgentChanged, Agent: now, Before: &before}
}
