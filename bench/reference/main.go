// The algorithm of the discovery document's own sketch, as a yardstick: the list of agents is cached for thirty
// seconds, everything else is done for every request: filter, build the response, paginate, marshal.
//
// The parts that the document spells out (getCachedAgents, buildDiscoveryResponse, matchesPattern, matchesFilters) are
// as they stand there, so a reasoner pattern also filters skills. What it leaves open is done in the plain way of its
// response types: schemas are maps, so they are decoded when somebody asks for them. No framework, no logs, no metrics
// and no database, all of which the real thing would add.
//
// Usage: reference CATALOGUE.json; prints its port on 127.0.0.1.
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// AgentNode is an agent as the storage has it.
type AgentNode struct {
	ID             string       `json:"id"`
	BaseURL        string       `json:"base_url"`
	Version        string       `json:"version"`
	DeploymentType string       `json:"deployment_type"`
	HealthStatus   string       `json:"-"`
	LastHeartbeat  time.Time    `json:"-"`
	Reasoners      []Definition `json:"reasoners"`
	Skills         []Definition `json:"skills"`
}

// Definition is a reasoner or a skill as the storage has it.
type Definition struct {
	ID           string          `json:"id"`
	Description  string          `json:"description"`
	Tags         []string        `json:"tags"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema"`
}

// DiscoveryResponse is the answer as JSON.
type DiscoveryResponse struct {
	DiscoveredAt   time.Time         `json:"discovered_at"`
	TotalAgents    int               `json:"total_agents"`
	TotalReasoners int               `json:"total_reasoners"`
	TotalSkills    int               `json:"total_skills"`
	Pagination     Pagination        `json:"pagination"`
	Capabilities   []AgentCapability `json:"capabilities"`
}

