"""Discover what agents can do, execute it, and write agents of your own.

from agentfield import Agent

app = Agent()
found = app.discover(tags=["research"])
print(app.execute(target=found.capabilities[0].reasoners[0].invocation_target, input={"query": "AI trends 2025"}))
"""

from agentfield.app import Agent
from agentfield.context import Context
from agentfield.discovery import (
    AgentCapability,
    CompactCapability,
    CompactDiscoveryResponse,
    DiscoveryResponse,
    Filters,
    Pagination,
    ReasonerCapability,
    SkillCapability,
)
from agentfield.errors import (
    AgentFieldError,
    APIError,
    BadAnswer,
    Conflict,
    ConnectionFailed,
    ExecutionCancelled,
    ExecutionFailed,
    ExecutionTimedOut,
    Forbidden,
    InvalidInput,
    InvalidRequest,
    InvalidToolCall,
    NotFound,
    Timeout,
    Unauthorized,
    Unavailable,
    WouldBlock,
)
from agentfield.execution import Execution
from agentfield.handle import Handle
from agentfield.links import VERSION
from agentfield.tools import ToolCall, from_tool_call, to_anthropic_tools, to_openai_tools
from agentfield.watching import Change

__version__ = VERSION

__all__ = [
    "APIError",
    "Agent",
    "AgentCapability",
    "AgentFieldError",
    "BadAnswer",
    "Change",
    "CompactCapability",
    "CompactDiscoveryResponse",
    "Conflict",
    "ConnectionFailed",
    "Context",
    "DiscoveryResponse",
    "Execution",
    "ExecutionCancelled",
    "ExecutionFailed",
    "ExecutionTimedOut",
    "Filters",
    "Forbidden",
    "Handle",
    "InvalidInput",
    "InvalidRequest",
    "InvalidToolCall",
    "NotFound",
    "Pagination",
    "ReasonerCapability",
    "SkillCapability",
    "Timeout",
    "ToolCall",
    "Unauthorized",
    "Unavailable",
    "WouldBlock",
    "from_tool_call",
    "to_anthropic_tools",
    "to_openai_tools",
]
