package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestEveryOptionBecomesItsParameter(t *testing.T) {
	for _, one := range []struct {
		option DiscoverOption
		want   string
	}{
		{WithAgent("a b"), "agent=a+b"},
		{WithNodeID("a"), "node_id=a"},
		{WithAgentIDs([]string{"a1", "a2"}), "agent_ids=a1%2Ca2"},
		{WithNodeIDs([]string{"a1"}), "node_ids=a1"},
		{WithReasonerPattern("*x*"), "reasoner=%2Ax%2A"},
		{WithSkillPattern("web_*"), "skill=web_%2A"},
		{WithTags([]string{"ml*", "x"}), "tags=ml%2A%2Cx"},
		{WithInputSchema(true), "include_input_schema=true"},
		{WithOutputSchema(false), "include_output_schema=false"},
		{WithSchemas(true), "include_input_schema=true&include_output_schema=true"},
		{WithDescriptions(false), "include_descriptions=false"},
		{WithExamples(true), "include_examples=true"},
		{WithFormat("xml"), "format=xml"},
		{WithHealthStatus("active"), "health_status=active"},
		{WithLimit(5), "limit=5"},
		{WithOffset(10), "offset=10"},
		{nil, ""},
	} {
		_, asked, err := questionOf([]DiscoverArgument{context.Background(), one.option})
		if err != nil || asked.parameters.Encode() != one.want {
			t.Errorf("got %s, %v, want %s", asked.parameters.Encode(), err, one.want)
		}
	}
}

func TestOneContextMayStandAnywhereAndTwoMayNot(t *testing.T) {
	ctx := within(t, time.Minute)
	for _, arguments := range [][]DiscoverArgument{{}, {nil}, {ctx}, {WithLimit(1), ctx}} {
		if _, _, err := questionOf(arguments); err != nil {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	if _, err := NewAgent().Discover(ctx, ctx); err == nil || err.Error() != "discover: two contexts were given" {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerSaysHowFreshItIs(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, _ seen) {
		for name, value := range map[string]string{
			"X-Request-ID": "req_1", "ETag": `W/"a-1-b"`, "X-Total-Count": "7", "Date": "Sun, 15 Nov 2026 10:30:03 GMT",
			"Warning": `110 switchboard "Response is Stale"`,
		} {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, page)
	})

	found, err := server.app().Discover()

	if err != nil {
		t.Fatal(err)
	}
	got := found.Freshness
	if got.ReceivedAt.IsZero() {
		t.Error("no time")
	}
	got.ReceivedAt = time.Time{}
	want := Freshness{
		RequestID: "req_1", ETag: `W/"a-1-b"`, TotalCount: 7, Warning: `110 switchboard "Response is Stale"`, Stale: true,
		Age: 3 * time.Second,
	}
	if got != want {
		t.Errorf("got %+v", got)
	}
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	server := newPlane(t, func(w http.ResponseWriter, r seen) {
		w.Header().Set("ETag", `W/"1"`)
		if r.header.Get("If-None-Match") == `W/"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("X-Total-Count", "7")
		_, _ = io.WriteString(w, page)
	})
	first, err := server.app().Discover()
	if err != nil {
		t.Fatal(err)
	}

	again, err := server.app().Discover(WithPrevious(first))

	if err != nil || !again.Freshness.NotModified || again.Freshness.TotalCount != 7 || again.String() != first.String() {
		t.Errorf("got %+v, %v", again, err)
	}
	if first.Freshness.NotModified {
		t.Error("the first answer was changed")
	}
}

// pages answers with one agent a page, by links or by has_more only.
func pages(total int, links bool) func(http.ResponseWriter, seen) {
	return func(w http.ResponseWriter, r seen) {
		query, _ := url.ParseQuery(r.query)
		offset, _ := strconv.Atoi(query.Get("offset"))
		more := offset+1 < total
		if links && more {
			query.Set("offset", strconv.Itoa(offset+1))
			w.Header().Set("Link", fmt.Sprintf("<%s?%s>; rel=\"next\"", r.path, query.Encode()))
		}
		fmt.Fprintf(w, `{"total_agents":%d,"pagination":{"limit":1,"offset":%d,"has_more":%t},"capabilities":[{"agent_id":"a%d"}]}`,
			total, offset, more, offset)
	}
}

func TestPagesGoesToTheLastPage(t *testing.T) {
	for _, links := range []bool{true, false} {
		server := newPlane(t, pages(4, links))
		var ids []string

		server.app().Pages(within(t, time.Minute), WithTags([]string{"x"}), WithLimit(1))(func(one *DiscoveryResponse, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, one.Capabilities[0].AgentID)
			return true
		})

		if !slices.Equal(ids, []string{"a0", "a1", "a2", "a3"}) {
			t.Errorf("links %t: got %v", links, ids)
		}
		for _, one := range server.got("") {
			if !strings.Contains(one.query, "tags=x") {
				t.Errorf("links %t: asked %s", links, one.query)
			}
		}
	}
}

func TestPagesEndsWhenItIsToldToAndWhenAServerGoesInCircles(t *testing.T) {
	server := newPlane(t, pages(4, true))
	count := 0
	server.app().Pages()(func(*DiscoveryResponse, error) bool { count++; return count < 2 })
	if count != 2 || len(server.got("")) != 2 {
		t.Errorf("counted %d, asked %d", count, len(server.got("")))
	}

	circle := newPlane(t, func(w http.ResponseWriter, _ seen) {
		w.Header().Set("Link", `</x?offset=1>; rel="next"`)
		_, _ = io.WriteString(w, page)
	})
	var last error
	circle.app().Pages()(func(_ *DiscoveryResponse, err error) bool { last = err; return true })
	if last == nil || len(circle.got("")) != 2 {
		t.Errorf("got %v after %d", last, len(circle.got("")))
	}
}
