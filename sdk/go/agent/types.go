package agent

import (
	"encoding/json"
	"time"
)

// DiscoveryResponse is what [Agent.Discover] found. Its fields are filled for every format, as far as the format has
// them; String is the answer as it came.
type DiscoveryResponse struct {
	DiscoveredAt   time.Time         `json:"discovered_at"`
	TotalAgents    int               `json:"total_agents"`
	TotalReasoners int               `json:"total_reasoners"`
	TotalSkills    int               `json:"total_skills"`
	Pagination     Pagination        `json:"pagination"`
	Capabilities   []AgentCapability `json:"capabilities"`

	// Compact is the list of the format "compact", else nil.
	Compact *CompactDiscovery `json:"-"`
	// Freshness says how fresh this is.
	Freshness Freshness `json:"-"`

	text string
	next string
}

// String returns the answer as it came: the JSON, or with the format "xml" the XML, ready for a prompt.
func (r *DiscoveryResponse) String() string {
	if r == nil {
		return ""
	}
	if r.text != "" {
		return r.text
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Pagination says which part of all agents this is.
type Pagination struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"has_more"`
}

// AgentCapability is one agent, and what it can do.
type AgentCapability struct {
	AgentID        string               `json:"agent_id"`
	GroupID        string               `json:"group_id,omitempty"`
	BaseURL        string               `json:"base_url"`
	Version        string               `json:"version"`
	HealthStatus   string               `json:"health_status"`
	DeploymentType string               `json:"deployment_type"`
	LastHeartbeat  time.Time            `json:"last_heartbeat"`
	Reasoners      []ReasonerCapability `json:"reasoners"`
	Skills         []SkillCapability    `json:"skills"`
}

// ReasonerCapability is one reasoner. What was not asked for is nil.
type ReasonerCapability struct {
	ID               string                   `json:"id"`
	Description      *string                  `json:"description,omitempty"`
	Tags             []string                 `json:"tags"`
	InputSchema      map[string]interface{}   `json:"input_schema,omitempty"`
	OutputSchema     map[string]interface{}   `json:"output_schema,omitempty"`
	Examples         []map[string]interface{} `json:"examples,omitempty"`
	InvocationTarget string                   `json:"invocation_target"`
}

// SkillCapability is one skill. What was not asked for is nil.
type SkillCapability struct {
	ID               string                   `json:"id"`
	Description      *string                  `json:"description,omitempty"`
	Tags             []string                 `json:"tags"`
	InputSchema      map[string]interface{}   `json:"input_schema,omitempty"`
	OutputSchema     map[string]interface{}   `json:"output_schema,omitempty"`
	Examples         []map[string]interface{} `json:"examples,omitempty"`
	InvocationTarget string                   `json:"invocation_target"`
}

// CompactDiscovery is the answer of the format "compact": one short entry for each capability.
type CompactDiscovery struct {
	DiscoveredAt time.Time           `json:"discovered_at"`
	Reasoners    []CompactCapability `json:"reasoners"`
	Skills       []CompactCapability `json:"skills"`
}

// CompactCapability is one capability in few words.
type CompactCapability struct {
	ID          string   `json:"id"`
	AgentID     string   `json:"agent_id"`
	Target      string   `json:"target"`
	Tags        []string `json:"tags"`
	Description *string  `json:"description,omitempty"`
}
