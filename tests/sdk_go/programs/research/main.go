// Research is the agent of the seed's examples: a reasoner that researches, and skills for the web. Its id is the first
// argument.
package main

import (
	"context"
	"log"
	"os"

	"github.com/Agent-Field/agentfield/sdk/go/agent"
)

type question struct {
	Query   string   `json:"query" description:"Research query or topic"`
	Depth   int      `json:"depth" default:"3" minimum:"1" maximum:"5" description:"Research depth level"`
	Sources []string `json:"sources,omitempty" description:"Specific sources to search"`
}

type findings struct {
	Findings   []string `json:"findings"`
	Depth      int      `json:"depth"`
	Confidence float64  `json:"confidence" minimum:"0" maximum:"1"`
}

type search struct {
	Query string `json:"query"`
}

func main() {
	app := agent.NewAgent(agent.WithID(os.Args[1]), agent.WithVersion("2.3.1"), agent.WithAbout("Research", "lab"))
	agent.RegisterReasoner(app, "deep_research", research,
		agent.Description("Performs comprehensive research using multiple sources"),
		agent.Tags("research", "ml", "synthesis"),
		agent.Example("Basic research query", question{Query: "Latest advances in quantum computing", Depth: 3}))
	agent.RegisterReasoner(app, "summarise", research, agent.Tags("text"))
	agent.RegisterSkill(app, "web_search", look, agent.Description("Search the web"), agent.Tags("web", "search", "data"))
	agent.RegisterSkill(app, "web_scrape", look, agent.Tags("scraping", "mlops"))
	if err := app.Run(); err != nil {
		log.Fatal(err)
	}
}

func research(_ context.Context, in question) (findings, error) {
	return findings{Findings: []string{"found: " + in.Query}, Depth: in.Depth, Confidence: 0.5}, nil
}

func look(_ context.Context, in search) ([]string, error) { return []string{in.Query}, nil }
