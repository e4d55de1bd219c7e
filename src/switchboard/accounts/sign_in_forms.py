"""What the user is asked when an app wants a sign-in, in English and Chinese, and what they filled in. Pure.

The form says where to get what it asks for, and where that will be sent. The app's own words are marked as such.
"""

import re
from collections.abc import Mapping
from typing import Final, assert_never
from urllib.parse import urlsplit

from switchboard.catalog.bindings import ApiKey, AppCredential, Cookie, OAuth2
from switchboard.catalog.errors import AuthInvalid
from switchboard.catalog.locales import best
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.prompts.forms import Choice, Field, Form, Language, Line, language_of

Typed = ApiKey | AppCredential | Cookie
"""The sign-ins that ask for something to type."""

LONGEST_VALUE = 8 * 1024
_LONGEST_NAME = 100
_LONGEST_ADDRESS = 300
_LONGEST_INSTRUCTIONS = 2000
_PRINTABLE = re.compile(r"[\x20-\x7e]+")

_TEXTS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "title": "{app} sign-in",
        "apiKey": "{app} wants a key. It is kept encrypted on this computer and sent to nobody but the app.",
        "appCredential": "{app} wants an app ID and an app secret. They are kept encrypted on this computer and "
        "sent to nobody but the app.",
        "cookie": "{app} wants the cookies of a browser session you are signed in to. They are kept encrypted on "
        "this computer and sent to nobody but the app.",
        "oauth2": "Sign in to {app} in your browser.",
        "goes to": "Will be sent to",
        "get it": "Where to get it",
        "log in": "Where to sign in first",
        "words": "{app} says",
        "key": "Key",
        "app_id": "App ID",
        "app_secret": "App secret",
        "a cookie": "Cookie {name}",
        "cookies": "Fill in each cookie, or paste the whole Cookie header into one of the fields.",
        "whose": "Whoever has these cookies is signed in as you. Enter them only if you trust {app}.",
        "help": "Help",
        "cancel": "Cancel",
        "ok": "OK",
        "waiting": "Waiting for the user to sign in to {app}",
        "visit": "Open this address in a browser to sign in to {app}:",
        "paste": "If the browser is on another machine, paste the address it ended at",
        "device": "Open this address on any device, and enter the code below to sign in to {app}:",
    },
    "zh": {
        "title": "{app} 登录",
        "apiKey": "{app} 需要一个密钥。它保存在您的钥匙串中，只会发送给该应用。",
        "appCredential": "{app} 需要 App ID 和 App Secret。它们保存在您的钥匙串中，只会发送给该应用。",
        "cookie": "{app} 需要您已登录的浏览器会话的 Cookie。它们保存在您的钥匙串中，只会发送给该应用。",
        "oauth2": "请在浏览器中登录 {app}。",
        "goes to": "将发送到",
        "get it": "获取地址",
        "log in": "请先在此登录",
        "words": "{app} 的说明",
        "key": "密钥",
        "app_id": "App ID",
        "app_secret": "App Secret",
        "a cookie": "Cookie {name}",
        "cookies": "请填写每个 Cookie，或把整个 Cookie 请求头粘贴到任意一栏。",
        "whose": "持有这些 Cookie 的人等同于以您的身份登录。仅在信任 {app} 时填写。",
        "help": "帮助",
        "cancel": "取消",
        "ok": "确定",
        "waiting": "正在等待用户登录 {app}",
        "visit": "请在浏览器中打开此地址以登录 {app}：",
        "paste": "如果浏览器在另一台机器上，请粘贴它最后停留的地址",
        "device": "请在任意设备上打开此地址，并输入下面的代码以登录 {app}：",
    },
}


def name_of(app: App, locale: str) -> str:
    """Return what the app is called, safe to show."""
    return clean(best(app.names, locale), _LONGEST_NAME) or clean(app.id, _LONGEST_NAME)


def text(key: str, app: App, locale: str) -> str:
    """Return one of our texts about an app."""
    return _TEXTS[language_of(locale)][key].format(app=name_of(app, locale))


def credential_form(app: App, auth: Typed, goes_to: tuple[str, ...], locale: str) -> Form:
    """Return the form for a key, an app's id and secret, or cookies."""
    fields = _fields(auth, _TEXTS[language_of(locale)])
    whole_header = isinstance(auth, Cookie) and len(fields) > 1
    warnings = [text("cookies", app, locale)] if whole_header else []
    if isinstance(auth, Cookie):
        warnings.append(text("whose", app, locale))
    return Form(
        title=text("title", app, locale),
        question=text(auth.type, app, locale),
        lines=(_line("goes to", app, ", ".join(map(_shown, goes_to)), locale), *_help_lines(app, auth, locale)),
        warnings=tuple(warnings),
        fields=fields,
        choices=(
            Choice(id="help", label=text("help", app, locale)),
            Choice(id="cancel", label=text("cancel", app, locale)),
            # A whole header in one field leaves the others empty; what is missing is said after that.
            Choice(id="ok", label=text("ok", app, locale), style="primary", needs_fields=not whole_header),
        ),
        language=language_of(locale),
    )


