"""Forms as people will see them, for the tests of pages."""

from switchboard.prompts.forms import Choice, Field, Form, Line

CONSENT = Form(
    title="Allow Claude Desktop to use Mail?",
    question="Claude Desktop wants to run a tool of this app for the first time.",
    lines=(
        Line("App", "Mail (com.example.mail)"),
        Line("Tool", "send_message"),
        Line("What it does", "Sends an e-mail from the account you name, to anybody.", theirs=True),
        Line("With", "to, subject, body"),
        Line("Kind", "Changes things outside this computer"),
    ),
    warnings=("This tool was changed since you allowed it: it now also takes attachments.",),
    choices=(
        Choice(id="deny", label="Deny"),
        Choice(id="once", label="Allow once"),
        Choice(id="tool", label="Allow this tool"),
        Choice(id="all", label="Allow all tools", style="primary"),
    ),
)
DESTROY = Form(
    title="Allow Codex to delete files in Files?",
    question="Codex wants to run a tool that cannot be undone.",
    lines=(Line("App", "Files"), Line("Tool", "delete_forever")),
    warnings=("What this tool deletes cannot be brought back.", "Another app uses the same id from another place."),
    choices=(Choice(id="deny", label="Deny"), Choice(id="once", label="Delete once", style="danger")),
)
KEY = Form(
    title="Sign in to Weather",
    question="Weather wants an API key. It is kept in your keychain and sent to https://api.weather.example only.",
    lines=(Line("Site", "https://api.weather.example"),),
    fields=(
        Field(name="app_id", label="App ID", secret=False),
        Field(name="choice", label="App secret"),
    ),
    choices=(
        Choice(id="cancel", label="Cancel"),
        Choice(id="help", label="Help"),
        Choice(id="ok", label="OK", style="primary", needs_fields=True),
    ),
)
CHINESE = Form(
    title="允许 Claude Desktop 使用“邮件”吗？",
    question="Claude Desktop 首次请求运行此应用的工具。",
    lines=(
        Line("应用", "邮件（com.example.mail）"),
        Line("工具", "send_message"),
        Line("用途", "用您指定的账户向任何人发送电子邮件。", theirs=True),
    ),
    warnings=("自您上次允许以来，此工具已发生变化：现在还可以添加附件。",),
    fields=(Field(name="key", label="API 密钥"),),
    choices=(
        Choice(id="deny", label="拒绝"),
        Choice(id="once", label="仅允许一次"),
        Choice(id="all", label="允许所有工具", style="primary", needs_fields=True),
    ),
    language="zh",
)
PAYLOAD = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)> **bold** [link](https://evil.example) "
    "\"quoted\" 'single' &amp; \u202egnorw si siht\u202c </blockquote></style><form action=https://evil.example>"
)
HOSTILE = Form(
    title=PAYLOAD,
    question=PAYLOAD,
    lines=(Line(PAYLOAD, PAYLOAD), Line("Own words", PAYLOAD, theirs=True), Line("Half", "\ud83d alone")),
    warnings=(PAYLOAD,),
    fields=(Field(name='"><script>', label=PAYLOAD),),
    choices=(Choice(id='"deny"', label=PAYLOAD), Choice(id="ok", label="OK", needs_fields=True)),
)
