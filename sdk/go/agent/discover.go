package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const discoveryPath = "/api/v1/discovery/capabilities"

// DiscoverArgument is what [Agent.Discover] takes: a [context.Context], or a [DiscoverOption]. Both have a method Value,
// and so one signature takes calls with and without a context; what has no such method does not compile.
type DiscoverArgument interface {
	Value(key any) any
}

// DiscoverOption is a filter, or a wish about the form of the answer.
type DiscoverOption func(*question)

// Value makes an option a [DiscoverArgument]; it holds no values.
func (DiscoverOption) Value(any) any { return nil }

// question is a discovery request in the making.
type question struct {
	parameters url.Values
	previous   *DiscoveryResponse
}

func parameter(name, value string) DiscoverOption {
	return func(q *question) { q.parameters.Set(name, value) }
}

func flag(name string, wanted bool) DiscoverOption {
	return parameter(name, strconv.FormatBool(wanted))
}

// WithAgent finds one agent by its id, or several by a pattern. In every pattern * stands for any characters, or none.
func WithAgent(id string) DiscoverOption { return parameter("agent", id) }

// WithNodeID is another name of [WithAgent].
func WithNodeID(id string) DiscoverOption { return parameter("node_id", id) }

// WithAgentIDs finds the agents of these ids or patterns, beside the one of [WithAgent].
func WithAgentIDs(ids []string) DiscoverOption { return parameter("agent_ids", strings.Join(ids, ",")) }

// WithNodeIDs is another name of [WithAgentIDs].
func WithNodeIDs(ids []string) DiscoverOption { return parameter("node_ids", strings.Join(ids, ",")) }

// WithReasonerPattern finds reasoners by a pattern of their id, and no skills unless [WithSkillPattern] is given too.
func WithReasonerPattern(pattern string) DiscoverOption { return parameter("reasoner", pattern) }

// WithSkillPattern finds skills by a pattern of their id, and no reasoners unless [WithReasonerPattern] is given too.
func WithSkillPattern(pattern string) DiscoverOption { return parameter("skill", pattern) }

// WithTags finds capabilities that have at least one of these tags; each may be a pattern.
func WithTags(tags []string) DiscoverOption { return parameter("tags", strings.Join(tags, ",")) }

// WithInputSchema asks for input schemas, or not; not if not said.
func WithInputSchema(wanted bool) DiscoverOption { return flag("include_input_schema", wanted) }

// WithOutputSchema asks for output schemas, or not; not if not said.
func WithOutputSchema(wanted bool) DiscoverOption { return flag("include_output_schema", wanted) }

// WithSchemas asks for input and output schemas at once.
func WithSchemas(wanted bool) DiscoverOption {
	return func(q *question) {
		WithInputSchema(wanted)(q)
		WithOutputSchema(wanted)(q)
	}
}

// WithDescriptions asks for descriptions, or not; they come if not said, but in the format "compact" only if they are
// asked for.
func WithDescriptions(wanted bool) DiscoverOption { return flag("include_descriptions", wanted) }

// WithExamples asks for examples, or not; not if not said.
func WithExamples(wanted bool) DiscoverOption { return flag("include_examples", wanted) }

// WithFormat chooses the form of the answer: "json" (if not said), "xml" or "compact".
func WithFormat(format string) DiscoverOption { return parameter("format", format) }

// WithHealthStatus finds agents that are "active", "degraded", "inactive" or "unknown".
func WithHealthStatus(status string) DiscoverOption { return parameter("health_status", status) }

// WithLimit sets the most agents on a page: 0 to 500, 100 if not said.
func WithLimit(agents int) DiscoverOption { return parameter("limit", strconv.Itoa(agents)) }

// WithOffset skips the first agents. See [Agent.Pages] for all pages.
func WithOffset(agents int) DiscoverOption { return parameter("offset", strconv.Itoa(agents)) }

// WithPrevious asks only for what is new since an earlier answer to the same question. If nothing is, that answer comes
// again, with Freshness.NotModified, and next to nothing was sent.
func WithPrevious(previous *DiscoveryResponse) DiscoverOption {
	return func(q *question) { q.previous = previous }
}

// Discover asks which agents there are and what they can do. A context may come first.
//
//	found, err := app.Discover(ctx, agent.WithReasonerPattern("*research*"), agent.WithInputSchema(true))
func (a *Agent) Discover(arguments ...DiscoverArgument) (*DiscoveryResponse, error) {
	ctx, asked, err := questionOf(arguments)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	return a.discover(ctx, asked.parameters.Encode(), asked.previous)
}

// Pages asks as [Agent.Discover] does, and goes on to the last page. From Go 1.23 on it can be ranged over:
//
//	for page, err := range app.Pages(ctx, agent.WithLimit(50)) { ... }
//
// It ends after an error. Agents that come or go meanwhile may be missed or seen twice.
func (a *Agent) Pages(arguments ...DiscoverArgument) func(yield func(*DiscoveryResponse, error) bool) {
	return func(yield func(*DiscoveryResponse, error) bool) {
		ctx, asked, err := questionOf(arguments)
		if err != nil {
			yield(nil, fmt.Errorf("discover: %w", err))
			return
		}
		query, seen := asked.parameters.Encode(), map[string]bool{}
		for {
			page, err := a.discover(ctx, query, nil)
			if !yield(page, err) || err != nil {
				return
			}
			seen[query] = true
			query = nextQuery(page, asked.parameters)
			if query == "" {
				return
			}
			if seen[query] {
				yield(nil, errors.New("discover: the next page is one that was there before"))
				return
			}
		}
	}
}

