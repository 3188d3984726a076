"""The options of ``vm://`` that choose stories."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.settings import read_url
from pyjms_provider.stories.settings import StoryLevel, StorySettings


def test_options_choose_what_is_written_where_and_how_much() -> None:
    url = "vm://shop?story=all&story_directory=told&story_days=3&story_size=8MB&story_properties=customer,%20size"
    _, settings = read_url(ProviderUrl.parse(url))
    assert settings is not None
    assert settings.story == StorySettings(
        level=StoryLevel.ALL, directory=Path("told"), days=3, total_bytes=8_000_000, properties=("customer", "size")
    )


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ("story=maybe", "ends, all or off"),
        ("story=all", "needs story_directory="),
        ("story_days=3", "needs story=ends or story=all"),
        ("story=off&story_directory=told", "needs story=ends or story=all"),
        ("story=ends&story_directory=told&story_days=0", "write story_days=7"),
        ("story=ends&story_directory=told&story_size=much", "write story_size="),
    ],
)
def test_options_that_make_no_sense_are_refused_with_the_cure(options: str, cure: str) -> None:
    with pytest.raises(UrlError, match=cure):
        read_url(ProviderUrl.parse(f"vm://shop?{options}"))


def test_without_options_there_are_no_stories() -> None:
    _, settings = read_url(ProviderUrl.parse("vm://shop?story=off"))
    assert settings is not None
    assert settings.story is None
