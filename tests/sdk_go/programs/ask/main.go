// Ask discovers or executes as its argument says, a JSON object, and prints what came of it as one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	"github.com/Agent-Field/agentfield/sdk/go/agent"
)

type wish struct {
	Options map[string]any `json:"options"`
	Pages   bool           `json:"pages"`
	Again   bool           `json:"again"`
	Execute *struct {
		Target  string         `json:"target"`
		Input   map[string]any `json:"input"`
		Key     string         `json:"key"`
		Session string         `json:"session"`
	} `json:"execute"`
	Submit bool   `json:"submit"`
	Cancel string `json:"cancel"`
}

type told struct {
	Found     *agent.DiscoveryResponse `json:"found,omitempty"`
	Compact   *agent.CompactDiscovery  `json:"compact,omitempty"`
	Text      string                   `json:"text,omitempty"`
	Freshness *agent.Freshness         `json:"freshness,omitempty"`
	Pages     [][]string               `json:"pages,omitempty"`
	Execution *agent.Execution         `json:"execution,omitempty"`
	Said      string                   `json:"said,omitempty"`
	Refused   *agent.APIError          `json:"refused,omitempty"`
}

func main() {
	var asked wish
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := ask(ctx, agent.NewAgent(), asked)
	if err != nil {
		answer.Said = err.Error()
		errors.As(err, &answer.Refused)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, app *agent.Agent, asked wish) (told, error) {
	switch {
	case asked.Cancel != "":
		return told{}, app.Cancel(ctx, asked.Cancel, "enough")
	case asked.Execute != nil:
		request := agent.ExecuteRequest{
			Target: asked.Execute.Target, Input: asked.Execute.Input, IdempotencyKey: asked.Execute.Key,
			SessionID: asked.Execute.Session,
		}
		return execute(ctx, app, request, asked.Submit)
	case asked.Pages:
		return pages(ctx, app, asked.Options)
	}
	found, err := app.Discover(options(ctx, asked.Options)...)
	if err == nil && asked.Again {
		found, err = app.Discover(append(options(ctx, asked.Options), agent.WithPrevious(found))...)
	}
	if err != nil {
		return told{}, err
	}
	return told{Found: found, Compact: found.Compact, Text: found.String(), Freshness: &found.Freshness}, nil
}

func execute(ctx context.Context, app *agent.Agent, request agent.ExecuteRequest, submit bool) (told, error) {
	if !submit {
		done, err := app.Execute(ctx, request)
		return told{Execution: done}, err
	}
	accepted, err := app.Submit(ctx, request)
	if err != nil {
		return told{}, err
	}
	done, err := app.Wait(ctx, accepted.ExecutionID)
	return told{Execution: done}, err
}

func pages(ctx context.Context, app *agent.Agent, chosen map[string]any) (answer told, failed error) {
	app.Pages(options(ctx, chosen)...)(func(page *agent.DiscoveryResponse, err error) bool {
		if err != nil {
			failed = err
			return false
		}
		var ids []string
		for _, one := range page.Capabilities {
			ids = append(ids, one.AgentID)
		}
		answer.Pages = append(answer.Pages, ids)
		return true
	})
	return answer, failed
}

func options(ctx context.Context, chosen map[string]any) []agent.DiscoverArgument {
	made := []agent.DiscoverArgument{ctx}
	for name, value := range chosen {
		switch given := value.(type) {
		case string:
			made = append(made, map[string]func(string) agent.DiscoverOption{
				"WithAgent": agent.WithAgent, "WithNodeID": agent.WithNodeID, "WithFormat": agent.WithFormat,
				"WithReasonerPattern": agent.WithReasonerPattern, "WithSkillPattern": agent.WithSkillPattern,
				"WithHealthStatus": agent.WithHealthStatus,
			}[name](given))
		case bool:
			made = append(made, map[string]func(bool) agent.DiscoverOption{
				"WithInputSchema": agent.WithInputSchema, "WithOutputSchema": agent.WithOutputSchema,
				"WithSchemas": agent.WithSchemas, "WithDescriptions": agent.WithDescriptions, "WithExamples": agent.WithExamples,
			}[name](given))
		case float64:
			made = append(made, map[string]func(int) agent.DiscoverOption{
				"WithLimit": agent.WithLimit, "WithOffset": agent.WithOffset,
			}[name](int(given)))
		case []any:
			var texts []string
			for _, one := range given {
				texts = append(texts, one.(string))
			}
			made = append(made, map[string]func([]string) agent.DiscoverOption{
				"WithAgentIDs": agent.WithAgentIDs, "WithNodeIDs": agent.WithNodeIDs, "WithTags": agent.WithTags,
			}[name](texts))
		}
	}
	return made
}