func questionOf(arguments []DiscoverArgument) (context.Context, question, error) {
	asked := question{parameters: url.Values{}}
	var given context.Context
	for _, argument := range arguments {
		switch found := argument.(type) {
		case nil:
		case DiscoverOption:
			if found != nil {
				found(&asked)
			}
		case context.Context:
			if given != nil {
				return nil, asked, errors.New("two contexts were given")
			}
			given = found
		default:
			return nil, asked, fmt.Errorf("%T is neither a context nor an option", argument)
		}
	}
	if given == nil {
		given = context.Background()
	}
	return given, asked, nil
}

func (a *Agent) discover(ctx context.Context, query string, previous *DiscoveryResponse) (*DiscoveryResponse, error) {
	wanted := request{method: http.MethodGet, path: discoveryPath, query: query, repeat: true}
	if previous != nil && previous.Freshness.ETag != "" {
		wanted.header = http.Header{"If-None-Match": {previous.Freshness.ETag}}
	}
	got, err := a.client.do(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	if got.status == http.StatusNotModified {
		return unchanged(previous, got)
	}
	found, err := readDiscovery(got)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	return found, nil
}

func unchanged(previous *DiscoveryResponse, got *answer) (*DiscoveryResponse, error) {
	if previous == nil {
		return nil, errors.New("discover: control plane answers 304 to a question without an ETag")
	}
	same := *previous
	same.Freshness = freshnessOf(got, previous.DiscoveredAt)
	same.Freshness.TotalCount = previous.Freshness.TotalCount
	return &same, nil
}

// readDiscovery reads an answer of any of the three formats.
func readDiscovery(got *answer) (*DiscoveryResponse, error) {
	found, err := readFormat(got)
	if err != nil {
		return nil, err
	}
	for place := range found.Capabilities {
		withLists(&found.Capabilities[place])
	}
	found.Capabilities = orEmpty(found.Capabilities)
	found.text = string(got.body)
	found.next = nextLink(got.header.Get("Link"))
	found.Freshness = freshnessOf(got, found.DiscoveredAt)
	return found, nil
}

func readFormat(got *answer) (*DiscoveryResponse, error) {
	if strings.Contains(got.header.Get("Content-Type"), "xml") {
		return readXML(got)
	}
	// Both forms at once: a large answer is read once.
	var found struct {
		DiscoveredAt   time.Time            `json:"discovered_at"`
		TotalAgents    *int                 `json:"total_agents"`
		TotalReasoners int                  `json:"total_reasoners"`
		TotalSkills    int                  `json:"total_skills"`
		Pagination     Pagination           `json:"pagination"`
		Capabilities   *[]AgentCapability   `json:"capabilities"`
		Reasoners      *[]CompactCapability `json:"reasoners"`
		Skills         *[]CompactCapability `json:"skills"`
	}
	if err := decode("the answer", got.body, &found); err != nil {
		return nil, err
	}
	if found.TotalAgents != nil || found.Capabilities != nil {
		return &DiscoveryResponse{
			DiscoveredAt: found.DiscoveredAt, TotalAgents: valueOf(found.TotalAgents), TotalReasoners: found.TotalReasoners,
			TotalSkills: found.TotalSkills, Pagination: found.Pagination, Capabilities: valueOf(found.Capabilities),
		}, nil
	}
	if found.Reasoners == nil && found.Skills == nil && !hasEither(got.body) {
		return nil, errors.New("decode the answer: $: has neither capabilities nor reasoners and skills")
	}
	return readCompact(got, CompactDiscovery{
		DiscoveredAt: found.DiscoveredAt, Reasoners: orEmpty(valueOf(found.Reasoners)), Skills: orEmpty(valueOf(found.Skills)),
	}), nil
}

// hasEither says whether a compact answer is empty, which some servers write as null, or none at all.
func hasEither(body []byte) bool {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields)
	return fields["reasoners"] != nil || fields["skills"] != nil
}

// nextLink returns the query of the next page out of a Link header. Where it leads is not looked at: pages are asked for
// at the control plane only.
func nextLink(header string) string {
	for _, link := range strings.Split(header, ",") {
		target, about, _ := strings.Cut(strings.TrimSpace(link), ">")
		if !strings.HasPrefix(target, "<") || !strings.Contains(strings.ReplaceAll(about, " ", ""), `rel="next"`) {
			continue
		}
		if _, query, found := strings.Cut(target, "?"); found {
			return query
		}
	}
	return ""
}

// nextQuery goes by the link, and for servers without one by the page itself.
func nextQuery(page *DiscoveryResponse, asked url.Values) string {
	if page.next != "" || !page.Pagination.HasMore || len(page.Capabilities) == 0 {
		return page.next
	}
	next := url.Values{}
	for name, values := range asked {
		next[name] = values
	}
	next.Set("offset", strconv.Itoa(page.Pagination.Offset+len(page.Capabilities)))
	return next.Encode()
}

func withLists(found *AgentCapability) {
	found.Reasoners, found.Skills = orEmpty(found.Reasoners), orEmpty(found.Skills)
	for place := range found.Reasoners {
		found.Reasoners[place].Tags = orEmpty(found.Reasoners[place].Tags)
	}
	for place := range found.Skills {
		found.Skills[place].Tags = orEmpty(found.Skills[place].Tags)
	}
}

func valueOf[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
