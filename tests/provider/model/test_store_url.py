"""Passwords come out of the URLs of stores, of whatever kind, and go back in."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from pyjms_provider.model.attributes import has_password, split_password, with_password


@pytest.mark.parametrize(
    ("url", "bare", "password"),
    [
        ("postgresql+psycopg://me:s%40cret@db/x?a=b", "postgresql+psycopg://me@db/x?a=b", "s@cret"),
        ("log+x://me:@here/x", "log+x://me@here/x", ""),
        ("log://me@here/x:y@z", "log://me@here/x:y@z", None),
        ("sqlite:///data/a:b@c.db", "sqlite:///data/a:b@c.db", None),
    ],
)
def test_a_password_is_split_off_and_put_back(url: str, bare: str, password: str | None) -> None:
    assert split_password(url) == (bare, password)
    assert has_password(url) is (password is not None)
    assert not has_password(bare)
    assert with_password(bare, None if password is None else SecretStr(password)) == url


@pytest.mark.parametrize(
    ("url", "is_found"),
    [
        ("postgresql://me@db/x?password=hush", True),
        ("postgresql://db/x?a=b&PWD=hush", True),
        ("postgresql://me@db/x?passfile=/home/me/.pgpass", False),
        ("postgresql://me@db/password=x?a=b", False),
        ("postgresql://me@db/x?sslkey=k.pem&sslpassword=hush", True),
        ("postgresql://me:hu/sh@db/x", True),
        ("postgresql://me:4/hush@db/x", False),
        ("stomp://host:61613/shop@home", False),
        ("stomp://[::1]:61613/shop@home", False),
    ],
)
def test_a_password_in_the_query_or_with_slashes_is_found(url: str, is_found: bool) -> None:
    assert has_password(url) is is_found
