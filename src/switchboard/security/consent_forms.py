"""What the user reads when they are asked for consent, in English and Chinese. Pure.

Everything that an app or a caller says of itself is cleaned, short, and marked as its own words.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from switchboard.actions.ports import Call
from switchboard.catalog.locales import best
from switchboard.catalog.model import Agent, App, Caller
from switchboard.catalog.text import clean
from switchboard.prompts.forms import Choice, Form, Language, Line, language_of, quoted
from switchboard.security.grants import Verdict
from switchboard.security.tools import Seen, changed, effect
from switchboard.security.trust import PLAIN, Differences, Vouched

_NAME, _TEXT, _LIST = 80, 300, 300
_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "title": "AAI Gateway asks for permission",
        "question": "{caller} wants to use {app}.",
        "app": "App",
        "agent": "Agent",
        "run_by": "{planes}, the control plane that runs this agent",
        "origin": "From",
        "caller": "Asked by",
        "tool": "Operation",
        "description": "It says",
        "effect": "Effect",
        "reads": "Only reads",
        "writes": "Changes data",
        "destroys": "Can delete or overwrite data",
        "unknown": "Not stated: it may change data",
        "endpoint": "Calls",
        "arguments": "With",
        "domain": "Domain",
        "certificate": "Certificate",
        "valid": "Valid, issued by {issuer}, {since} to {until}",
        "valid_for": "Valid, issued by {issuer} to {subject}, {since} to {until}",
        "plain": "None: not encrypted, on this computer only",
        "scopes": "Permissions",
        "tools": "All operations",
        "before": "Before: {part}",
        "part_description": "its description",
        "part_parameters": "its parameters",
        "part_endpoint": "what it calls",
        "part_annotations": "what it says about its effect",
        "first": "First contact with this web app. Is this the site you mean?",
        "changed": "This operation has changed since you allowed it: {parts}.",
        "new": "This operation is new since you allowed all operations of this app.",
        "issuer": "{host}: its certificate was issued by {before}, and is now issued by {now}.",
        "hosts": "It now also calls: {names}.",
        "more_scopes": "It now asks for more permissions: {names}.",
        "added": "New operations: {names}.",
        "removed": "Operations that are gone: {names}.",
        "tools_changed": "Changed operations: {names}.",
        "destroying": "This can delete or overwrite data.",
        "conflict": "Another app with the same id is known from {origins}. This is a different app.",
        "unnamed": "The program that asks did not say its name.",
        "forgetful": "Your decision lasts until the agent is closed: nothing can be kept on this computer now.",
        "signing_in": "You are about to sign in to {app}.",
        "claims": "Only reads, the app says",
        "deny": "Deny",
        "once": "Allow once",
        "allow_tool": "Allow this operation",
        "allow_all": "Allow all operations",
    },
    "zh": {
        "title": "AAI Gateway 请求权限",
        "question": "{caller}想要使用{app}。",
        "app": "应用",
        "agent": "智能体",
        "run_by": "{planes}（运行此智能体的控制平面）",
        "origin": "来源",
        "caller": "请求方",
        "tool": "请求执行操作",
        "description": "应用自述",
        "effect": "影响",
        "reads": "只读取数据",
        "writes": "会更改数据",
        "destroys": "可能删除或覆盖数据",
        "unknown": "未说明：可能更改数据",
        "endpoint": "调用",
        "arguments": "参数",
        "domain": "域名",
        "certificate": "证书",
        "valid": "有效，由 {issuer} 签发，{since} 至 {until}",
        "valid_for": "有效，由 {issuer} 签发给 {subject}，{since} 至 {until}",
        "plain": "无：未加密，仅限本机",
        "scopes": "权限范围",
        "tools": "全部操作",
        "before": "之前：{part}",
        "part_description": "描述",
        "part_parameters": "参数",
        "part_endpoint": "调用目标",
        "part_annotations": "自述的影响",
        "first": "首次使用此网络应用。请确认这是您要访问的网站。",
        "changed": "自您授权以来，此操作已更改：{parts}。",
        "new": "此操作是在您授权所有操作之后新增的。",
        "issuer": "{host}：证书原由 {before} 签发，现由 {now} 签发。",
        "hosts": "现在还会调用：{names}。",
        "more_scopes": "现在请求更多权限：{names}。",
        "added": "新增操作：{names}。",
        "removed": "已移除的操作：{names}。",
        "tools_changed": "已更改的操作：{names}。",
        "destroying": "这可能删除或覆盖数据。",
        "conflict": "另一个来自 {origins} 的应用使用相同的 ID。这是不同的应用。",
        "unnamed": "请求的程序没有说明自己的名称。",
        "forgetful": "目前无法在此电脑上保存，您的决定仅在本次会话中有效。",
        "signing_in": "您即将登录{app}。",
        "claims": "应用称只读取数据",
        "deny": "拒绝",
        "once": "允许一次",
        "allow_tool": "授权此操作",
        "allow_all": "授权所有操作",
    },
}


class Matter(Struct, frozen=True, kw_only=True):
    """Everything that one question is about."""

    call: Call
    seen: Seen
    verdict: Verdict
    vouched: Mapping[str, Vouched] = {}
    first: bool = False
    """Whether this is the first contact with a web app."""
    news: Differences = Differences()
    others: tuple[str, ...] = ()
    """Where other apps with the same id are from."""
    forgetful: bool = False
    """Whether nothing can be kept beyond this process."""
    whole: bool = False
    """Whether it is about all operations from the start."""
    signing_in: bool = False
    """Whether nothing is to be called yet: the user only signs in."""


def consent_form(matter: Matter, locale: str) -> Form:
    """Return the question."""
    language = language_of(locale)
    words = _WORDS[language]
    return Form(
        title=words["title"],
        question=words["signing_in" if matter.signing_in else "question"].format(
            caller=quoted(_caller(matter), language), app=quoted(app_name(matter.call.owner, locale), language)
        ),
        lines=tuple(_lines(matter, words, locale)),
        warnings=tuple(_warnings(matter, words)),
        choices=(
            Choice(id="deny", label=words["deny"]),
            Choice(id="once", label=words["once"]),
            Choice(id="tool", label=words["allow_tool"], style="primary"),
            Choice(id="all", label=words["allow_all"]),
        ),
        language=language,
    )


def in_text(form: Form) -> str:
    """Return a form as lines of text, for who can show nothing else."""
    told = (line.stated(form.language) for line in form.lines)
    return "\n".join((form.question, *told, *(f"⚠ {warning}" for warning in form.warnings)))


def app_name(owner: App | Agent, locale: str = "en") -> str:
    """Return what an app is called, fit to be shown."""
    return clean(best(owner.names, locale) if isinstance(owner, App) else owner.id, _NAME) or clean(owner.id, _NAME)


def origin_of(owner: App | Agent) -> str:
    """Return where an owner is from: this, and its id, is what a decision is for."""
    return owner.origin if isinstance(owner, App) else owner.base_url


def _planes(owner: App | Agent) -> tuple[str, ...]:
    """Return the addresses of the control planes that run an agent: what people know of it."""
    return owner.standing.planes if isinstance(owner, App) and owner.standing is not None else ()


def _caller(matter: Matter) -> str:
    return clean(matter.call.caller.name, _NAME)


def _lines(matter: Matter, words: Mapping[str, str], locale: str) -> Iterator[Line]:
    owner, tool = matter.call.owner, matter.call.capability
    planes = _planes(owner)
    yield Line(words["agent" if planes else "app"], f"{app_name(owner, locale)} ({clean(owner.id, _NAME)})")
    if not matter.whole:
        yield Line(words["tool"], clean(tool.id, _NAME))
        if matter.seen.description:
            yield Line(words["description"], clean(tool.description, _TEXT), theirs=True)
        yield Line(words["effect"], words[effect(tool)])
        yield Line(words["endpoint"], matter.seen.endpoint)
    if matter.call.arguments:
        yield Line(words["arguments"], _shown(matter.call.arguments), private=True)
    yield from _before(matter, words)
    yield from _contact(matter, words)
    if matter.first or matter.whole:
        yield Line(words["tools"], _names(tool.id for tool in owner.capabilities))
    origin = words["run_by"].format(planes=_names(planes)) if planes else clean(origin_of(owner), _TEXT)
    yield Line(words["origin"], origin)
    if not matter.signing_in:
        yield Line(words["caller"], f"{_caller(matter)} {clean(matter.call.caller.version, _NAME)}".strip())


def _before(matter: Matter, words: Mapping[str, str]) -> Iterator[Line]:
    """Yield what the user was shown last, of every part that has changed."""
    before = matter.verdict.before
    texts = {} if before is None else {name: getattr(before, name, "") for name in changed(before, matter.seen)}
    for part, text in texts.items():
        if text:
            yield Line(words["before"].format(part=words[f"part_{part}"]), text, theirs=True)


def _contact(matter: Matter, words: Mapping[str, str]) -> Iterator[Line]:
    for vouched in matter.vouched.values() if matter.first or matter.news.any else ():
        yield Line(words["domain"], vouched.host)
        yield Line(words["certificate"], _certificate(vouched, words))
    if not matter.first or not isinstance(matter.call.owner, App):
        return
    scopes: tuple[str, ...] = getattr(matter.call.owner.auth, "scopes", ())
    if scopes:
        yield Line(words["scopes"], _names(scopes), theirs=True)


def _certificate(vouched: Vouched, words: Mapping[str, str]) -> str:
    if vouched.issuer == PLAIN:
        return words["plain"]
    is_told = bool(vouched.subject) and vouched.subject not in (vouched.host, *vouched.names)
    return words["valid_for" if is_told else "valid"].format(
        issuer=vouched.issuer, subject=vouched.subject, since=vouched.since, until=vouched.until
    )


def _warnings(matter: Matter, words: Mapping[str, str]) -> Iterator[str]:
    if matter.others:
        yield words["conflict"].format(origins=_names(matter.others))
    if matter.first:
        yield words["first"]
    yield from _news(matter, words)
    asked = matter.call.owner.capabilities if matter.whole else (matter.call.capability,)
    if any(effect(tool) == "destroys" for tool in asked):
        yield words["destroying"]
    if matter.call.caller.name == Caller().name:
        yield words["unnamed"]
    if matter.forgetful:
        yield words["forgetful"]


def _news(matter: Matter, words: Mapping[str, str]) -> Iterator[str]:
    """Yield what is not as it was when the user last said yes."""
    verdict, news = matter.verdict, matter.news
    if verdict.standing == "changed" and verdict.before is not None:
        parts = changed(verdict.before, matter.seen)
        yield words["changed"].format(parts=_names(words[f"part_{part}"] for part in parts))
    if verdict.standing == "new":
        yield words["new"]
    for host, before, now in news.issuers:
        yield words["issuer"].format(host=host, before=before, now=now)
    lists = {"hosts": news.hosts, "more_scopes": news.scopes, "added": news.added, "removed": news.removed}
    for word, names in {**lists, "tools_changed": news.changed}.items():
        if names:
            yield words[word].format(names=_names(names))


def _names(names: Iterable[str]) -> str:
    return clean(", ".join(clean(name, _NAME) for name in names), _LIST)


def _shown(arguments: Mapping[str, Any]) -> str:
    return clean(msgspec.json.encode(dict(arguments)).decode(), _TEXT)
