"""Provider URLs: taken apart as they are written, or refused with a reason."""

from __future__ import annotations

import traceback
from contextlib import suppress
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl

schemes = st.from_regex(r"[a-z][a-z0-9+.-]{0,8}", fullmatch=True)
ports = st.none() | st.integers(0, 65535)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
hosts = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}", fullmatch=True)


@given(
    scheme=schemes,
    host=hosts,
    port=ports,
    path=st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    user_name=st.none() | names,
    password=names,
    options=st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=3),
)
def test_the_parts_are_those_that_were_joined(
    scheme: str,
    host: str,
    port: int | None,
    path: str,
    user_name: str | None,
    password: str,
    options: dict[str, str],
) -> None:
    user = "" if user_name is None else f"{quote(user_name, safe='')}:{quote(password, safe='')}@"
    text = f"{scheme}://{user}{host}{'' if port is None else f':{port}'}/{quote(path)}"
    if options:
        text += "?" + urlencode(options, quote_via=quote, safe="+")
    url = ProviderUrl.parse(text)
    assert (url.scheme, url.host, url.port, url.path) == (scheme, host, port, f"/{path}")
    assert (url.user_name, url.password) == ((None, None) if user_name is None else (user_name, password))
    assert dict(url.options) == options


def test_a_plus_in_an_option_is_one() -> None:
    """The scheme of PostgreSQL's stores has one, and a password may."""
    url = ProviderUrl.parse("vm://shop?store=postgresql+psycopg://me:a+b@host/db&story_properties=a,%20b%2Bc")
    assert dict(url.options) == {"store": "postgresql+psycopg://me:a+b@host/db", "story_properties": "a, b+c"}


@given(st.text(max_size=60) | st.from_regex(r"[a-z]{1,3}:?/{0,2}[\[\]@:%?#&=a-z0-9/.-]{0,40}", fullmatch=True))
def test_any_text_is_a_url_or_an_error_that_says_why(text: str) -> None:
    with suppress(UrlError):  # and no other error
        assert text.lower().startswith(f"{ProviderUrl.parse(text).scheme}://")


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("vm://Shop", "Shop", None, ""),
        ("vm://a%20b", "a b", None, ""),
        ("stomp://[::1]:61613/x", "::1", 61613, "/x"),
        ("stomp://u@h", "h", None, ""),
        ("folder:///var/lib/a%2Fb%20c", "", None, "/var/lib/a/b c"),
        ("vm://", "", None, ""),
    ],
)
def test_hosts_ports_and_paths(text: str, host: str, port: int | None, path: str) -> None:
    url = ProviderUrl.parse(text)
    assert (url.host, url.port, url.path, dict(url.options)) == (host, port, path, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "SCHEME://"),
        ("shop", "SCHEME://"),
        ("vm:shop", "SCHEME://"),
        ("//shop", "SCHEME://"),
        ("vm://h:port", "port"),
        ("vm://h:99999", "[Pp]ort"),
        ("vm://[::1", "IPv6"),
        ("vm://test_orders[tea]", r"a name has neither"),
        ("vm://a]@[::1", "IPv6"),
        ("vm://h?a=1&a=2", "'a' stands twice"),
        ("vm://h?a", "NAME=VALUE"),
        ("vm://h?a=1&&b=2", "NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(UrlError, match=reason):
        ProviderUrl.parse(text)


@pytest.mark.parametrize("text", ["shop", "vm://h:port"])
def test_an_error_shows_a_url_that_works(text: str) -> None:
    with pytest.raises(UrlError, match="vm://shop"):
        ProviderUrl.parse(text)


def test_an_option_may_be_empty() -> None:
    assert dict(ProviderUrl.parse("vm://h?a=&b=%26%20x").options) == {"a": "", "b": "& x"}


def test_secrets_are_not_shown() -> None:
    url = ProviderUrl.parse("stomp://me:hush@h/p?token=psst&x=1")
    assert repr(url) == "<ProviderUrl stomp://h/p?token=…&x=…>"
    assert "hush" not in str(url)


@pytest.mark.parametrize(
    "text",
    [
        "vm://me:hush@h:port?x=psst",
        "vm:/me:hush@h",
        "vm://me:hush@\u2100?a=psst",
        "vm://h?a=psst&a=psst",
    ],
)
def test_secrets_are_not_shown_by_errors(text: str) -> None:
    with pytest.raises(UrlError) as caught:
        ProviderUrl.parse(text)
    shown = "".join(traceback.format_exception(caught.value)).replace(repr(text), "")
    assert "psst" not in shown
    assert "hush" not in str(caught.value)
