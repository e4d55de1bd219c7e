module github.com/Agent-Field/agentfield/sdk/go

go 1.22
