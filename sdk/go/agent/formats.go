package agent

import (
	"encoding/xml"
	"fmt"
	"time"
)

// readCompact fills the common fields, too, so that one loop reads every format.
func readCompact(got *answer, compact CompactDiscovery) *DiscoveryResponse {
	found := &DiscoveryResponse{
		DiscoveredAt:   compact.DiscoveredAt,
		TotalReasoners: len(compact.Reasoners),
		TotalSkills:    len(compact.Skills),
		Compact:        &compact,
	}
	places := map[string]int{}
	agentOf := func(id string) *AgentCapability {
		if _, known := places[id]; !known {
			places[id] = len(found.Capabilities)
			found.Capabilities = append(found.Capabilities, AgentCapability{AgentID: id})
		}
		return &found.Capabilities[places[id]]
	}
	for place := range compact.Reasoners {
		one := &compact.Reasoners[place]
		one.Tags = orEmpty(one.Tags)
		owner := agentOf(one.AgentID)
		owner.Reasoners = append(owner.Reasoners, ReasonerCapability{
			ID: one.ID, Description: one.Description, Tags: one.Tags, InvocationTarget: one.Target,
		})
	}
	for place := range compact.Skills {
		one := &compact.Skills[place]
		one.Tags = orEmpty(one.Tags)
		owner := agentOf(one.AgentID)
		owner.Skills = append(owner.Skills, SkillCapability{
			ID: one.ID, Description: one.Description, Tags: one.Tags, InvocationTarget: one.Target,
		})
	}
	withPage(found, got)
	return found
}

type xmlDiscovery struct {
	DiscoveredAt string `xml:"discovered_at,attr"`
	Summary      struct {
		Agents    int `xml:"total_agents,attr"`
		Reasoners int `xml:"total_reasoners,attr"`
		Skills    int `xml:"total_skills,attr"`
	} `xml:"summary"`
	Agents []xmlAgent `xml:"capabilities>agent"`
	Nearer []xmlAgent `xml:"agent"`
}

type xmlAgent struct {
	ID             string          `xml:"id,attr"`
	BaseURL        string          `xml:"base_url,attr"`
	Version        string          `xml:"version,attr"`
	HealthStatus   string          `xml:"health_status,attr"`
	DeploymentType string          `xml:"deployment_type,attr"`
	LastHeartbeat  string          `xml:"last_heartbeat,attr"`
	Reasoners      []xmlCapability `xml:"reasoners>reasoner"`
	Skills         []xmlCapability `xml:"skills>skill"`
}

type xmlCapability struct {
	ID          string   `xml:"id,attr"`
	Target      string   `xml:"target,attr"`
	Description *string  `xml:"description"`
	Tags        []string `xml:"tags>tag"`
}

// readXML fills the common fields as far as XML has them; schemas are in the text only.
func readXML(got *answer) (*DiscoveryResponse, error) {
	var document xmlDiscovery
	if err := xml.Unmarshal(got.body, &document); err != nil {
		return nil, fmt.Errorf("decode the answer as XML: %w", err)
	}
	at, err := xmlTime("discovered_at", document.DiscoveredAt)
	if err != nil {
		return nil, err
	}
	found := &DiscoveryResponse{
		DiscoveredAt:   at,
		TotalAgents:    document.Summary.Agents,
		TotalReasoners: document.Summary.Reasoners,
		TotalSkills:    document.Summary.Skills,
	}
	for _, one := range append(document.Agents, document.Nearer...) {
		capability, err := one.read()
		if err != nil {
			return nil, err
		}
		found.Capabilities = append(found.Capabilities, capability)
	}
	total := found.TotalAgents
	withPage(found, got)
	found.TotalAgents = max(total, found.TotalAgents)
	return found, nil
}

func (x xmlAgent) read() (AgentCapability, error) {
	seen, err := xmlTime("last_heartbeat", x.LastHeartbeat)
	read := AgentCapability{
		AgentID: x.ID, BaseURL: x.BaseURL, Version: x.Version, HealthStatus: x.HealthStatus,
		DeploymentType: x.DeploymentType, LastHeartbeat: seen,
	}
	for _, one := range x.Reasoners {
		read.Reasoners = append(read.Reasoners, ReasonerCapability{
			ID: one.ID, Description: one.Description, Tags: one.Tags, InvocationTarget: one.Target,
		})
	}
	for _, one := range x.Skills {
		read.Skills = append(read.Skills, SkillCapability{
			ID: one.ID, Description: one.Description, Tags: one.Tags, InvocationTarget: one.Target,
		})
	}
	return read, err
}

func xmlTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	found, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return found, fmt.Errorf("decode the answer as XML: %s is %s in the place of a time", name, shortly(text))
	}
	return found, nil
}

// withPage fills what the formats without paging say in headers only.
func withPage(found *DiscoveryResponse, got *answer) {
	found.TotalAgents = max(freshnessOf(got, time.Time{}).TotalCount, len(found.Capabilities))
	found.Pagination.HasMore = nextLink(got.header.Get("Link")) != ""
	found.Pagination.Limit = len(found.Capabilities)
}