// Pagination says which part of the agents this is.
type Pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"has_more"`
}

// AgentCapability is an agent of the answer.
type AgentCapability struct {
	AgentID        string       `json:"agent_id"`
	BaseURL        string       `json:"base_url"`
	Version        string       `json:"version"`
	HealthStatus   string       `json:"health_status"`
	DeploymentType string       `json:"deployment_type"`
	LastHeartbeat  time.Time    `json:"last_heartbeat"`
	Reasoners      []Capability `json:"reasoners"`
	Skills         []Capability `json:"skills"`
}

// Capability is a reasoner or a skill of the answer.
type Capability struct {
	ID               string                 `json:"id"`
	Description      *string                `json:"description,omitempty"`
	Tags             []string               `json:"tags"`
	InputSchema      map[string]interface{} `json:"input_schema,omitempty"`
	OutputSchema     map[string]interface{} `json:"output_schema,omitempty"`
	InvocationTarget string                 `json:"invocation_target"`
}

// CompactResponse is the answer of format=compact.
type CompactResponse struct {
	DiscoveredAt time.Time           `json:"discovered_at"`
	Reasoners    []CompactCapability `json:"reasoners"`
	Skills       []CompactCapability `json:"skills"`
}

// CompactCapability is one line of it.
type CompactCapability struct {
	ID      string   `json:"id"`
	AgentID string   `json:"agent_id"`
	Target  string   `json:"target"`
	Tags    []string `json:"tags"`
}

// XMLResponse is the answer of format=xml.
type XMLResponse struct {
	XMLName      xml.Name   `xml:"discovery"`
	DiscoveredAt time.Time  `xml:"discovered_at,attr"`
	Summary      XMLSummary `xml:"summary"`
	Agents       []XMLAgent `xml:"capabilities>agent"`
}

// XMLSummary has the totals.
type XMLSummary struct {
	TotalAgents    int `xml:"total_agents,attr"`
	TotalReasoners int `xml:"total_reasoners,attr"`
	TotalSkills    int `xml:"total_skills,attr"`
}

// XMLAgent is an agent of it.
type XMLAgent struct {
	ID             string          `xml:"id,attr"`
	BaseURL        string          `xml:"base_url,attr"`
	Version        string          `xml:"version,attr"`
	HealthStatus   string          `xml:"health_status,attr"`
	DeploymentType string          `xml:"deployment_type,attr"`
	LastHeartbeat  time.Time       `xml:"last_heartbeat,attr"`
	Reasoners      []XMLCapability `xml:"reasoners>reasoner"`
	Skills         []XMLCapability `xml:"skills>skill"`
}

// XMLCapability is a reasoner or a skill of it.
type XMLCapability struct {
	ID          string   `xml:"id,attr"`
	Target      string   `xml:"target,attr"`
	Description *string  `xml:"description,omitempty"`
	Tags        []string `xml:"tags>tag"`
}

// DiscoveryFilters is what a request asks for.
type DiscoveryFilters struct {
	AgentIDs            []string
	ReasonerPattern     *string
	SkillPattern        *string
	Tags                []string
	IncludeInputSchema  bool
	IncludeOutputSchema bool
	IncludeDescriptions bool
	HealthStatus        *string
	Format              string
	Limit               int
	Offset              int
}

// storage stands in for the database: it gives out the list it was started with.
type storage struct{ agents []*AgentNode }

// ListAgents returns all agents.
func (s *storage) ListAgents() ([]*AgentNode, error) { return s.agents, nil }

var (
	agentCache     []*AgentNode
	agentCacheLock sync.RWMutex
	agentCacheTime time.Time
	agentCacheTTL  = 30 * time.Second
)

func getCachedAgents(storage *storage) ([]*AgentNode, error) {
	agentCacheLock.RLock()
	if time.Since(agentCacheTime) < agentCacheTTL && agentCache != nil {
		defer agentCacheLock.RUnlock()
		return agentCache, nil
	}
	agentCacheLock.RUnlock()

	agents, err := storage.ListAgents()
	if err != nil {
		return nil, err
	}

	agentCacheLock.Lock()
	agentCache = agents
	agentCacheTime = time.Now()
	agentCacheLock.Unlock()

	return agents, nil
}

func parseDiscoveryFilters(values url.Values) DiscoveryFilters {
	filters := DiscoveryFilters{IncludeDescriptions: true, Format: "json", Limit: 100}
	for _, name := range []string{"agent", "node_id", "agent_ids", "node_ids"} {
		filters.AgentIDs = append(filters.AgentIDs, split(values.Get(name))...)
	}
	if pattern := values.Get("reasoner"); pattern != "" {
		filters.ReasonerPattern = &pattern
	}
	if pattern := values.Get("skill"); pattern != "" {
		filters.SkillPattern = &pattern
	}
	if health := values.Get("health_status"); health != "" {
		filters.HealthStatus = &health
	}
	filters.Tags = split(values.Get("tags"))
	filters.IncludeInputSchema = values.Get("include_input_schema") == "true"
	filters.IncludeOutputSchema = values.Get("include_output_schema") == "true"
	filters.IncludeDescriptions = values.Get("include_descriptions") != "false"
	if format := values.Get("format"); format != "" {
		filters.Format = format
	}
	if limit, err := strconv.Atoi(values.Get("limit")); err == nil && limit >= 0 && limit <= 500 {
		filters.Limit = limit
	}
	if offset, err := strconv.Atoi(values.Get("offset")); err == nil && offset >= 0 {
		filters.Offset = offset
	}
	return filters
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func buildDiscoveryResponse(agents []*AgentNode, filters DiscoveryFilters) DiscoveryResponse {
	response := DiscoveryResponse{DiscoveredAt: time.Now().UTC()}

	for _, agent := range agents {
		if len(filters.AgentIDs) > 0 && !contains(filters.AgentIDs, agent.ID) {
			continue
		}
		if filters.HealthStatus != nil && agent.HealthStatus != *filters.HealthStatus {
			continue
		}

		agentCap := AgentCapability{
			AgentID:        agent.ID,
			BaseURL:        agent.BaseURL,
			Version:        agent.Version,
			HealthStatus:   agent.HealthStatus,
			DeploymentType: agent.DeploymentType,
			LastHeartbeat:  agent.LastHeartbeat,
		}

		for _, reasoner := range agent.Reasoners {
			if matchesFilters(reasoner.ID, reasoner.Tags, filters) {
				agentCap.Reasoners = append(agentCap.Reasoners, buildCapability(reasoner, agent.ID+":"+reasoner.ID, filters))
			}
		}

		for _, skill := range agent.Skills {
			if matchesFilters(skill.ID, skill.Tags, filters) {
				agentCap.Skills = append(agentCap.Skills, buildCapability(skill, agent.ID+":skill:"+skill.ID, filters))
			}
		}

		if len(agentCap.Reasoners) > 0 || len(agentCap.Skills) > 0 {
			response.TotalReasoners += len(agentCap.Reasoners)
			response.TotalSkills += len(agentCap.Skills)
			response.Capabilities = append(response.Capabilities, agentCap)
		}
	}

	response.TotalAgents = len(response.Capabilities)
	first := min(filters.Offset, response.TotalAgents)
	end := min(first+filters.Limit, response.TotalAgents)
	response.Pagination = Pagination{filters.Limit, filters.Offset, end < response.TotalAgents}
	response.Capabilities = response.Capabilities[first:end]
	return response
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func contains(ids []string, id string) bool {
	for _, wanted := range ids {
		if wanted == id {
			return true
		}
	}
	return false
}

func buildCapability(definition Definition, target string, filters DiscoveryFilters) Capability {
	capability := Capability{ID: definition.ID, Tags: definition.Tags, InvocationTarget: target}
	if filters.IncludeDescriptions && definition.Description != "" {
		capability.Description = &definition.Description
	}
	if filters.IncludeInputSchema && len(definition.InputSchema) > 0 {
		_ = json.Unmarshal(definition.InputSchema, &capability.InputSchema)
	}
	if filters.IncludeOutputSchema && len(definition.OutputSchema) > 0 {
		_ = json.Unmarshal(definition.OutputSchema, &capability.OutputSchema)
	}
	return capability
}

func matchesPattern(value string, pattern string) bool {
	if !strings.Contains(pattern, "*") {
		return value == pattern
	}

	if strings.HasPrefix(pattern, "*") && strings.HasSuffix(pattern, "*") {
		return strings.Contains(value, strings.Trim(pattern, "*"))
	} else if strings.HasPrefix(pattern, "*") {
		return strings.HasSuffix(value, strings.TrimPrefix(pattern, "*"))
	} else if strings.HasSuffix(pattern, "*") {
		return strings.HasPrefix(value, strings.TrimSuffix(pattern, "*"))
	}

	return value == pattern
}

func matchesFilters(id string, tags []string, filters DiscoveryFilters) bool {
	if filters.ReasonerPattern != nil && !matchesPattern(id, *filters.ReasonerPattern) {
		return false
	}
	if filters.SkillPattern != nil && !matchesPattern(id, *filters.SkillPattern) {
		return false
	}

	if len(filters.Tags) > 0 {
		matched := false
		for _, filterTag := range filters.Tags {
			for _, tag := range tags {
				if matchesPattern(tag, filterTag) {
					matched = true
					break
				}
			}
			if matched {
				break
			}
		}
		if !matched {
			return false
		}
	}

	return true
}

func toCompact(response DiscoveryResponse) CompactResponse {
	compact := CompactResponse{DiscoveredAt: response.DiscoveredAt}
	for _, agent := range response.Capabilities {
		for _, item := range agent.Reasoners {
			compact.Reasoners = append(compact.Reasoners, CompactCapability{item.ID, agent.AgentID, item.InvocationTarget, item.Tags})
		}
		for _, item := range agent.Skills {
			compact.Skills = append(compact.Skills, CompactCapability{item.ID, agent.AgentID, item.InvocationTarget, item.Tags})
		}
	}
	return compact
}

func toXML(response DiscoveryResponse) XMLResponse {
	answer := XMLResponse{
		DiscoveredAt: response.DiscoveredAt,
		Summary:      XMLSummary{response.TotalAgents, response.TotalReasoners, response.TotalSkills},
	}
	for _, agent := range response.Capabilities {
		written := XMLAgent{
			ID:             agent.AgentID,
			BaseURL:        agent.BaseURL,
			Version:        agent.Version,
			HealthStatus:   agent.HealthStatus,
			DeploymentType: agent.DeploymentType,
			LastHeartbeat:  agent.LastHeartbeat,
		}
		for _, item := range agent.Reasoners {
			written.Reasoners = append(written.Reasoners, XMLCapability{item.ID, item.InvocationTarget, item.Description, item.Tags})
		}
		for _, item := range agent.Skills {
			written.Skills = append(written.Skills, XMLCapability{item.ID, item.InvocationTarget, item.Description, item.Tags})
		}
		answer.Agents = append(answer.Agents, written)
	}
	return answer
}

func discoveryCapabilitiesHandler(storage *storage) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		filters := parseDiscoveryFilters(r.URL.Query())
		agents, err := getCachedAgents(storage)
		if err != nil {
			http.Error(w, `{"error":"failed to fetch agents"}`, http.StatusInternalServerError)
			return
		}
		response := buildDiscoveryResponse(agents, filters)
		var body []byte
		kind := "application/json; charset=utf-8"
		switch filters.Format {
		case "xml":
			kind = "application/xml; charset=utf-8"
			body, err = xml.Marshal(toXML(response))
		case "compact":
			body, err = json.Marshal(toCompact(response))
		default:
			body, err = json.Marshal(response)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: reference CATALOGUE.json")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var agents []*AgentNode
	if err := json.Unmarshal(text, &agents); err != nil {
		log.Fatal(err)
	}
	now := time.Now().UTC()
	for _, agent := range agents {
		agent.HealthStatus, agent.LastHeartbeat = "active", now
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	http.Handle("/api/v1/discovery/capabilities", discoveryCapabilitiesHandler(&storage{agents}))
	log.Fatal(http.Serve(listener, nil))
}
