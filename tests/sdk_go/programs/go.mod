module example.org/programs

go 1.22

require github.com/Agent-Field/agentfield/sdk/go v0.0.0

replace github.com/Agent-Field/agentfield/sdk/go => ../../../sdk/go
