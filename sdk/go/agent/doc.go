// Package agent is the Go SDK of the Switchboard control plane: find out what agents can do, have them do it, and write
// agents.
//
//	app := agent.NewAgent()
//	found, err := app.Discover(ctx, agent.WithTags([]string{"research"}))
//	...
//	result, err := app.Execute(ctx, agent.ExecuteRequest{
//		Target: found.Capabilities[0].Reasoners[0].InvocationTarget,
//		Input:  map[string]any{"query": "AI trends 2025"},
//	})
//
// An agent of your own is functions with names, and [Agent.Run]:
//
//	app := agent.NewAgent(agent.WithID("researcher"))
//	agent.RegisterReasoner(app, "deep_research", func(ctx context.Context, in Question) (Answer, error) { ... })
//	err := app.Run()
//
// Every error that the control plane answers with is an [*APIError]. The package needs nothing but the standard library.
package agent
