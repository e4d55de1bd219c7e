"""What an orchestrator of the published SDK sees: its own `discover()` in all three formats, printed as JSON."""

import json

from agentfield import Agent

app = Agent(node_id="orchestrator", auto_register=False, enable_did=False)
found = app.discover(tags=["ml*"], include_input_schema=True)
compact = app.discover(format="compact")
xml = app.discover(format="xml")
agent = found.json.capabilities[0]
print(
    json.dumps(
        {
            "total_agents": found.json.total_agents,
            "agent_id": agent.agent_id,
            "reasoner": agent.reasoners[0].id,
            "target": agent.reasoners[0].invocation_target,
            "required": agent.reasoners[0].input_schema["required"],
            "compact": sorted(item.target for item in (*compact.compact.reasoners, *compact.compact.skills)),
            "xml": xml.xml,
        }
    )
)