def help_of(app: App, locale: str) -> dict[str, object]:
    """Return what a model needs to explain the sign-in to the user, in the user's language."""
    auth = app.auth
    obtain = auth.obtain_url if isinstance(auth, ApiKey) else auth.login_url if isinstance(auth, Cookie) else None
    instructions = None if auth is None or isinstance(auth, OAuth2) else auth.instructions
    details: dict[str, object] = {
        "app_id": app.id,
        "app_name": name_of(app, locale),
        "auth_type": auth.type if auth else "none",
        "instructions": clean(instructions or "", _LONGEST_INSTRUCTIONS),
        "preferred_locale": locale,
    }
    return details if obtain is None else {**details, "obtain_url": clean(obtain, _LONGEST_ADDRESS)}


def read_values(auth: Typed, given: Mapping[str, str]) -> dict[str, str]:
    """Return what was filled in, by name of the field, trimmed.

    Raises:
        AuthInvalid: something is missing, too long, or cannot be sent. No value is in the message.
    """
    match auth:
        case ApiKey():
            # A query carries anything; a header does not.
            return {"key": _value("key", given.get("key", ""), ascii_only=auth.location == "header")}
        case AppCredential():
            return {name: _value(name, given.get(name, ""), ascii_only=False) for name in ("app_id", "app_secret")}
        case Cookie():
            return _cookies(auth.required_cookies, given)
        case _:
            assert_never(auth)


def _fields(auth: Typed, texts: Mapping[str, str]) -> tuple[Field, ...]:
    match auth:
        case ApiKey():
            return (Field(name="key", label=texts["key"]),)
        case AppCredential():
            return (
                Field(name="app_id", label=texts["app_id"], secret=False),
                Field(name="app_secret", label=texts["app_secret"]),
            )
        case Cookie():
            return tuple(
                Field(name=name, label=texts["a cookie"].format(name=clean(name, _LONGEST_NAME)))
                for name in dict.fromkeys(auth.required_cookies)
            )
        case _:
            assert_never(auth)


def _help_lines(app: App, auth: Typed, locale: str) -> tuple[Line, ...]:
    found: list[Line] = []
    if isinstance(auth, ApiKey) and auth.obtain_url:
        found.append(_line("get it", app, clean(auth.obtain_url, _LONGEST_ADDRESS), locale, theirs=True))
    if isinstance(auth, Cookie):
        found.append(_line("log in", app, clean(auth.login_url, _LONGEST_ADDRESS), locale, theirs=True))
    if auth.instructions:
        found.append(_line("words", app, clean(auth.instructions, _LONGEST_INSTRUCTIONS), locale, theirs=True))
    return tuple(found)


def _line(key: str, app: App, content: str, locale: str, *, theirs: bool = False) -> Line:
    return Line(text(key, app, locale), content, theirs)


def _shown(origin: str) -> str:
    return clean(urlsplit(origin).netloc.removesuffix(":443"), _LONGEST_ADDRESS)


def _value(name: str, given: str, *, ascii_only: bool) -> str:
    value = given.strip()
    shown = clean(name, _LONGEST_NAME)
    if not value:
        raise AuthInvalid(f"{shown} is missing. Call again to be asked again.", field=shown)
    if len(value.encode(errors="replace")) > LONGEST_VALUE:
        raise AuthInvalid(f"{shown} is longer than {LONGEST_VALUE} bytes. Call again to be asked again.", field=shown)
    if not (_PRINTABLE.fullmatch(value) if ascii_only else value.isprintable()):
        message = f"{shown} has characters that cannot be sent. Call again to be asked again."
        raise AuthInvalid(message, field=shown)
    return value


def _cookies(names: tuple[str, ...], given: Mapping[str, str]) -> dict[str, str]:
    """Return the cookies that are wanted and no other, each from its own field or from a whole header in any field."""
    pasted = [_pairs(value) for value in given.values() if "=" in value]
    whole = next((pairs for pairs in pasted if all(name in pairs for name in names)), None)
    found: dict[str, str] = {}
    for name in names:
        own = given.get(name, "").strip()
        raw = whole[name] if whole else own.removeprefix(f"{name}=")
        found[name] = _value(name, raw, ascii_only=True)
        if re.search(r'[;,\s"\\]', found[name].strip('"')):
            shown = clean(name, _LONGEST_NAME)
            raise AuthInvalid(f"{shown} is no value of a cookie. Call again to be asked again.", field=shown)
    return found


def _pairs(header: str) -> dict[str, str]:
    text_of = re.sub(r"^\s*cookie\s*:", "", header, flags=re.IGNORECASE)
    pairs = (part.partition("=") for part in text_of.split(";"))
    return {name.strip(): value.strip() for name, mark, value in pairs if mark}
