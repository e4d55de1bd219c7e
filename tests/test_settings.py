"""Settings of the control plane: what would open it to anybody, or close it to everybody, is refused at the start."""

from pathlib import Path

import pytest

from switchboard.settings import ServeSettings, SettingsError, database_path, is_postgres, serve_settings


def settings_of(folder: Path, text: str, **environment: str) -> ServeSettings:
    """Read a settings file."""
    file = folder / "settings.toml"
    file.write_text(text, encoding="utf-8")
    return serve_settings({"config": str(file)}, environment)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('api_key = ""', "api_key is empty"),
        ('api_key = " \\t"', "api_key is empty"),
        ('[keys]\nann = ""', "'ann' in keys is empty"),
        ('[keys]\nann = "k"\nbob = "  "', "'bob' in keys is empty"),
        ('api_key = "k"\n[keys]\ndefault = "l"', "Both api_key and keys"),
        ('api_key = "same"\n[keys]\nann = "same"', "'default' and 'ann' have the same key"),
        ('[keys]\nann = "same"\nbob = "same"', "'ann' and 'bob' have the same key"),
        ('[keys]\nanonymous = "k"', "called 'anonymous', which means everybody"),
        ('[keys]\n"*" = "k"', "which means everybody"),
    ],
)
def test_a_key_that_lets_anybody_in_or_is_nobodys_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """Empty, blank, twice under one name, one for two, under the name of everybody; and no key is shown."""
    with pytest.raises(SettingsError, match=why) as caught:
        settings_of(tmp_path, text)

    assert "same'" not in str(caught.value)


def test_a_blank_key_in_the_environment_is_refused() -> None:
    """A variable that is empty is one that is not set."""
    with pytest.raises(SettingsError, match="api_key is empty"):
        serve_settings({}, {"SWITCHBOARD_API_KEY": " "})

    assert serve_settings({}, {"SWITCHBOARD_API_KEY": ""}).callers == {}


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ('[keys]\nbilling-team = "k"\nann = "l"\n[allow]\n"*" = ["biling-team"]', "billing-team"),
        ('[keys]\nann = "l"\n[allow]\n"a-*" = ["ann"]\n"b-*" = ["ann", "default"]', "ann"),
        ('[allow]\n"*" = ["anonymos"]', "anonymous"),
        ('[keys]\nbilling-team = "k"\n[mcp_allow]\nbiling-team = ["a:b"]', "billing-team"),
        ('[mcp_allow]\nanonymos = ["a:b"]', "anonymous"),
    ],
)
def test_a_rule_for_somebody_without_a_key_is_refused(tmp_path: Path, text: str, near: str) -> None:
    """It says who comes nearest."""
    with pytest.raises(SettingsError, match=f"Did you mean '{near}'"):
        settings_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "callers"),
    [
        ('api_key = "k"\n[allow]\n"*" = ["default", "anonymous", "*"]', {"default": "k"}),
        ('[keys]\ndefault = "k"\nann = "l"\n[allow]\n"*" = ["ann", "default"]', {"default": "k", "ann": "l"}),
        ("", {}),
    ],
)
def test_keys_and_rules_that_fit_are_taken(tmp_path: Path, text: str, callers: dict[str, str]) -> None:
    """Names of keys, the key without a name, and everybody."""
    assert settings_of(tmp_path, text).callers == callers


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "postgresql://ann:hush@db.internal:5432/plane?sslmode=require&password=hush",
            "postgresql://db.internal:5432/plane",
        ),
        ("postgres://ann:hu@sh@db/plane", "postgres://db/plane"),
        ("sqlite:////var/lib/plane.db", "sqlite:////var/lib/plane.db"),
    ],
)
def test_a_database_address_is_shown_without_its_password(url: str, shown: str) -> None:
    """Wherever settings are shown."""
    settings = serve_settings({"database_url": url}, {})

    assert shown in repr(settings)
    assert "hush" not in repr(settings)
    assert is_postgres(url) == url.startswith("postgres")


def test_another_kind_of_database_is_refused_with_what_there_is() -> None:
    """By its kind, never with its address, which may have a password in it."""
    with pytest.raises(SettingsError, match=r"mysql databases are not supported\. Use sqlite") as caught:
        database_path("mysql://ann:hush@db/plane")

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("rule", ["a", "a:", ":b", "", "agent.reasoner"])
def test_a_rule_for_mcp_names_an_owner_and_a_capability(tmp_path: Path, rule: str) -> None:
    """One that names less would allow nothing, or more than was meant."""
    with pytest.raises(SettingsError, match="Write owner:capability"):
        settings_of(tmp_path, f'[mcp_allow]\nanonymous = ["{rule}"]')


@pytest.mark.parametrize(
    "origin", ["*", "null", "chat.example", "https://chat.example/", "https://a b", "ftp://a", "https://u@a"]
)
def test_an_origin_is_written_as_browsers_send_it(tmp_path: Path, origin: str) -> None:
    """One that is written otherwise would never be met."""
    with pytest.raises(SettingsError, match="is not an origin"):
        settings_of(tmp_path, f'mcp_origins = ["{origin}"]')


def test_what_mcp_takes_can_stand_in_the_environment() -> None:
    """Origins are separated by spaces; the switch is also understood as AgentField spells it."""
    given = {
        "SWITCHBOARD_MCP_ORIGINS": "https://chat.example http://[::1]:3000",
        "AGENTFIELD_MCP_ENABLED": "false",
    }
    found = serve_settings({}, given)

    assert (found.mcp_origins, found.mcp_enabled) == (["https://chat.example", "http://[::1]:3000"], False)
    assert serve_settings({}, {}).mcp_enabled


@pytest.mark.parametrize(
    "url", ["agents.example.com", "ftp://a", "https://a/?b", "https://ann:pw@a", "https://a b", "https://"]
)
def test_a_public_address_that_could_not_begin_others_is_refused(tmp_path: Path, url: str) -> None:
    """And not repeated: a password may be in it."""
    with pytest.raises(SettingsError, match="public_url") as caught:
        settings_of(tmp_path, f'public_url = "{url}"')

    assert "pw" not in str(caught.value)
    assert settings_of(tmp_path, 'public_url = "https://a.example:8443/b"').public_url == "https://a.example:8443/b"


@pytest.mark.parametrize(
    ("host", "public_url", "alone"),
    [
        ("127.0.0.1", "", True),
        ("::1", "http://localhost:8080", True),
        ("localhost", "http://127.0.0.1/switchboard", True),
        ("127.0.0.1", "https://agents.example.com", False),
        ("192.168.0.7", "", False),
        ("192.168.0.7", "http://localhost:8080", False),
    ],
)
def test_a_server_is_for_this_machine_unless_others_come_by_its_address_or_a_proxy(
    host: str, public_url: str, alone: bool
) -> None:
    """Where it listens, and what it says others call it."""
    given = {"SWITCHBOARD_HOST": host, "SWITCHBOARD_PUBLIC_URL": public_url, "SWITCHBOARD_API_KEY": "k"}

    assert serve_settings({}, given).is_for_this_machine == alone


@pytest.mark.parametrize("url", ["https://[", "https://:80", "https://[::1"])
def test_a_public_address_without_a_host_is_refused(url: str) -> None:
    """Nobody could come there."""
    with pytest.raises(SettingsError, match="public_url"):
        serve_settings({}, {"SWITCHBOARD_PUBLIC_URL": url})
