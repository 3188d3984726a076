"""The suite's facts about a provider besides its URL. Authors subclass `Profile` in a file of their own.

    # profile.py
    from pyjms_tck.profile import Profile

    class MyBroker(Profile):
        user_name = "guest"
        password = "guest"
        unsupported = {"XA": "the broker has no distributed transactions"}

and pass the file as ``--profile profile.py``. The file may also call `pyjms.spi.register_provider` for a provider that
no installed package offers, and import what stands beside it. Everything has a default that fits a provider which needs nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from pyjms import ConnectionFactory
from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import load_catalogue

__all__ = ["Profile", "ProfileError", "load_profile"]

_OF_CONTRACT: Final = re.compile(r"[a-z]+(-[a-z0-9]+)*")
"""The form of ids of the SPI's contract, to which a profile may refer, too."""


_NEAR: Final = 0.75
"""The similarity above which an unknown name counts as a misspelt one of `Profile`: two swapped letters in a word of
five are 0.8.
"""


class ProfileError(ValueError):
    """The file of a profile cannot be used; the text says why."""


class Profile:
    """Facts about one provider, and its administration. Created once in each process that runs tests."""

    url: str = ""
    """The URL under test. The suite sets it before it calls any method."""
    title: str | None = None
    """The provider's name in reports; None: its URL, without credentials and options."""
    user_name: str | None = None
    """The user of the tests; None: no credentials."""
    password: str | None = None
    wrong_credentials: tuple[str, str] | None = None
    """A user name and a password that must be refused; None: the provider checks none."""
    options: Mapping[str, object] = MappingProxyType({})
    """Keyword arguments for `pyjms.ConnectionFactory`."""
    factories: Mapping[type[ConnectionFactory], type[ConnectionFactory]] = MappingProxyType({})
    """Factories to test in place of those of pyjms, as for another implementation of its API:
    ``{pyjms.ConnectionFactory: OurFactory}``. Others are not replaced."""
    unsupported: Mapping[str, str] = MappingProxyType({})
    """The features that the provider does not offer, with the reason: names of features, sections, or ids of
    requirements.
    """
    something_ms: int = 10_000
    """How long to wait for an expected event, in milliseconds. Long: the wait ends with the event."""
    nothing_ms: int | None = None
    """How long to wait to show that an event does not happen, in milliseconds. None: 50 for a broker in the same
    process, 300 otherwise."""
    limit_s: float = 30.0
    """The time limit of one test, in seconds."""
    chaos_ms: int = 2_000
    """The duration of each of the two runs of the chaos chapter, in milliseconds; longer if the clients have hardly begun then. If it grows, `limit_s` must, too."""
    parallel: int = 2
    """The maximum number of processes that run tests at the same time; 1: one after the other."""

    def create_queue(self, name: str) -> str:
        """Create an empty queue and return its name, which may differ from `name`. Default: the provider does so."""
        return name

    def create_topic(self, name: str) -> str:
        """Create a topic and return its name, which may differ from `name`. Default: the provider does so."""
        return name

    def delete_queue(self, name: str) -> None:
        """Purge and delete a queue that `create_queue` returned, after the test. Default: nothing."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic that `create_topic` returned, after the test. Default: nothing."""

    def restart_broker(self) -> None:
        """Stop the broker and start it again; return when it can be connected to.

        Default: it cannot, and tests that restart the broker are reported as not supported.
        """
        raise NotImplementedError("this profile cannot restart the broker: implement restart_broker()")

    @property
    def can_restart(self) -> bool:
        """Whether `restart_broker` is implemented."""
        return type(self).restart_broker is not Profile.restart_broker


def load_profile(path: Path | str | None) -> Profile:
    """Return the profile in the file `path`; None: one of defaults. Raises `ProfileError`."""
    if path is None:
        return Profile()
    kinds = [
        kind
        for kind in vars(_load(Path(path))).values()
        if isinstance(kind, type) and issubclass(kind, Profile) and kind is not Profile and not isabstract(kind)
    ]
    # A file may import another profile and derive from it: the class without subclasses is used.
    last = [kind for kind in kinds if not any(kind is not other and issubclass(other, kind) for other in kinds)]
    if len(last) != 1:
        names = ", ".join(kind.__name__ for kind in last) or "none"
        raise ProfileError(f"{path} must have one subclass of pyjms_tck.profile.Profile; it has {names}")
    _check_names(path, last[0])
    profile = last[0]()
    _check_unsupported(path, profile)
    return profile


def _check_names(path: Path | str, kind: type[Profile]) -> None:
    """Refuse a name that is nearly one of `Profile`: a misspelt one would be ignored."""
    known = [name for name in vars(Profile) if not name.startswith("_")]
    # Also the classes between: a profile may derive from another one.
    for above in kind.__mro__[: kind.__mro__.index(Profile)]:
        for name in vars(above):
            if (
                not name.startswith("_")
                and not hasattr(Profile, name)
                and (close := get_close_matches(name, known, 1, _NEAR))
            ):
                raise ProfileError(
                    f"{path}: a profile has no {name}; is {close[0]} meant? If it is your own, call it _{name}"
                )


def _check_unsupported(path: Path | str, profile: Profile) -> None:
    requirements = load_catalogue().requirements.values()
    ids, sections = {each.id for each in requirements}, {f"{each.section}." for each in requirements}
    features = [each.name for each in Capability if each.name]
    for name in profile.unsupported:
        is_section = any(section.startswith(f"{name}.") for section in sections)
        is_contract = _OF_CONTRACT.fullmatch(name) and name.upper() not in features
        if not (name in ids or name in features or is_section or is_contract):
            close = get_close_matches(name.upper(), features, 1) or get_close_matches(name, sorted(ids), 1)
            hint = f"; is {close[0]} meant?" if close else ""
            raise ProfileError(
                f"{path}: unsupported has {name!r}, which is no feature (TOPICS), section (3.4) or id (3.4.1-a){hint}"
            )


def _load(path: Path) -> ModuleType:
    name = "pyjms_tck_loaded_profile"
    spec = spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None or not path.is_file():
        raise ProfileError(f"{path} is no Python file; pass the path of a profile.py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last: a profile.py must not hide Python's own module of that name
    module = module_from_spec(spec)
    # Before the file is run: its dataclasses look up their own module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProfileError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
