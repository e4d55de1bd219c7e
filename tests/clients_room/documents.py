"""Configurations, made up: JSON with comments and commas anywhere, and TOML in its many spellings."""

import json

from hypothesis import strategies as st

NAMES = st.sampled_from(["mcpServers", "aai", "github", "theme", "ünï", "a.b", "", "aai-gateway2", 'q"uote'])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
SCALARS = st.one_of(
    TEXTS.map(json.dumps),
    TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["0", "-1.5e3", "true", "false", "null", '"\\u0041\\n"', '"//"', '"{"', '"/*"']),
)
SPACES = st.sampled_from(["", "", "", " ", "\n", "\r\n", "\n  ", "\n\t", "\n    ", "\r\n  ", "  "])
COMMENTS = st.sampled_from(["/* c */", "/* \n */", "// c\n", "// }\r\n", "/*,*/", "//\n  ", '/* "aai-gateway": 1 */'])


@st.composite
def gaps(draw: st.DrawFn) -> str:
    """What may stand between two signs."""
    parts = draw(st.lists(st.one_of(SPACES, SPACES, COMMENTS), max_size=3))
    return "".join(parts)


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    """Any value."""
    kind = draw(st.sampled_from(["scalar", "object", "array"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(SCALARS)
    if kind == "object":
        return draw(objects(depth - 1))
    items = draw(st.lists(values(depth - 1), max_size=2))
    return f"[{draw(_listed(items))}]"


@st.composite
def _listed(draw: st.DrawFn, entries: list[str]) -> str:
    text = draw(gaps())
    for at, entry in enumerate(entries):
        text += entry + draw(gaps())
        if at + 1 < len(entries) or draw(st.booleans()):
            text += "," + draw(gaps())
    return text


@st.composite
def objects(draw: st.DrawFn, depth: int = 2, more: tuple[tuple[str, str], ...] = ()) -> str:
    """An object, with these members somewhere in it."""
    pairs = [(name, draw(values(depth))) for name in draw(st.lists(NAMES, max_size=3)) if name != "mcpServers" or depth]
    for pair in more:
        pairs.insert(draw(st.integers(0, len(pairs))), pair)
    entries = [f"{json.dumps(name)}{draw(gaps())}:{draw(gaps())}{value}" for name, value in pairs]
    return f"{{{draw(_listed(entries))}}}"


@st.composite
def jsonc(draw: st.DrawFn) -> str:
    """A whole configuration: with or without servers, empty or full, in any layout."""
    head, tail = draw(gaps()), draw(gaps())
    mark = draw(st.sampled_from(["", "", "\ufeff"]))
    kind = draw(st.sampled_from(["nothing", "servers", "servers", "no servers", "neat"]))
    if kind == "nothing":
        return mark + head
    if kind == "neat":
        indent = draw(st.sampled_from([2, 4, "\t", None]))
        servers = draw(st.sampled_from([{}, {"a": {}}, {"github": {"command": "npx", "env": {"K": "v"}}}]))
        document = draw(st.sampled_from([{}, {"x": 1}, {"mcpServers": servers}, {"x": [1], "mcpServers": servers}]))
        text = json.dumps(document, indent=indent)
        newline = draw(st.sampled_from(["\n", "\r\n"]))
        return mark + text.replace("\n", newline) + draw(st.sampled_from(["", newline]))
    more = (("mcpServers", draw(objects(1))),) if kind == "servers" else ()
    return mark + head + draw(objects(1, more)) + tail


ROWS = st.sampled_from(
    [
        'model = "gpt"',
        'a.b = 1 # not "x"',
        "list = [\n  1, # one ]\n  2,\n]",
        'text = """\n[mcp_servers.aai-gateway]\n""" # end',
        "raw = '''\n[x]'''''",
        'inline = { a = "#", b = [1] }',
        "# a comment",
        "",
        "   ",
        "when = 2026-01-02 03:04:05",
        "\"quoted key\" = '\\'",
    ]
)
HEADS = st.sampled_from(["[mcp_servers.github]", "[a]", '["a.b".c]', "[[many]]", "[ spaced . out ]", "[mcp_servers]"])


@st.composite
def toml(draw: st.DrawFn) -> str:
    """A whole configuration of Codex; keys may come twice, so not every one is right."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    rows = draw(st.lists(st.one_of(ROWS, HEADS), max_size=6))
    text = "\n".join(rows).replace("\n", newline)
    return draw(st.sampled_from(["", "", "\ufeff"])) + text + draw(st.sampled_from(["", newline, newline * 2]))
