package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"testing"
	"testing/iotest"
	"time"
)

// told returns the kinds of what a watcher tells while it reads a stream.
func toldBy(t *testing.T, stream io.Reader, known map[string]AgentCapability) ([]ChangeKind, *watcher) {
	t.Helper()
	var kinds []ChangeKind
	one := &watcher{known: known, yield: func(change Change, err error) bool {
		kinds = append(kinds, change.Kind)
		return err == nil
	}}
	if err := one.follow(context.Background(), stream, func() {}); err != nil {
		t.Fatal(err)
	}
	return kinds, one
}

func TestTheGoldenExampleOfAWatchIsRead(t *testing.T) {
	text := golden(t, "watch-resumed.txt")["watch-resumed.txt"]
	for _, stream := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text))} {
		before := AgentCapability{AgentID: "weather", HealthStatus: "active"}

		kinds, one := toldBy(t, stream, map[string]AgentCapability{"weather": before})

		if want := []ChangeKind{AgentChanged, AgentRemoved}; !reflect.DeepEqual(kinds, want) {
			t.Errorf("got %v, want %v", kinds, want)
		}
		if one.last != "5d0c8a1e-5" || one.retry != time.Second {
			t.Errorf("got %q and %v", one.last, one.retry)
		}
	}
}

func TestAnETagSaysWhereAnAnswerIsFrom(t *testing.T) {
	for etag, want := range map[string]place{
		`W/"5d0c8a1e-1f-0a1b2c3d"`: {"5d0c8a1e", 31},
		`"abc"`:                    {},
		"":                         {},
		`W/"a-nonsense-b"`:         {},
	} {
		if got := placeOf(etag); got != want {
			t.Errorf("%s: got %v, want %v", etag, got, want)
		}
	}
}

func TestAWatchEndsWithItsContextOrWhenItsReaderHasEnough(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		if r.path != watchPath {
			w.Header().Set("ETag", `W/"here-1-x"`)
			_, _ = io.WriteString(w, `{"total_agents": 1, "capabilities": [{"agent_id": "a"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: snapshot\nid: here-1\ndata: {\"version\":1,\"instance\":\"here\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.gone
	})
	count := 0
	server.app().Watch(within(t, time.Minute))(func(Change, error) bool { count++; return false })
	if count != 1 {
		t.Errorf("told %d times", count)
	}

	ctx, cancel := context.WithCancel(context.Background())
	var last error
	server.app().Watch(ctx)(func(change Change, err error) bool {
		cancel()
		last = err
		return true
	})
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
}

func TestAWatchOfAnAddressThatIsNoneSaysSo(t *testing.T) {
	var last error
	NewAgent(WithServer("nonsense")).Watch()(func(_ Change, err error) bool { last = err; return true })
	if last == nil || last.Error() != "watch: the address of the control plane must be like http://localhost:8080" {
		t.Errorf("got %v", last)
	}
}
