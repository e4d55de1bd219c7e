"""Every promise of the seeds, one entry each: what it is called, what it says, and where it stands.

A test names the ids it proves with `@requirement(...)`; `tests/test_requirements.py` fails when an id has neither a
test nor a place in `DEFERRED`, when it has both, or when a test names an id that is not here.
"""

from typing import NamedTuple


class Requirement(NamedTuple):
    """One promise: `sentence` in our words, `seeds` and `section` where it is made."""

    id: str
    sentence: str
    seeds: tuple[str, ...]
    section: str


REQUIREMENTS: tuple[Requirement, ...] = (
    # Descriptors and names
    Requirement(
        "descriptor:load:found",
        "Every valid `aai.json` that the scan finds is loaded as one app.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "descriptor:validate:found",
        "Every found `aai.json` is validated, and one that fails is reported and not taken as an app.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "descriptor:shape:example",
        (
            "A descriptor with `schema_version` 1.0, a root `appId` and a `tools` list is read as the app of that id "
            "with those tools."
        ),
        ("001", "003"),
        "Step 2: Load Skill Details On Demand",
    ),
    Requirement(
        "descriptor:agent:reasoner-fields",
        "Reading an agent's registration keeps each reasoner's id, input schema, output schema and tags.",
        ("004",),
        "4.3",
    ),
    Requirement(
        "descriptor:agent:skill-fields",
        "Reading an agent's registration keeps each skill's id, input schema and tags.",
        ("004",),
        "4.3",
    ),
    Requirement(
        "mcp:call-name:parsed",
        (
            "The call name `com.example.mail:send_email` is read as tool `send_email` of app `com.example.mail`, and "
            "that tool prints back as the same name."
        ),
        ("000", "001", "003"),
        "Step 3: Call Tool",
    ),
    # Folders that are scanned
    Requirement(
        "scan:home:app-folder",
        (
            "Every `<home>/<app id>/aai.json` is found as a desktop app, such as `com.example.mail` and "
            "`com.example.calendar`."
        ),
        ("000", "001", "003"),
        "Descriptor Sources: Desktop Apps",
    ),
    Requirement(
        "scan:home:default",
        "Without another setting the scanned home is `~/.aai`.",
        ("000", "001", "003"),
        "Descriptor Sources: Desktop Apps",
    ),
    Requirement(
        "scan:home:web-copies",
        (
            "Registry copies at `<home>/web/<app id>/aai.json` are read as web apps, and `web` itself is not taken as "
            "an app."
        ),
        ("000", "001", "003"),
        "Descriptor Sources: Web Apps",
    ),
    Requirement(
        "scan:home:both-kinds",
        "One scan of the home yields the desktop apps and the web apps together.",
        ("001", "003"),
        "Web App Discovery: Discovery Flow",
    ),
    Requirement(
        "scan:bundles:applications",
        "`/Applications` is searched for files at `*/Contents/Resources/aai.json`.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "scan:bundles:user-applications",
        "`~/Applications` is searched in the same way as `/Applications`.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "scan:bundles:depth",
        (
            "`/Applications/Mail.app/Contents/Resources/aai.json`, 4 levels down, is found; an app in a folder of its "
            "own is not, `Utilities` apart."
        ),
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "scan:bundles:path",
        "In the application folders an `aai.json` that is not under `Contents/Resources` is not taken.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "scan:bundles:unreadable",
        "A missing or unreadable application folder does not stop the scan of the rest.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "scan:dev:build-folders",
        "With `--dev` the Xcode build folders are scanned as well, and without it they are not.",
        ("002",),
        "Deployment",
    ),
    # Registry
    Requirement(
        "registry:startup:fetch",
        "At start the gateway fetches the web app directory from each configured registry.",
        ("000", "001", "003"),
        "Registry API",
    ),
    Requirement(
        "registry:directory:v1-apps",
        "A directory of the form `GET /v1/apps`, whose items carry `id`, `name` and `descriptor_url`, is understood.",
        ("000",),
        "Descriptor Sources: Web Apps",
    ),
    Requirement(
        "registry:directory:api-v1-apps",
        (
            "A directory of the form `GET /api/v1/apps`, whose items carry `appId`, `name` and `descriptor_url`, is "
            "understood."
        ),
        ("001", "003"),
        "Registry API",
    ),
    Requirement(
        "registry:descriptor:download",
        "The full `aai.json` of every listed app is downloaded from its `descriptor_url`.",
        ("000", "001", "003"),
        "Registry API",
    ),
    Requirement(
        "registry:cache:path",
        "Each downloaded descriptor is kept at `~/.aai/web/<app id>/aai.json`.",
        ("000", "001", "003"),
        "Web App Discovery: Discovery Flow",
    ),
    Requirement(
        "registry:apps:listed",
        "After start the desktop apps and the registry's web apps are all in `resources/list`.",
        ("001", "003"),
        "Web App Discovery: Discovery Flow",
    ),
    Requirement(
        "registry:serve:v1-apps",
        "The control plane answers `GET /v1/apps` with `apps`, a list of `id`, `name` and `descriptor_url`.",
        ("000",),
        "Descriptor Sources: Web Apps",
    ),
    Requirement(
        "registry:serve:api-v1-apps",
        "The control plane answers `GET /api/v1/apps` with `apps`, a list of `appId`, `name` and `descriptor_url`.",
        ("001", "003"),
        "Registry API",
    ),
    Requirement(
        "registry:serve:descriptor-url",
        "Each `descriptor_url` that the control plane's directory prints leads to the app's full `aai.json`.",
        ("000", "001", "003"),
        "Registry API",
    ),
    # MCP resources and direct calls
    Requirement(
        "mcp:resources:list",
        (
            "`resources/list` is answered with `jsonrpc` 2.0, the request's own `id` and `result.resources`, one "
            "entry per app."
        ),
        ("000", "001", "003"),
        "Step 1: List Available Apps",
    ),
    Requirement(
        "mcp:resources:uri",
        "Each listed resource has the `uri` `app:<app id>`, such as `app:com.apple.mail`.",
        ("000", "001", "003"),
        "Step 1: List Available Apps",
    ),
    Requirement(
        "mcp:resources:name-description",
        "Each listed resource has the app's `name` and `description`, such as `Mail` and `Email client`.",
        ("000", "001", "003"),
        "Step 1: List Available Apps",
    ),
    Requirement(
        "mcp:resources:mime-type",
        "Each listed resource has the `mimeType` `application/aai+json`.",
        ("001", "003"),
        "Step 1: List Available Apps",
    ),
    Requirement(
        "mcp:resources:no-tools",
        "`resources/list` carries no app's tools; an app's tools are loaded only when that app is read.",
        ("000", "001", "003"),
        "Benefits",
    ),
    Requirement(
        "mcp:resources:read",
        "`resources/read` with `uri` `app:<app id>` is answered with one `contents` entry that repeats that `uri`.",
        ("000", "001", "003"),
        "Step 2: Load App Details On Demand",
    ),
    Requirement(
        "mcp:resources:read-mime-type",
        "The entry that `resources/read` returns has the `mimeType` `application/json`.",
        ("000", "001", "003"),
        "Step 2: Load App Details On Demand",
    ),
    Requirement(
        "mcp:resources:read-text",
        (
            "The `text` that `resources/read` returns is the app's full descriptor as published, its version, id and "
            "`tools` included."
        ),
        ("000", "001", "003"),
        "Step 2: Load App Details On Demand",
    ),
    Requirement(
        "mcp:direct-call:runs",
        "`tools/call` with the name `<app id>:<tool>` runs that tool of that app.",
        ("000", "001", "003"),
        "Step 3: Call Tool",
    ),
    Requirement(
        "mcp:direct-call:arguments",
        (
            "The `arguments` of a direct call reach the app unchanged, text such as `Hello!` and lists such as "
            "`[alice@example.com]` alike."
        ),
        ("000", "001", "003"),
        "Step 3: Call Tool",
    ),
    Requirement(
        "mcp:direct-call:result",
        (
            "A direct call is answered with `result.content`, an entry of `type` `text` with the app's message such "
            "as `Message ID: msg_123`."
        ),
        ("000", "001", "003"),
        "Step 3: Call Tool",
    ),
    Requirement(
        "mcp:context:per-app",
        "Loading one app on demand costs about 5,000 tokens for 10 tools instead of about 250,000 for 50 apps at once.",
        ("000",),
        "Benefits",
    ),
    # The gateway as a process
    Requirement(
        "mcp:process:stdio",
        "The gateway is an MCP server on stdio that an agent client starts and manages.",
        ("002",),
        "Deployment",
    ),
    Requirement(
        "mcp:process:no-daemon",
        "The gateway needs no daemon or background service, and leaves none behind.",
        ("002",),
        "Deployment",
    ),
    Requirement(
        "mcp:process:config",
        "An `mcpServers` entry that names the `aai-gateway` command without further arguments starts the server.",
        ("002",),
        "Deployment",
    ),
    Requirement(
        "mcp:process:config-dev",
        "The same `mcpServers` entry with the argument `--dev` starts the server with development builds listed.",
        ("002",),
        "Deployment",
    ),
    Requirement(
        "mcp:process:life",
        "The gateway starts when the agent client launches it and stops when the client exits.",
        ("002",),
        "Deployment",
    ),
    Requirement(
        "mcp:startup:scan",
        "At start the gateway scans for desktop app descriptors by itself, and the apps found are listed.",
        ("000", "001", "002", "003"),
        "Startup Behavior",
    ),
    Requirement(
        "mcp:startup:consents",
        "At start the gateway loads the consent records from the OS keychain.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "mcp:startup:ready",
        "After its start the gateway is ready to serve MCP requests.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "perf:startup:scan",
        "The scan at start typically completes in under one second.",
        ("002",),
        "Startup Behavior",
    ),
    Requirement(
        "mcp:tools:everything",
        "Everything the gateway offers can be discovered through `tools/list` alone, without resources.",
        ("002",),
        "MCP Interface",
    ),
    # Guide tools
    Requirement(
        "guide:list:one-per-app",
        "`tools/list` has exactly one entry per discovered app plus the universal tools `web:discover` and `aai:exec`.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:list:app-name",
        "An app's entry is named `app:<app id>`, such as `app:com.apple.reminders`.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:list:app-description",
        "An app's entry is described as `【name|name】description. Aliases: a, b. Call to get guide.`",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:list:app-schema",
        "An app's entry has the input schema of an object without properties.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:list:context",
        "The length of `tools/list` is the number of apps plus 2, whatever number of tools each app has.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:web-discover:listed",
        "`web:discover` is listed, described as the tool for a web service that is not in the list.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:web-discover:schema",
        "`web:discover` takes one required text, `url`: a web app's URL, domain or name.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:exec:listed",
        "`aai:exec` is listed, described as the tool to use after reading an operation guide.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:exec:schema",
        "`aai:exec` takes the texts `app` (app id or URL) and `tool`, both required, and the optional object `args`.",
        ("002",),
        "tools/list",
    ),
    Requirement(
        "guide:app:call",
        "Calling `app:<app id>` with empty arguments returns that app's operation guide.",
        ("002",),
        "App Guide Request",
    ),
    Requirement("guide:app:tools", "The guide names the app's available tools.", ("002",), "App Guide Request"),
    Requirement("guide:app:parameters", "The guide names each tool's parameters.", ("002",), "App Guide Request"),
    Requirement("guide:app:examples", "The guide shows usage examples.", ("002",), "App Guide Request"),
    # Web apps by well-known address
    Requirement(
        "wellknown:discover:fetch",
        "`web:discover` with `url` `notion.com` fetches that host's `/.well-known/aai.json`.",
        ("002",),
        "Web App Discovery",
    ),
    Requirement(
        "wellknown:discover:guide",
        "`web:discover` returns a guide made from the fetched descriptor.",
        ("002",),
        "Web App Discovery",
    ),
    Requirement(
        "wellknown:discover:forms",
        "`web:discover` accepts a URL, a domain or a name.",
        ("002",),
        "tools/list",
    ),
    # Execution through the gateway
    Requirement(
        "exec:call:runs",
        (
            "`aai:exec` with `app`, `tool` and `args` runs that operation, such as `create_reminder` with `title` and "
            "`due`."
        ),
        ("002",),
        "Tool Execution",
    ),
    Requirement("exec:call:app-url", "`aai:exec` accepts a web app's URL as `app`.", ("002",), "tools/list"),
    Requirement(
        "exec:order:resolve",
        "Execution first resolves the app's descriptor, from what is registered or by a web fetch.",
        ("002",),
        "Tool Execution",
    ),
    Requirement(
        "exec:order:consent",
        "Consent is checked after the descriptor is resolved and before anything runs.",
        ("002",),
        "Tool Execution",
    ),
    Requirement(
        "exec:order:desktop",
        "A desktop app's tool is executed by native inter-process communication.",
        ("002",),
        "Tool Execution",
    ),
    Requirement(
        "exec:order:web",
        "A web app's tool is executed over HTTP with the user's OAuth token.",
        ("002",),
        "Tool Execution",
    ),
    Requirement(
        "exec:order:result",
        "The result of the execution is returned to the agent.",
        ("002",),
        "Tool Execution",
    ),
    Requirement(
        "exec:binding:stdio",
        "An app whose descriptor declares the stdio binding is executed through that binding.",
        ("002",),
        "Startup Behavior",
    ),
    # Consent
    Requirement(
        "consent:first:asks",
        "The first execution of a tool opens a native consent dialog.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:dialog:content",
        "The dialog says that AAI Gateway asks, and names the app and the operation.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:dialog:choices",
        "The dialog offers to deny, to authorize this operation and to authorize all operations.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement("consent:choice:deny", "After a denial the operation does not run.", ("002",), "Authorization Flow"),
    Requirement(
        "consent:choice:tool",
        "Authorizing this operation lets it run and leaves the app's other operations unauthorized.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:choice:all",
        "Authorizing all operations lets every operation of that app run without another question.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:choice:one-click",
        "One click in the dialog is enough to authorize.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:choice:remembered",
        "The decision is remembered, also by the next process, so that the same call does not ask again.",
        ("002",),
        "Authorization Flow",
    ),
    Requirement(
        "consent:web:first-contact",
        "The first call of a web app's tool asks the user to verify the domain and its SSL certificate.",
        ("001", "003"),
        "First-Time Web App Access",
    ),
    Requirement(
        "consent:web:before-sign-in",
        "The domain and the certificate are verified before any authorization of the web app begins.",
        ("001", "003"),
        "First-Time Web App Access",
    ),
    # Sign-in
    Requirement(
        "oauth:first:starts",
        "The first execution of a web app's tool starts OAuth in the browser.",
        ("002",),
        "Web Apps (OAuth)",
    ),
    Requirement("oauth:step:browser", "The gateway opens the browser by itself.", ("002",), "Web Apps (OAuth)"),
    Requirement(
        "oauth:step:website",
        "The user completes the authorization on the web app's own website.",
        ("002",),
        "Web Apps (OAuth)",
    ),
    Requirement(
        "oauth:step:callback",
        "The browser is redirected to a callback on the local machine.",
        ("002",),
        "Web Apps (OAuth)",
    ),
    Requirement(
        "oauth:step:exchange",
        "The gateway exchanges the code for tokens by itself.",
        ("002",),
        "Web Apps (OAuth)",
    ),
    Requirement("oauth:step:executes", "The tool is executed once the tokens are there.", ("002",), "Web Apps (OAuth)"),
    Requirement(
        "oauth:user:only-website",
        "The user has nothing to do but sign in and authorize on the website.",
        ("002",),
        "Web Apps (OAuth)",
    ),
    # Local storage
    Requirement(
        "storage:user-space:only",
        "All gateway state is kept in user space, and no system-wide file is written.",
        ("002",),
        "Local Storage",
    ),
    Requirement(
        "storage:cache:path",
        "A fetched web descriptor is cached as JSON at `~/.cache/aai-gateway/<host>/aai.json`.",
        ("002",),
        "Local Storage",
    ),
    Requirement(
        "storage:cache:meta-file",
        "Beside each cached web descriptor lies a `.meta` file about it.",
        ("002",),
        "Local Storage",
    ),
    Requirement(
        "storage:cache:meta-fetched-at",
        "The cache metadata has `fetched_at`, a UTC time such as `2026-02-24T10:00:00Z`.",
        ("002",),
        "Cache Metadata Format",
    ),
    Requirement(
        "storage:cache:meta-ttl",
        "The cache metadata has `ttl_seconds`, 86400.",
        ("002",),
        "Cache Metadata Format",
    ),
    Requirement(
        "storage:cache:meta-source",
        "The cache metadata has `source_url`, such as `https://notion.so/.well-known/aai.json`.",
        ("002",),
        "Cache Metadata Format",
    ),
    Requirement(
        "storage:consent:keychain",
        "Consent decisions are kept encrypted in the OS keychain.",
        ("002",),
        "Local Storage",
    ),
    Requirement(
        "storage:oauth:keychain",
        "OAuth tokens are kept encrypted in the OS keychain.",
        ("002",),
        "Local Storage",
    ),
    # Command line of the gateway
    Requirement(
        "cli:gateway:default",
        "`aai-gateway` without arguments starts the MCP server.",
        ("002",),
        "CLI Commands",
    ),
    Requirement(
        "cli:gateway:dev",
        "`aai-gateway --dev` starts the MCP server and scans the Xcode build folders too.",
        ("002",),
        "CLI Commands",
    ),
    Requirement(
        "cli:gateway:scan",
        "`aai-gateway --scan` lists the discovered apps and exits.",
        ("002",),
        "CLI Commands",
    ),
    Requirement(
        "cli:gateway:version",
        "`aai-gateway --version` shows the version and exits.",
        ("002",),
        "CLI Commands",
    ),
    Requirement(
        "cli:gateway:mcp-does-all",
        "Every operation on an app is done through MCP tools, and none needs a command of the gateway.",
        ("002",),
        "CLI Commands",
    ),
    # Errors of the gateway
    Requirement(
        "errors:gateway:not-found",
        "No `aai.json` at the well-known address gives the error UNKNOWN_APP.",
        ("002",),
        "Error Handling",
    ),
    Requirement(
        "errors:gateway:invalid-descriptor",
        "A fetched `aai.json` that fails validation gives the error INVALID_REQUEST.",
        ("002",),
        "Error Handling",
    ),
    Requirement(
        "errors:gateway:app-not-running",
        "Executing a desktop app that is not running gives SERVICE_UNAVAILABLE.",
        ("002",),
        "Error Handling",
    ),
    Requirement(
        "errors:gateway:token-expired",
        "An expired OAuth token gives AUTH_REQUIRED.",
        ("002",),
        "Error Handling",
    ),
    Requirement(
        "errors:gateway:network-timeout",
        "A network timeout is answered from the cached descriptor when there is one.",
        ("002",),
        "Error Handling",
    ),
    # Discovery: the endpoint
    Requirement("discovery:endpoint:path", "Discovery is `GET /api/v1/discovery/capabilities`.", ("004",), "3.1"),
    Requirement(
        "discovery:endpoint:single",
        "That one endpoint gives agents, reasoners, skills and their schemas without a second request.",
        ("004",),
        "2.1",
    ),
    Requirement(
        "discovery:endpoint:agent-data",
        "Discovery knows each registered agent with its reasoners, skills, health status and metadata.",
        ("004",),
        "4.3",
    ),
    # Discovery: reading the query and selecting, without a server
    Requirement(
        "discovery:query:all-optional",
        "Every parameter is optional: the query without any is valid and selects every agent's reasoners and skills.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:agent:single",
        "`agent=agent-001` selects the agent `agent-001` and no other.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:agent:node-id-alias",
        "`node_id=agent-001` selects the same as `agent=agent-001`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:agent:agent-id-alias",
        "`agent_id=agent-research-001` selects the same as `agent=agent-research-001`.",
        ("004",),
        "Refined: Simplified API Design",
    ),
    Requirement("discovery:agent:wildcard", "`agent` and `node_id` may hold a wildcard pattern.", ("004",), "12.2"),
    Requirement(
        "discovery:agent-ids:list",
        "`agent_ids=agent-1,agent-2` selects both agents and no other.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:agent-ids:node-ids-alias",
        "`node_ids=agent-1,agent-2` selects the same as `agent_ids=agent-1,agent-2`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:agent-ids:wildcard",
        "Each entry of `agent_ids` and `node_ids` may hold a wildcard pattern.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "discovery:agent-ids:united",
        "`agent=agent-001` together with `agent_ids=a1,a2` selects all three agents.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "discovery:reasoner:pattern",
        "`reasoner=*research*` or `reasoner=deep_*` keeps only the reasoners whose id matches.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:reasoner:alone",
        "`reasoner` without `skill` leaves no skills in the selection.",
        ("004",),
        "3.2",
    ),
    Requirement("discovery:skill:pattern", "`skill=web_*` keeps only the skills whose id matches.", ("004",), "3.2"),
    Requirement(
        "discovery:skill:alone",
        "`skill` without `reasoner` leaves no reasoners in the selection.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:kinds:both",
        "`reasoner` and `skill` together keep the reasoners that match the one and the skills that match the other.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:tags:exact",
        "A tag without a wildcard matches only the equal tag: `ml` matches `ml` and not `mlops`.",
        ("004",),
        "Refined: Simplified API Design",
    ),
    Requirement(
        "discovery:tags:list",
        "`tags=ml,nlp` keeps the reasoners and skills that carry at least one of the listed tags.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:tags:wildcard",
        "Each entry of `tags` may hold a wildcard: `ml*,*research` matches the tags `mlops` and `deep_research`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:flags:input-schema-default",
        "`include_input_schema` is false when it is not given.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:flags:output-schema-default",
        "`include_output_schema` is false when it is not given.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:flags:descriptions-default",
        "`include_descriptions` is true when it is not given.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:flags:examples-default",
        "`include_examples` is false when it is not given.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:flags:boolean",
        "The four `include_` parameters are booleans: `true` and `false` are read, and `maybe` is refused.",
        ("004",),
        "3.2",
    ),
    Requirement("discovery:format:values", "`format` is `json`, `xml` or `compact`.", ("004",), "3.2"),
    Requirement("discovery:format:default", "`format` is `json` when it is not given.", ("004",), "3.2"),
    Requirement(
        "discovery:format:refused",
        (
            "`format=yaml` is refused with the parameter `format`, the provided `yaml` and the allowed `json`, `xml`, "
            "`compact`."
        ),
        ("004",),
        "3.7",
    ),
    Requirement(
        "discovery:health-status:values",
        "`health_status` accepts `active`, `inactive` and `degraded`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:health-status:selects",
        "`health_status=active` keeps only the agents whose health status is `active`.",
        ("004",),
        "3.2",
    ),
    Requirement("discovery:limit:default", "Without `limit`, at most 100 agents are returned.", ("004",), "3.2"),
    Requirement("discovery:limit:max", "`limit=500` is accepted, and `limit=501` is refused.", ("004",), "3.2"),
    Requirement(
        "discovery:limit:integer",
        "A `limit` that is not a whole number, such as `10abc`, is refused.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:limit:agents",
        "`limit=50` returns at most 50 agents, each with all of its selected reasoners and skills.",
        ("004",),
        "3.2",
    ),
    Requirement("discovery:offset:default", "`offset` is 0 when it is not given.", ("004",), "3.2"),
    Requirement("discovery:offset:skips", "`offset=100` skips the first 100 selected agents.", ("004",), "3.2"),
    Requirement(
        "discovery:offset:integer",
        "An `offset` that is negative or not a whole number is refused.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:page:totals",
        "The totals of a page count all selected agents, reasoners and skills, not only those on the page.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "discovery:page:has-more",
        "A page says that there is more exactly when selected agents follow after it.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "discovery:filters:and",
        "Filters are combined with AND: what is returned matches every given filter.",
        ("004",),
        "10",
    ),
    Requirement(
        "discovery:agents:dropped",
        "An agent with neither a reasoner nor a skill left after filtering is not returned.",
        ("004",),
        "Refined: Control Plane Implementation",
    ),
    Requirement(
        "discovery:order:fixed",
        "There is no sorting parameter; agents come in one fixed order, by agent id.",
        ("004",),
        "10",
    ),
    Requirement(
        "discovery:target:reasoner",
        "A reasoner's invocation target is `<agent id>:<reasoner id>`, such as `agent-research-001:deep_research`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "discovery:target:skill",
        "A skill's invocation target is `<agent id>:skill:<skill id>`, such as `agent-research-001:skill:web_search`.",
        ("004",),
        "3.4",
    ),
    # Discovery: wildcard patterns
    Requirement("pattern:form:contains", "`*abc*` matches a value that contains `abc` anywhere.", ("004",), "3.3"),
    Requirement("pattern:form:prefix", "`abc*` matches a value that starts with `abc`.", ("004",), "3.3"),
    Requirement("pattern:form:suffix", "`*abc` matches a value that ends with `abc`.", ("004",), "3.3"),
    Requirement("pattern:form:exact", "`abc` matches only the value `abc`.", ("004",), "3.3"),
    Requirement(
        "pattern:form:star-alone",
        "`*` matches every value.",
        ("004",),
        "Refined: Control Plane Implementation",
    ),
    Requirement(
        "pattern:form:star-inside",
        "`*` is a wildcard wherever it stands, also inside: `a*c` matches `abc`.",
        ("004",),
        "3.3",
    ),
    Requirement(
        "pattern:example:research",
        "`*research*` matches `deep_research`, `web_researcher` and `research_agent`.",
        ("004",),
        "3.3",
    ),
    Requirement("pattern:example:ml", "`ml*` matches the tags `ml`, `mlops` and `ml_vision`.", ("004",), "3.3"),
    Requirement(
        "pattern:example:web",
        "`web_*` matches `web_search`, `web_scraper` and `web_parser`.",
        ("004",),
        "3.3",
    ),
    Requirement(
        "pattern:case:sensitive",
        "Matching is case-sensitive: `abc*` does not match `ABCdef`.",
        ("004",),
        "Refined: Control Plane Implementation",
    ),
    Requirement(
        "pattern:regex:literal",
        "Patterns are not regular expressions: every character but `*` stands for itself.",
        ("004",),
        "10",
    ),
    # Discovery: the parameters over HTTP
    Requirement(
        "discovery:http:agent",
        "A request with `agent=agent-001` or `node_id=agent-001` is answered with that agent alone.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:agent-ids",
        "A request with `agent_ids=agent-1,agent-2`, or `node_ids` likewise, is answered with those agents alone.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:agent-id",
        "A request with `agent_id=agent-research-001` is answered with that agent alone.",
        ("004",),
        "Refined: Simplified API Design",
    ),
    Requirement(
        "discovery:http:reasoner",
        "A request with `reasoner=*research*` is answered with the matching reasoners alone.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:skill",
        "A request with `skill=web_*` is answered with the matching skills alone.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:tags",
        "A request with `tags=ml*,*research` is answered with what carries a matching tag.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:input-schema",
        "`input_schema` is in the answer with `include_input_schema=true`, and absent without it.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:output-schema",
        "`output_schema` is in the answer with `include_output_schema=true`, and absent without it.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:descriptions",
        "`description` is in the JSON answer by default, and absent with `include_descriptions=false`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:examples",
        "`examples` is in the answer with `include_examples=true`, and absent without it.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:format",
        "`format` decides whether the body is JSON, XML or compact JSON, and JSON is sent without it.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:health-status",
        (
            "A request with `health_status=active`, `inactive` or `degraded` is answered with the agents in that "
            "state alone."
        ),
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:limit",
        "A request with `limit=50` is answered with at most 50 agents, and with at most 100 without `limit`.",
        ("004",),
        "3.2",
    ),
    Requirement(
        "discovery:http:offset",
        "A request with `offset=100` is answered with the agents after the first 100.",
        ("004",),
        "3.2",
    ),
    # Discovery: the JSON answer
    Requirement(
        "format:json:discovered-at",
        "`discovered_at` is the UTC time of the answer, such as `2025-11-23T10:30:00Z`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:totals",
        "`total_agents`, `total_reasoners` and `total_skills` are numbers.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:pagination",
        "`pagination` holds `limit`, `offset` and the boolean `has_more`.",
        ("004",),
        "3.4",
    ),
    Requirement("format:json:capabilities", "`capabilities` is a list with one entry per agent.", ("004",), "3.4"),
    Requirement(
        "format:json:agent",
        "An agent has `agent_id`, `base_url`, `version`, `health_status`, `deployment_type` and `last_heartbeat`.",
        ("004",),
        "3.4",
    ),
    Requirement("format:json:agent-lists", "An agent has the lists `reasoners` and `skills`.", ("004",), "3.4"),
    Requirement(
        "format:json:agent-metadata",
        "Of an agent's internal metadata only `health_status` and `last_heartbeat` are shown, and no health score.",
        ("004",),
        "10",
    ),
    Requirement(
        "format:json:reasoner",
        "A reasoner has `id`, `description`, `tags` and `invocation_target`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:skill",
        "A skill has `id`, `description`, `tags` and `invocation_target`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:reasoner-input-schema",
        "A reasoner's `input_schema` is its JSON Schema as registered, with types, limits, defaults and `required`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:output-schema",
        "A reasoner's `output_schema` is its JSON Schema as registered.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:skill-input-schema",
        "A skill's `input_schema` is its JSON Schema as registered.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:examples",
        "A reasoner's `examples` are entries with `name`, `input` and `description`.",
        ("004",),
        "3.4",
    ),
    Requirement(
        "format:json:empty-lists",
        "`capabilities`, `reasoners`, `skills` and `tags` are lists also when they are empty, never null.",
        ("004",),
        "12.4",
    ),
    Requirement(
        "format:json:example-without-name",
        "An example without `name`, with `input` and `description` alone, is given as it was registered.",
        ("004",),
        "Refined: Response Structure (JSON)",
    ),
    # Discovery: the XML answer
    Requirement(
        "format:xml:declaration",
        "The XML answer begins with the declaration of version 1.0 and encoding UTF-8.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:root",
        "The root element is `discovery` with the attribute `discovered_at`.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:summary",
        "`summary` has the attributes `total_agents`, `total_reasoners` and `total_skills`.",
        ("004",),
        "3.5",
    ),
    Requirement("format:xml:capabilities", "`capabilities` encloses one `agent` element per agent.", ("004",), "3.5"),
    Requirement(
        "format:xml:agent",
        (
            "`agent` has the attributes `id`, `base_url`, `version`, `health_status`, `deployment_type` and "
            "`last_heartbeat`."
        ),
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:reasoner",
        "`reasoners` encloses `reasoner` elements with the attributes `id` and `target`.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:skill",
        "`skills` encloses `skill` elements with the attributes `id` and `target`.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:description",
        "A reasoner's or skill's description is the text of its `description` element.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:tags",
        "A reasoner's or skill's `tags` element encloses one `tag` element per tag.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:input-schema",
        "`input_schema` encloses one `field` element per property, with the attributes `name` and `type`.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:output-schema",
        "`output_schema` encloses `field` elements of the same form.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:field-required",
        "A required property's `field` has `required` set to `true`, and an optional one's has no such attribute.",
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:field-limits",
        (
            "`field` has `min`, `max` and `default` where the property has a minimum, a maximum and a default, such "
            "as 1, 5 and 3."
        ),
        ("004",),
        "3.5",
    ),
    Requirement(
        "format:xml:field-limit-spellings",
        "A property that spells its limits `min` and `max` gets the same attributes as with `minimum` and `maximum`.",
        ("004",),
        "Refined: Response Structure (JSON)",
    ),
    Requirement("format:xml:field-text", "The text of a `field` is the property's description.", ("004",), "3.5"),
    # Discovery: the compact answer
    Requirement(
        "format:compact:keys",
        (
            "The compact answer is JSON with `discovered_at`, `reasoners` and `skills`, and no agents, totals or "
            "pagination."
        ),
        ("004",),
        "3.6",
    ),
    Requirement(
        "format:compact:flat",
        "`reasoners` and `skills` are flat lists over all returned agents.",
        ("004",),
        "3.6",
    ),
    Requirement(
        "format:compact:item",
        "A compact item has `id`, `agent_id`, `target` and `tags`, and nothing else that was not asked for.",
        ("004",),
        "3.6",
    ),
    Requirement(
        "format:compact:target",
        "A compact item's `target` is the same as `invocation_target` in the JSON answer.",
        ("004",),
        "3.6",
    ),
    Requirement(
        "format:compact:smaller",
        "The compact answer to a query is smaller than its JSON answer.",
        ("004",),
        "2.1",
    ),
    Requirement(
        "format:compact:descriptions",
        "`include_descriptions=true` given explicitly adds `description` to compact items.",
        ("004",),
        "14: Use Case 2",
    ),
    # Errors of discovery
    Requirement(
        "errors:discovery:bad-request",
        "A wrong parameter is answered with 400, `error` `invalid_parameter`, a `message` and `details`.",
        ("004",),
        "3.7",
    ),
    Requirement(
        "errors:discovery:details",
        "The `details` of a 400 are `parameter`, `provided` and, for a closed set of values, `allowed`.",
        ("004",),
        "3.7",
    ),
    Requirement(
        "errors:discovery:format-message",
        "`format=yaml` has the message `Invalid format parameter. Must be one of: json, xml, compact`.",
        ("004",),
        "3.7",
    ),
    Requirement(
        "errors:discovery:internal",
        "A failure inside is answered with 500, `error` `internal_error`, a `message` and a `request_id`.",
        ("004",),
        "3.7",
    ),
    Requirement(
        "errors:discovery:actionable",
        "Error messages say what was wrong and what would be right.",
        ("004",),
        "2.1",
    ),
    # Performance and caching
    Requirement(
        "perf:response:p50",
        "Half of the discovery answers without schemas take less than 50 ms.",
        ("004",),
        "4.1",
    ),
    Requirement(
        "perf:response:p95",
        "95 % of the discovery answers without schemas take less than 100 ms.",
        ("004",),
        "4.1",
    ),
    Requirement(
        "perf:response:p99",
        "99 % of the discovery answers with schemas take less than 200 ms.",
        ("004",),
        "4.1",
    ),
    Requirement(
        "perf:throughput:instance",
        "One instance answers 1000 discovery requests per second.",
        ("004",),
        "4.1",
    ),
    Requirement(
        "perf:cache:hit-rate",
        "More than 95 % of the requests are cache hits with a time to live of 30 seconds.",
        ("004",),
        "4.1",
    ),
    Requirement("perf:memory:instance", "One instance uses less than 100 MB of memory.", ("004",), "4.1"),
    Requirement(
        "perf:concurrency:thousand",
        "1000 and more discovery requests at the same time are answered.",
        ("004",),
        "1.3",
    ),
    Requirement("perf:deploy:zero-downtime", "A deployment of a new version fails no request.", ("004",), "1.3"),
    Requirement("perf:scale:instances", "Several control plane instances serve the same agents.", ("004",), "4.2"),
    Requirement("cache:agents:ttl", "Agents are cached in memory for at most 30 seconds.", ("004",), "4.2"),
    Requirement(
        "cache:invalidate:register",
        "Registering an agent invalidates the cache, so that the next request shows the agent.",
        ("004",),
        "4.2",
    ),
    Requirement(
        "cache:invalidate:deregister",
        "Deregistering an agent invalidates the cache, so that the next request no longer shows the agent.",
        ("004",),
        "4.2",
    ),
    Requirement(
        "cache:agents:read-through",
        "A request that misses the cache loads the agents from the store and fills the cache.",
        ("004",),
        "4.2",
    ),
    Requirement(
        "cache:queries:at-most-one",
        "A request makes at most 1 database query, and none on a cache hit.",
        ("004",),
        "4.2",
    ),
    Requirement(
        "cache:queries:one-listing",
        "The listing of the agents is the only query; schemas, health and metadata need no further one.",
        ("004",),
        "4.2",
    ),
    Requirement(
        "cache:filters:in-memory",
        "All filtering happens in memory on the cached agents, whatever filters are given.",
        ("004",),
        "4.2",
    ),
    # Tests that the seed asks for: unit cases and integration scenarios
    Requirement(
        "discovery:case:01",
        "Without filters, all registered agents with their reasoners and skills are answered.",
        ("004",),
        "5.1",
    ),
    Requirement("discovery:case:02", "Filtering by a single `agent_id` answers that agent alone.", ("004",), "5.1"),
    Requirement("discovery:case:03", "Filtering by multiple `agent_ids` answers those agents alone.", ("004",), "5.1"),
    Requirement("discovery:case:04", "`agent` and `node_id` are aliases and answer the same.", ("004",), "5.1"),
    Requirement(
        "discovery:case:05",
        "Wildcard patterns match in the forms contains, prefix and suffix.",
        ("004",),
        "5.1",
    ),
    Requirement("discovery:case:06", "Tags filter with wildcards.", ("004",), "5.1"),
    Requirement("discovery:case:07", "Reasoners are filtered by pattern.", ("004",), "5.1"),
    Requirement("discovery:case:08", "Skills are filtered by pattern.", ("004",), "5.1"),
    Requirement(
        "discovery:case:09",
        "The schema flags include and leave out input and output schemas.",
        ("004",),
        "5.1",
    ),
    Requirement("discovery:case:10", "The JSON format answers in the layout of section 3.4.", ("004",), "5.1"),
    Requirement("discovery:case:11", "The XML format answers in the layout of section 3.5.", ("004",), "5.1"),
    Requirement("discovery:case:12", "The compact format answers in the layout of section 3.6.", ("004",), "5.1"),
    Requirement("discovery:case:13", "`limit` and `offset` page through the agents.", ("004",), "5.1"),
    Requirement("discovery:case:14", "`health_status` filters the agents.", ("004",), "5.1"),
    Requirement(
        "discovery:case:15",
        "A first request misses the cache, and one that follows hits it.",
        ("004",),
        "5.1",
    ),
    Requirement(
        "discovery:case:16",
        "An invalid format and invalid parameters are answered with errors.",
        ("004",),
        "5.1",
    ),
    Requirement(
        "discovery:scenario:1",
        "From end to end: an agent that really registers is discovered.",
        ("004",),
        "5.2",
    ),
    Requirement(
        "discovery:scenario:2",
        "Under a load of 1000 concurrent requests every one is answered.",
        ("004",),
        "5.2",
    ),
    Requirement(
        "discovery:scenario:3",
        "An agent's update invalidates the cache and shows in the next answer.",
        ("004",),
        "5.2",
    ),
    Requirement(
        "discovery:scenario:4",
        "A large result is paged through completely, each agent exactly once.",
        ("004",),
        "5.2",
    ),
    # Documents
    Requirement("docs:api:file", "The discovery API is documented in `docs/api/DISCOVERY_API.md`.", ("004",), "6.1"),
    Requirement(
        "docs:api:sections",
        (
            "That document has the sections overview and purpose, authentication, endpoint specification, query "
            "parameter reference, response examples in all 3 formats, error codes and handling, rate limiting, and "
            "best practices."
        ),
        ("004",),
        "6.1",
    ),
    Requirement("docs:guide:file", "The developer guide is `docs/guides/USING_DISCOVERY_API.md`.", ("004",), "6.2"),
    Requirement(
        "docs:guide:topics",
        (
            "That guide treats common use cases, the examples AI orchestrator, dynamic routing and schema validation, "
            "performance optimization tips, and troubleshooting."
        ),
        ("004",),
        "6.2",
    ),
    Requirement(
        "docs:reference:architecture",
        "The architecture is documented in `docs/ARCHITECTURE.md`.",
        ("004",),
        "14: References",
    ),
    Requirement(
        "docs:reference:registration",
        "Agent registration is documented in `docs/api/AGENT_REGISTRATION.md`.",
        ("004",),
        "14: References",
    ),
    Requirement(
        "docs:reference:execution",
        "Execution is documented in `docs/api/EXECUTION_API.md`.",
        ("004",),
        "14: References",
    ),
    Requirement(
        "docs:integration:hour",
        "A developer who starts with the documents integrates discovery in less than one hour.",
        ("004",),
        "11.3",
    ),
    # Metrics and logs
    Requirement(
        "metrics:discovery:requests",
        (
            "`agentfield_discovery_requests_total` counts requests by `format` (json, xml, compact) and `status` "
            "(success, error)."
        ),
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:duration",
        "`agentfield_discovery_request_duration_seconds` measures request durations by `format`.",
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:cache-hits",
        "`agentfield_discovery_cache_hits_total` counts cache hits.",
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:cache-misses",
        "`agentfield_discovery_cache_misses_total` counts cache misses.",
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:cache-size",
        "`agentfield_discovery_cache_size_bytes` shows the size of the cache in bytes.",
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:filter-usage",
        "`agentfield_discovery_filter_usage` counts used filters by `filter_type` (reasoner, skill, tag, agent).",
        ("004",),
        "7.1",
    ),
    Requirement(
        "metrics:discovery:derived",
        "Average response time, cache hit rate and error rate can be computed from the metrics.",
        ("004",),
        "11.2",
    ),
    Requirement("logs:discovery:received", "A received discovery request is logged at DEBUG.", ("004",), "7.2"),
    Requirement("logs:discovery:cache", "A cache hit or miss is logged at DEBUG.", ("004",), "7.2"),
    Requirement("logs:discovery:filters", "The application of filters is logged at DEBUG.", ("004",), "7.2"),
    Requirement("logs:discovery:sent", "A sent response is logged at INFO with its timing.", ("004",), "7.2"),
    Requirement("logs:discovery:errors", "An error is logged at ERROR with its context.", ("004",), "7.2"),
    Requirement(
        "logs:format:json",
        "A log line is a JSON object with `level`, `timestamp`, `message` and `request_id`.",
        ("004",),
        "7.2",
    ),
    Requirement(
        "logs:format:completed",
        (
            "The line of a sent response has the message `discovery request completed`, `duration_ms` and the boolean "
            "`cache_hit`."
        ),
        ("004",),
        "7.2",
    ),
    Requirement(
        "logs:format:filters",
        (
            "The line of a sent response has `filters`, the parameters that were given, such as `agent_ids`, "
            "`reasoner` and `format`."
        ),
        ("004",),
        "7.2",
    ),
    Requirement(
        "logs:format:results",
        "The line of a sent response has `results` with the numbers of `agents`, `reasoners` and `skills`.",
        ("004",),
        "7.2",
    ),
    # Execution of what was discovered
    Requirement(
        "execute:target:discovered",
        "Every reasoner's and skill's invocation target that discovery prints can be executed as it is printed.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "execute:input:result",
        (
            "An execution takes a target and an input object, such as `query` with `AI trends 2025`, and gives back "
            "the result."
        ),
        ("004",),
        "12.3",
    ),
    # Python SDK
    Requirement(
        "sdk-python:agent:no-arguments",
        "`Agent()` from `agentfield` works without arguments.",
        ("004",),
        "12.2",
    ),
    Requirement("sdk-python:discover:method", "Discovery is the method `app.discover()` of `Agent`.", ("004",), "12.1"),
    Requirement(
        "sdk-python:signature:snippet",
        "The call of 12.2, with every keyword it shows, runs as printed.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:agent-alias",
        "`agent` may be spelled `node_id`, with the same wildcard support.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:agent-ids-alias",
        "`agent_ids` takes a list and may be spelled `node_ids`, with the same wildcard support.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:patterns",
        "`reasoner` and `skill` take wildcard patterns, such as `*research*` and `web_*`.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:tags",
        "`tags` takes a list of tags with wildcards, such as `ml*` and `*learning`.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:schema-options",
        (
            "`include_input_schema`, `include_output_schema`, `include_descriptions` (default true) and "
            "`include_examples` are keywords."
        ),
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:format",
        "`app.discover(format=...)` takes `json`, `xml` or `compact`.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:pagination",
        "`limit` and `offset` are keywords that page through the agents.",
        ("004",),
        "12.2",
    ),
    Requirement(
        "sdk-python:discover:health-status",
        "`health_status` is a keyword, such as `active`.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:basic",
        "The basic snippet runs as printed and shows the numbers of agents, reasoners and skills.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:wildcards",
        "The wildcard snippet, by reasoner, by skill with tags, and by tag with health status, runs as printed.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:access",
        (
            "The access snippet runs as printed: agents and their reasoners are iterated with id, target, tags and "
            "input schema."
        ),
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:execute",
        (
            "The execute snippet runs as printed: `app.execute(target=..., input=...)` runs the discovered target and "
            "returns the result."
        ),
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:xml",
        "The XML snippet runs as printed: `format=xml` gives the XML as text that a prompt can hold.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:example:compact",
        "The compact snippet runs as printed: `reasoners` and `skills` hold `id`, `agent_id`, `target` and `tags`.",
        ("004",),
        "12.3",
    ),
    Requirement(
        "sdk-python:types:response",
        "`DiscoveryResponse` has `discovered_at` (a datetime), the three totals, `pagination` and `capabilities`.",
        ("004",),
        "12.4",
    ),
    Requirement(
        "sdk-python:types:agent",
        (
            "`AgentCapability` has `agent_id`, `base_url`, `version`, `health_status`, `deployment_type`, "
            "`last_heartbeat` (a datetime), `reasoners` and `skills`."
        ),
        ("004",),
        "12.4",
    ),
    Requirement(
        "sdk-python:types:reasoner",
        (
            "`ReasonerCapability` has `id`, `tags`, `invocation_target` and the optional `description`, "
            "`input_schema`, `output_schema` and `examples`."
        ),
        ("004",),
        "12.4",
    ),
    Requirement(
        "sdk-python:types:skill",
        "`SkillCapability` has `id`, `tags`, `invocation_target` and the optional `description` and `input_schema`.",
        ("004",),
        "12.4",
    ),
    Requirement(
        "sdk-python:use-case:orchestrator",
        "Use case 1 runs as printed: discover by tag with schemas, select a reasoner, execute its target.",
        ("004",),
        "14: Use Case 1",
    ),
    Requirement(
        "sdk-python:use-case:tool-registry",
        "Use case 2 runs as printed: compact discovery with descriptions is converted to OpenAI tools.",
        ("004",),
        "14: Use Case 2",
    ),
    Requirement(
        "sdk-python:use-case:health",
        "Use case 3 runs as printed: `len(healthy_agents.capabilities)` counts the active agents.",
        ("004",),
        "14: Use Case 3",
    ),
    # Python SDK: what the refined part adds
    Requirement(
        "sdk-python:discover:agent-id",
        "`app.discover(agent_id=...)` selects one agent.",
        ("004",),
        "Refined: Python SDK Integration",
    ),
    Requirement(
        "sdk-python:refined:integration",
        "The snippet of the refined part, `route_to_best_reasoner` included, runs as printed.",
        ("004",),
        "Refined: Python SDK Integration",
    ),
    Requirement(
        "sdk-python:refined:schema-routing",
        "The snippet `intelligent_route` runs as printed: it executes a reasoner whose input schema accepts the input.",
        ("004",),
        "Refined: Key Features 1",
    ),
    Requirement(
        "sdk-python:refined:tag-discovery",
        "The snippet of tag-based discovery runs as printed.",
        ("004",),
        "Refined: Key Features 2",
    ),
    Requirement(
        "sdk-python:refined:just-in-time",
        (
            "The snippet `ai_orchestrator` runs as printed: an item of the compact answer has `target`, which can be "
            "executed."
        ),
        ("004",),
        "Refined: Key Features 3",
    ),
    Requirement(
        "sdk-python:refined:orchestrated-task",
        (
            "The snippet `ai_orchestrated_task` runs as printed: discovered tools go to a model, and the chosen one "
            "is executed."
        ),
        ("004",),
        "Refined: AI Orchestrator Use Case",
    ),
    # Go SDK
    Requirement(
        "sdk-go:module:path",
        "The package `agent` is imported as `github.com/Agent-Field/agentfield/sdk/go/agent`.",
        ("004",),
        "13.2",
    ),
    Requirement("sdk-go:agent:no-arguments", "`agent.NewAgent()` works without arguments.", ("004",), "13.2"),
    Requirement(
        "sdk-go:discover:method",
        "Discovery is the method `Discover` with functional options.",
        ("004",),
        "13.1",
    ),
    Requirement(
        "sdk-go:signature:snippet",
        "The call of 13.2, with every option it shows, compiles and runs as printed.",
        ("004",),
        "13.2",
    ),
    Requirement("sdk-go:discover:agent-alias", "`WithAgent` may be spelled `WithNodeID`.", ("004",), "13.2"),
    Requirement("sdk-go:discover:agent-ids-alias", "`WithAgentIDs` may be spelled `WithNodeIDs`.", ("004",), "13.2"),
    Requirement(
        "sdk-go:discover:patterns",
        "`WithReasonerPattern` and `WithSkillPattern` take wildcard patterns.",
        ("004",),
        "13.2",
    ),
    Requirement("sdk-go:discover:tags", "`WithTags` takes a slice of tags with wildcards.", ("004",), "13.2"),
    Requirement(
        "sdk-go:discover:schema-options",
        "`WithInputSchema`, `WithOutputSchema`, `WithDescriptions` (default true) and `WithExamples` take a boolean.",
        ("004",),
        "13.2",
    ),
    Requirement("sdk-go:discover:format", "`WithFormat` takes `json`, `xml` or `compact`.", ("004",), "13.2"),
    Requirement(
        "sdk-go:discover:health-status",
        "`WithHealthStatus` filters by health status, such as `active`.",
        ("004",),
        "13.2",
    ),
    Requirement(
        "sdk-go:discover:pagination",
        "`WithLimit` and `WithOffset` page through the agents.",
        ("004",),
        "13.2",
    ),
    Requirement(
        "sdk-go:example:basic",
        "The basic program compiles and runs as printed and shows the numbers of agents, reasoners and skills.",
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:example:wildcards",
        (
            "The wildcard snippet, by reasoner, by skill with tags, and by tag with health status, compiles and runs "
            "as printed."
        ),
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:example:access",
        (
            "The access snippet compiles and runs as printed: agents and reasoners are iterated with id, target, tags "
            "and input schema."
        ),
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:example:execute",
        (
            "The execute snippet compiles and runs as printed: `app.Execute` with an `ExecuteRequest` runs the "
            "discovered target."
        ),
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:example:xml",
        "The XML snippet compiles and runs as printed: formatting the XML result with `%s` gives the XML text.",
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:example:compact",
        "The compact snippet compiles and runs as printed and gives the minimal data.",
        ("004",),
        "13.3",
    ),
    Requirement(
        "sdk-go:types:response",
        (
            "`DiscoveryResponse` has the fields and JSON names of 13.4, from `discovered_at` as `time.Time` to "
            "`capabilities`."
        ),
        ("004",),
        "13.4",
    ),
    Requirement(
        "sdk-go:types:agent",
        "`AgentCapability` has the fields and JSON names of 13.4, from `agent_id` to `skills`.",
        ("004",),
        "13.4",
    ),
    Requirement(
        "sdk-go:types:reasoner",
        (
            "`ReasonerCapability` has the fields and JSON names of 13.4; description, schemas and examples are left "
            "out when empty."
        ),
        ("004",),
        "13.4",
    ),
    Requirement(
        "sdk-go:types:skill",
        (
            "`SkillCapability` has the fields and JSON names of 13.4; description and input schema are left out when "
            "empty."
        ),
        ("004",),
        "13.4",
    ),
    # Go SDK: what the refined part adds
    Requirement(
        "sdk-go:refined:no-context",
        "`app.Discover(...)` and `app.Execute(request)` can be called without a context.",
        ("004",),
        "Refined: Go SDK Integration",
    ),
    Requirement(
        "sdk-go:refined:with-schemas",
        "`agent.WithSchemas(true)` asks for input and output schemas at once.",
        ("004",),
        "Refined: Go SDK Integration",
    ),
    Requirement(
        "sdk-go:refined:integration",
        "The snippet of the refined part works: discover, select by input schema, execute the target with a `query`.",
        ("004",),
        "Refined: Go SDK Integration",
    ),
)

GATEWAY = "Gateway: MCP on stdio with both discovery models of the seeds"
EXECUTION = "Execution: put the call through, on every binding, and never lose an accepted one"
CONSENT = "Consent, secrets, sign-in and trust"
SDKS = "SDKs: Python and Go"
ONE_SWITCHBOARD = "One switchboard: agents in the gateway, apps on the control plane, MCP over HTTP, and a watch"

DEFERRED: dict[str, str] = {
    # id -> the topic that will build it
}
