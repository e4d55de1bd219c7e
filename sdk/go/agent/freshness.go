package agent

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Freshness is what the control plane says of an answer beside it: every read has one.
type Freshness struct {
	// RequestID finds the request in the log of the control plane.
	RequestID string
	// ETag names this state of things; see [WithPrevious].
	ETag string
	// NotModified says that nothing has changed since the answer given to [WithPrevious].
	NotModified bool
	// TotalCount is the number of agents that match, on all pages; -1 where it was not said.
	TotalCount int
	// Warning is what the control plane warns of, word for word, or "".
	Warning string
	// Stale says that the control plane answers from memory, because its store does not answer.
	Stale bool
	// Age is how old the answer was when it was sent.
	Age time.Duration
	// ReceivedAt is when it came, by the clock of this machine.
	ReceivedAt time.Time
}

func freshnessOf(got *answer, madeAt time.Time) Freshness {
	total, err := strconv.Atoi(got.header.Get("X-Total-Count"))
	if err != nil {
		total = -1
	}
	warning := got.header.Get("Warning")
	return Freshness{
		RequestID:   got.header.Get("X-Request-ID"),
		ETag:        got.header.Get("ETag"),
		NotModified: got.status == http.StatusNotModified,
		TotalCount:  total,
		Warning:     warning,
		Stale:       strings.HasPrefix(warning, "110"),
		Age:         ageOf(got, madeAt),
		ReceivedAt:  got.at,
	}
}

// ageOf goes by the clock of the server where it tells the time, so that a wrong clock here makes nothing old.
func ageOf(got *answer, madeAt time.Time) time.Duration {
	var kept time.Duration
	if seconds, err := strconv.Atoi(got.header.Get("Age")); err == nil && seconds > 0 {
		kept = time.Duration(min(seconds, 1<<31)) * time.Second
	}
	sent, err := http.ParseTime(got.header.Get("Date"))
	if err != nil {
		sent = got.at
	}
	if madeAt.IsZero() {
		return kept
	}
	return max(kept, sent.Sub(madeAt), 0)
}
