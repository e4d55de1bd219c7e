"""What a text can mean: an address, a domain, or a name that nobody may look up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog import mentions
from switchboard.catalog.mentions import Mention

ADDRESSES = {
    "https://notion.com": "https://notion.com",
    "https://notion.com/": "https://notion.com",
    "https://notion.com/page?x=1#y": "https://notion.com",
    "https://notion.com?x": "https://notion.com",
    "https://notion.com#y": "https://notion.com",
    "HTTPS://Notion.COM/Page": "https://notion.com",
    "  https://notion.com \n": "https://notion.com",
    "http://localhost:3000/x": "http://localhost:3000",
    "https://notion.com:8443/x": "https://notion.com:8443",
    "https://127.0.0.1:8443": "https://127.0.0.1:8443",
    "https://[::1]:3000/": "https://[::1]:3000",
    "https://b\u00fccher.test/x": "https://b\u00fccher.test",
    "https://com.nope.app": "https://com.nope.app",
    "https://notion": "https://notion",
    "\uff48ttps://notion\uff0ecom": "https://notion.com",
    "https://notion.com/a b": "https://notion.com",
    "https://notion.com/" + "x" * 5000: "https://notion.com",
}


@pytest.mark.parametrize(("text", "origin"), ADDRESSES.items())
def test_an_address_means_its_site_and_nothing_else(text: str, origin: str) -> None:
    """Whatever comes after the host."""
    mention = mentions.read(text)

    assert (mention.origin, mention.explicit) == (origin, True)


DOMAINS = {
    "notion.com": "https://notion.com",
    "Notion.COM": "https://notion.com",
    " notion.com\t": "https://notion.com",
    "notion.com.": "https://notion.com",
    "notion.com/page": "https://notion.com",
    "notion.com?page=1": "https://notion.com",
    "notion.com#top": "https://notion.com",
    "notion.com:443": "https://notion.com",
    "notion.com:0443": "https://notion.com",
    "notion.com:8443/page": "https://notion.com:8443",
    "api.notion.com": "https://api.notion.com",
    "www.bbc.co.uk": "https://www.bbc.co.uk",
    "my-site.example.museum": "https://my-site.example.museum",
    "app.notion.so": "https://app.notion.so",
    "dev.example.app": "https://dev.example.app",
    "id.me": "https://id.me",
    "me.com": "https://me.com",
    "de.wikipedia.org": "https://de.wikipedia.org",
    "it.example.com": "https://it.example.com",
    "127.0.0.1": "https://127.0.0.1",
    "127.0.0.1:3000": "https://127.0.0.1:3000",
    "[::1]": "https://[::1]",
    "[::FFFF:127.0.0.1]:3000/x": "https://[::ffff:127.0.0.1]:3000",
    "localhost": "https://localhost",
    "LOCALHOST:3000": "https://localhost:3000",
    "b\u00fccher.de": "https://xn--bcher-kva.de",
    "B\u00dcCHER.de": "https://xn--bcher-kva.de",
    "stra\u00dfe.de": "https://xn--strae-oqa.de",
    "\u8bed\u96c0.\u4e2d\u56fd": "https://xn--2e3a46s.xn--fiqs8s",
    "xn--bcher-kva.de": "https://xn--bcher-kva.de",
    "\uff4e\uff4f\uff54\uff49\uff4f\uff4e\uff0e\uff43\uff4f\uff4d": "https://notion.com",
    "1password.com": "https://1password.com",
    "9gag.com": "https://9gag.com",
    "foo_bar.example.com": "https://foo_bar.example.com",
}


@pytest.mark.parametrize(("text", "origin"), DOMAINS.items())
def test_a_domain_means_its_site_if_nothing_is_called_so(text: str, origin: str) -> None:
    """In the spelling that is looked up."""
    mention = mentions.read(text)

    assert (mention.origin, mention.explicit) == (origin, False)


NAMES = [
    "Notion",
    "notion",
    "",
    " ",
    "\u8bed\u96c0",
    "Mein Kalender",
    "notion com",
    "notion.com is great",
    "open https://notion.com",
    "com.nope.app",
    "COM.Nope.App",
    "com.notion.api",
    "com.example",
    "com.app",
    "org.gnome.Calendar",
    "net.example.io",
    "io.github.user",
    "io.nope.app",
    "ai.claude.app",
    "de.firma.app",
    "so.notion.cloud",
    "dev.zed.Zed",
    "me.someone.mail",
    "app:com.notion.api",
    "app_com_notion_api",
    "3.14",
    "1.2.3",
    "v2.0",
    "1.2.3.4.5",
    "256.1.1.1",
    "01.2.3.4",
    "0x7f.1",
    "2130706433",
    "a..com",
    ".com",
    "com",
    "-a.com",
    "a-.com",
    "a_.com",
    "user@notion.com",
    "mailto:user@notion.com",
    "file:///etc/passwd",
    "//notion.com",
    "javascript:alert(1)",
    "https://",
    "https:notion.com",
    "https:///x",
    "notion.com:",
    "notion.com:port",
    "notion.com:123456",
    "[nonsense]",
    "\U0001f4d3",
    "i\u2764.ws",
    "a\u3002com",
    "a\0b.com",
    "a\nb.com",
    "\u202emoc.noiton",
    "..",
    "../../etc/passwd",
    "a" * 64 + ".com",
    "a." * 200 + "com",
    "x" * 5000,
    "a." * 5000,
    ("a" * 63 + ".") * 80,
]


@pytest.mark.parametrize("text", NAMES)
def test_anything_else_is_a_name_that_nobody_looks_up(text: str) -> None:
    """Ids, versions, sentences, and what no host can be called."""
    mention = mentions.read(text)

    assert mention.origin is None
    assert not mention.explicit


def test_a_name_is_kept_as_it_was_written() -> None:
    """But for white space around it, full-width letters, and what is longer than any name."""
    assert mentions.read("  \uff2e\uff4fti\u00f6n ") == Mention("Noti\u00f6n")
    assert len(mentions.read("x" * 5000).name) == 2000


@given(st.text(max_size=100) | st.text("ahtps:/.[]%@#?0159- \u00df\u3002\uff0e\u2100\ud800\U0001f4d3", max_size=60))
def test_every_text_can_be_read(text: str) -> None:
    """Never an exception; an origin has a scheme and a host, and no path."""
    mention = mentions.read(text)

    assert mention.explicit <= (mention.origin is not None)
    if mention.origin is not None:
        scheme, _, host = mention.origin.partition("://")
        assert scheme in ("https", "http")
        assert host
        assert not set(host) & set("/?# ")


def test_an_address_of_another_kind_is_an_address_for_the_guard_to_refuse() -> None:
    """`ftp://…` means nothing else; to call it unknown would hide why it is not asked."""
    mention = mentions.read("ftp://Notion.com/x")

    assert (mention.origin, mention.explicit) == ("ftp://notion.com", True)
