"""What the conformance suites look for on a server: their `test_*` tools, prompts and resources.

Written as methods of a product would be, on the `Exchange` alone: which generation of the protocol asks is none of
their business, save where the suites want logs, hints for caches or codes of only one of them.
"""

import json
from asyncio import Queue
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from switchboard.mcp.greeting import META, Greeting
from switchboard.mcp.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND, SUBSCRIPTION, Fault, Result
from switchboard.mcp.protocol import Exchange, Method, Question

GREETING = Greeting(
    {"name": "switchboard-conformance", "version": "1.0.0"},
    {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
    },
    "A server with everything that the conformance suites ask for.",
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
HEADER_TOOL = "test_header_parameters"

Json = dict[str, Any]
Tool = Callable[[Exchange, Json], Awaitable[Json]]


class _Call(Struct):
    name: str
    arguments: Json = {}


class _Read(Struct):
    uri: str


class _Level(Struct):
    level: str


class _LogMeta(Struct):
    level: str | None = field(default=None, name=META + "logLevel")


class _Logged(Struct):
    meta: _LogMeta = field(default_factory=_LogMeta, name="_meta")


class _Argument(Struct):
    name: str
    value: str


class _Complete(Struct):
    ref: Json
    argument: _Argument


class _Filter(Struct):
    tools: bool = field(default=False, name="toolsListChanged")
    prompts: bool = field(default=False, name="promptsListChanged")
    resources: bool = field(default=False, name="resourcesListChanged")


class _Listen(Struct):
    notifications: _Filter


class Fixture:
    """Everything the suites call; the level of logs and the open subscriptions are all it remembers."""

    def __init__(self) -> None:
        self._level = "info"
        self._listening: set[Queue[str]] = set()
        self._calls = self._tools()

    def methods(self) -> dict[str, Method]:
        """Return the methods by name."""
        return {
            "tools/list": _list("tools", TOOLS),
            "tools/call": self._call,
            "prompts/list": _list("prompts", PROMPTS),
            "prompts/get": _prompt,
            "resources/list": _list("resources", RESOURCES),
            "resources/templates/list": _list("resourceTemplates", TEMPLATES),
            "resources/read": _read,
            "resources/subscribe": _accept,
            "resources/unsubscribe": _accept,
            "completion/complete": _complete,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
        }

    def _tools(self) -> dict[str, Tool]:
        return {
            "test_simple_text": _simple_text,
            "test_image_content": _image,
            "test_audio_content": _audio,
            "test_embedded_resource": _embedded,
            "test_multiple_content_types": _mixed,
            "test_error_handling": _error,
            "test_tool_with_logging": self._logging,
            "test_logging_tool": self._logging,
            "test_tool_with_progress": _progress,
            "test_sampling": _sampling,
            "test_missing_capability": _sampling,
            "test_elicitation": _elicitation,
            "test_streaming_elicitation": _streaming_elicitation,
            "test_elicitation_sep1034_defaults": _asks_form("Please review", DEFAULTS),
            "test_elicitation_sep1330_enums": _asks_form("Please choose", ENUMS),
            "test_trigger_tool_change": self._changes("tools"),
            "test_trigger_prompt_change": self._changes("prompts"),
            "test_input_required_result_elicitation": _greets,
            "test_input_required_result_sampling": _capital,
            "test_input_required_result_list_roots": _roots,
            "test_input_required_result_request_state": _confirms,
            "test_input_required_result_tampered_state": _confirms,
            "test_input_required_result_multiple_inputs": _several,
            "test_input_required_result_multi_round": _rounds,
            "test_input_required_result_capabilities": _what_it_can,
            "json_schema_2020_12_tool": _simple_text,
            HEADER_TOOL: _simple_text,
        }

    async def _call(self, exchange: Exchange) -> Result:
        call = exchange.read(_Call)
        tool = self._calls.get(call.name)
        if tool is None:
            raise Fault(INVALID_PARAMS, f"Unknown tool: {call.name}")
        return await tool(exchange, call.arguments)

    def _set_level(self, exchange: Exchange) -> Result:
        level = exchange.read(_Level).level
        if level not in LEVELS:
            raise Fault(INVALID_PARAMS, f"Unknown level: {level}")
        self._level = level
        return {}

    async def _logging(self, exchange: Exchange, _arguments: Json) -> Json:
        least = exchange.read(_Logged).meta.level if exchange.modern else self._level
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            if least is not None and LEVELS.index("info") >= LEVELS.index(least):
                exchange.notify("notifications/message", {"level": "info", "logger": "fixture", "data": text})
        return _text("Said three things.")

    def _changes(self, kind: str) -> Tool:
        async def change(_exchange: Exchange, _arguments: Json) -> Json:
            for queue in self._listening:
                queue.put_nowait(kind)
            return _text(f"The {kind} have changed.")

        return change

    async def _listen(self, exchange: Exchange) -> Result:
        wanted = exchange.read(_Listen).notifications
        kinds = [kind for kind in ("tools", "prompts", "resources") if getattr(wanted, kind)]
        identity = {"_meta": {SUBSCRIPTION: exchange.id}}
        honoured = {f"{kind}ListChanged": True for kind in kinds}
        exchange.notify("notifications/subscriptions/acknowledged", {**identity, "notifications": honoured})
        changes: Queue[str] = Queue()
        self._listening.add(changes)
        try:
            while kind := await changes.get():
                if kind in kinds:
                    exchange.notify(f"notifications/{kind}/list_changed", identity)
        finally:
            self._listening.discard(changes)
        return identity


def header_parameters(tool: str) -> dict[str, str]:
    """Return which arguments of a tool a client also sends as a header, and the names of the headers."""
    found = next((item for item in TOOLS if item["name"] == tool), None)
    properties: Json = {} if found is None else found["inputSchema"].get("properties", {})
    return {name: f"mcp-param-{item['x-mcp-header']}" for name, item in properties.items() if "x-mcp-header" in item}


def _list(key: str, entries: list[Json]) -> Method:
    return lambda exchange: _cacheable(exchange, {key: entries})


def _cacheable(exchange: Exchange, result: Json) -> Json:
    return {**result, "ttlMs": 1000, "cacheScope": "public"} if exchange.modern else result


def _accept(exchange: Exchange) -> Result:
    exchange.read(_Read)
    return {}


def _complete(exchange: Exchange) -> Result:
    begun = exchange.read(_Complete).argument.value
    values = [word for word in ("test", "testing", "text") if word.startswith(begun)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def _read(exchange: Exchange) -> Result:
    uri = exchange.read(_Read).uri
    inner = uri.removeprefix("test://template/").removesuffix("/data")
    if uri == "test://static-text":
        content = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif uri == "test://static-binary":
        content = {"mimeType": "image/png", "blob": PIXEL}
    elif uri == f"test://template/{inner}/data":
        said = {"id": inner, "templateTest": True, "data": f"Data for ID: {inner}"}
        content = {"mimeType": "application/json", "text": json.dumps(said)}
    else:
        raise Fault(INVALID_PARAMS if exchange.modern else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
    return _cacheable(exchange, {"contents": [{"uri": uri, **content}]})


async def _prompt(exchange: Exchange) -> Result:
    call = exchange.read(_Call)
    match call.name:
        case "test_simple_prompt":
            return _messages(_part("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            given = ", ".join(f"{name}='{call.arguments.get(name)}'" for name in ("arg1", "arg2"))
            return _messages(_part(f"Prompt with arguments: {given}"))
        case "test_prompt_with_embedded_resource":
            uri = str(call.arguments.get("resourceUri"))
            resource = {"uri": uri, "mimeType": "text/plain", "text": "Embedded resource content for testing."}
            after = _part("Please process the embedded resource above.")
            return _messages({"type": "resource", "resource": resource}, after)
        case "test_prompt_with_image":
            return _messages(_picture(), _part("Please analyze the image above."))
        case "test_input_required_result_prompt":
            answer = await exchange.ask("user_context", _form("What context should the prompt use?", "context"))
            return _messages(_part(f"In this context: {json.dumps(answer)}"))
        case _:
            raise Fault(INVALID_PARAMS, f"Unknown prompt: {call.name}")


async def _simple_text(_exchange: Exchange, _arguments: Json) -> Json:
    return _text("This is a simple text response for testing.")


async def _image(_exchange: Exchange, _arguments: Json) -> Json:
    return {"content": [_picture()]}


async def _audio(_exchange: Exchange, _arguments: Json) -> Json:
    return {"content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]}


async def _embedded(_exchange: Exchange, _arguments: Json) -> Json:
    text = "This is an embedded resource content."
    return {"content": [_resource("test://embedded-resource", "text/plain", text)]}


async def _mixed(_exchange: Exchange, _arguments: Json) -> Json:
    text = json.dumps({"test": "data", "value": 123})
    resource = _resource("test://mixed-content-resource", "application/json", text)
    return {"content": [_part("Multiple content types test:"), _picture(), resource]}


async def _error(_exchange: Exchange, _arguments: Json) -> Json:
    return {**_text("This tool intentionally returns an error for testing"), "isError": True}


async def _progress(exchange: Exchange, _arguments: Json) -> Json:
    for done in (0, 50, 100):
        exchange.progress(done, 100, f"{done} of 100")
    return _text("Told how far it was.")


async def _sampling(exchange: Exchange, arguments: Json) -> Json:
    answer = await exchange.ask("sample", _sample(str(arguments.get("prompt", "Say something")), 100))
    return _text(f"LLM response: {json.dumps(answer)}")


async def _elicitation(exchange: Exchange, arguments: Json) -> Json:
    answer = await exchange.ask("user", _form(str(arguments.get("message", "Who are you?")), "username", "email"))
    return _text(f"User response: {json.dumps(answer)}")


async def _streaming_elicitation(exchange: Exchange, _arguments: Json) -> Json:
    exchange.progress(1, 2)
    answer = await exchange.ask("user", _form("Who are you?", "username"))
    return _text(f"User response: {json.dumps(answer)}")


def _asks_form(message: str, properties: Json) -> Tool:
    async def ask(exchange: Exchange, _arguments: Json) -> Json:
        schema: Json = {"type": "object", "properties": properties, "required": []}
        question = Question("elicitation/create", {"message": message, "requestedSchema": schema})
        answer = await exchange.ask("form", question)
        return _text(f"Elicitation completed: {json.dumps(answer)}")

    return ask


async def _greets(exchange: Exchange, _arguments: Json) -> Json:
    answer = await exchange.ask("user_name", _form("What is your name?", "name"))
    return _text(f"Hello, {answer['content']['name']}!")


async def _capital(exchange: Exchange, _arguments: Json) -> Json:
    answer = await exchange.ask("capital_question", _sample("What is the capital of France?", 100))
    return _text(answer["content"]["text"])


async def _roots(exchange: Exchange, _arguments: Json) -> Json:
    answer = await exchange.ask("client_roots", Question("roots/list"))
    return _text(", ".join(root["uri"] for root in answer["roots"]))


async def _confirms(exchange: Exchange, _arguments: Json) -> Json:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    question = Question("elicitation/create", {"message": "Please confirm", "requestedSchema": schema})
    answer = await exchange.ask("confirm", question)
    return _text(f"state-ok {json.dumps(answer)}")


async def _several(exchange: Exchange, _arguments: Json) -> Json:
    answers = await exchange.ask_all(_SEVERAL)
    return _text(json.dumps(answers))


async def _rounds(exchange: Exchange, _arguments: Json) -> Json:
    name = await exchange.ask("step1", _form("Step 1: What is your name?", "name"))
    color = await exchange.ask("step2", _form("Step 2: What is your favorite color?", "color"))
    return _text(f"{name['content']['name']} likes {color['content']['color']}.")


async def _what_it_can(exchange: Exchange, _arguments: Json) -> Json:
    possible = {key: question for key, question in _SEVERAL.items() if exchange.can_be_asked(question)}
    return _text(json.dumps(await exchange.ask_all(possible)))


def _text(text: str) -> Json:
    return {"content": [_part(text)]}


def _part(text: str) -> Json:
    return {"type": "text", "text": text}


def _picture() -> Json:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def _resource(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def _messages(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": part} for part in parts]}


def _form(message: str, *names: str) -> Question:
    properties = {name: {"type": "string", "description": f"Your {name}"} for name in names}
    schema = {"type": "object", "properties": properties, "required": list(names)}
    return Question("elicitation/create", {"message": message, "requestedSchema": schema})


def _sample(text: str, most: int) -> Question:
    return Question(
        "sampling/createMessage", {"messages": [{"role": "user", "content": _part(text)}], "maxTokens": most}
    )


def _tool(name: str, properties: Mapping[str, Any] | None = None, **schema: Any) -> Json:
    schema = {"type": "object", "properties": dict(properties or {}), **schema}
    return {"name": name, "description": f"What the suites call {name}.", "inputSchema": schema}


def _titled(*titles: str) -> list[Json]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


_SEVERAL = {
    "user_name": _form("What is your name?", "name"),
    "greeting": _sample("Generate a greeting", 50),
    "client_roots": Question("roots/list"),
}
_OPTIONS = ["option1", "option2", "option3"]
DEFAULTS: Json = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
ENUMS: Json = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _titled("First Option", "Second Option", "Third Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
}
_SCHEMA_2020_12: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
TOOLS: list[Json] = [
    _tool("test_simple_text"),
    _tool("test_image_content"),
    _tool("test_audio_content"),
    _tool("test_embedded_resource"),
    _tool("test_multiple_content_types"),
    _tool("test_error_handling"),
    _tool("test_tool_with_logging"),
    _tool("test_logging_tool"),
    _tool("test_tool_with_progress"),
    _tool("test_sampling", {"prompt": {"type": "string"}}, required=["prompt"]),
    _tool("test_missing_capability"),
    _tool("test_elicitation", {"message": {"type": "string"}}, required=["message"]),
    _tool("test_streaming_elicitation"),
    _tool("test_elicitation_sep1034_defaults"),
    _tool("test_elicitation_sep1330_enums"),
    _tool("test_trigger_tool_change"),
    _tool("test_trigger_prompt_change"),
    _tool("test_input_required_result_elicitation"),
    _tool("test_input_required_result_sampling"),
    _tool("test_input_required_result_list_roots"),
    _tool("test_input_required_result_request_state"),
    _tool("test_input_required_result_tampered_state"),
    _tool("test_input_required_result_multiple_inputs"),
    _tool("test_input_required_result_multi_round"),
    _tool("test_input_required_result_capabilities"),
    {**_tool("json_schema_2020_12_tool"), "inputSchema": _SCHEMA_2020_12},
    _tool(HEADER_TOOL, {"region": {"type": "string", "x-mcp-header": "Region"}}, required=["region"]),
]
PROMPTS: list[Json] = [
    {"name": "test_simple_prompt", "description": "A prompt without arguments."},
    {
        "name": "test_prompt_with_arguments",
        "description": "A prompt with two arguments.",
        "arguments": [
            {"name": "arg1", "description": "First test argument", "required": True},
            {"name": "arg2", "description": "Second test argument", "required": True},
        ],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "A prompt with a resource in it.",
        "arguments": [{"name": "resourceUri", "description": "URI of the resource to embed", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "A prompt with an image in it."},
    {"name": "test_input_required_result_prompt", "description": "A prompt that asks the user first."},
]
RESOURCES: list[Json] = [
    {"uri": "test://static-text", "name": "Text", "description": "A text that stays.", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "Image", "description": "An image that stays.", "mimeType": "image/png"},
]
TEMPLATES: list[Json] = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "Data by id",
        "description": "Data that has its id in it.",
        "mimeType": "application/json",
    }
]
