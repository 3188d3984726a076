"""Definitions of workflows as data: steps with their queues, compensations, retries, time limits and visible states."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pyjms.errors import IllegalArgumentException, JMSException


class FlowException(JMSException):
    """A workflow cannot do what was requested."""


class FlowStoreException(FlowException):
    """The database of the store has failed; nothing was changed."""


class UnknownInstanceException(FlowException):
    """There is no such instance."""


class FlowDefinitionException(IllegalArgumentException):
    """A definition is wrong; the text names the place and the remedy."""


class StepRefused(Exception):
    """Raised by a step's work: it cannot be done, and a retry cannot help. The steps done before are compensated."""


_name = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}").fullmatch


_RESOURCES_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One atomic transaction of a workflow, done by the server of its queue."""

    name: str
    queue: str
    compensation: str | None = None
    """The queue of the work that undoes the step; None: there is nothing to undo."""
    state: str = ""
    """The business state that others may see once the step is done; "": the step's name."""
    retries: int = 3
    """How often the step, and its compensation, are requested again after a time-out."""
    timeout_s: float = 300.0
    """The time limit of an answer."""
    backoff_s: float = 1.0
    """How much longer than `timeout_s` the second attempt may take; doubled for each further attempt."""
    takes: tuple[str, ...] = ()
    """The resources that it takes, and that stay held when it is done, until a later step releases them."""
    releases: tuple[str, ...] = ()
    """The resources of earlier steps that it releases."""
    on_timeout: str = "compensate"
    """The action after the last retry: ``compensate``, or ``park`` until an operator decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One version of a definition. Instances keep the version with which they started."""

    name: str
    version: int
    steps: tuple[Step, ...]
    initial_state: str = "begun"
    title: str = ""

    def states(self) -> tuple[str, ...]:
        """Return the consistent states that others may see, in order (lecture: "can view this as expanding set")."""
        return (self.initial_state, *(step.state for step in self.steps))

    def held(self, done: int) -> frozenset[str]:
        """Return the resources that are held once the first `done` steps are done."""
        held: frozenset[str] = frozenset()
        for step in self.steps[:done]:
            held = held - set(step.releases) | set(step.takes)
        return held


def read_flow_file(path: Path) -> Flow:
    """Return the definition in a TOML file. Raises `FlowDefinitionException`, `OSError`."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FlowDefinitionException(f"{path}: no TOML: {error}") from error
    except RecursionError as error:
        raise FlowDefinitionException(f"{path}: it is nested too deeply; is it the right file?") from error
    return read_flow(content, str(path))


def read_flow(content: Mapping[str, Any], place: str = "the definition") -> Flow:
    """Return the definition. Raises `FlowDefinitionException` that names the first error."""
    known = {"name", "version", "title", "initial_state", "step"}
    # A misspelt optional key would otherwise be ignored, and its default be used silently.
    _refuse_unknown(content, known, place)
    raw = content.get("step")
    if not isinstance(raw, list) or not raw:
        raise FlowDefinitionException(
            f"{place}: there is no step; write one [[step]] or more, each with name and queue"
        )
    steps = tuple(_step(each, f"{place}, step {number}") for number, each in enumerate(raw, 1))
    names = [step.name for step in steps]
    for name in names:
        if names.count(name) > 1:
            raise FlowDefinitionException(f"{place}: two steps are named {name!r}; their names must differ")
    _check_resources(steps, place)
    return Flow(
        name=_checked_name(content.get("name"), f"{place}: name"),
        version=_checked(content.get("version", 1), int, 1, 2**31 - 1, f"{place}: version"),
        title=_checked_text(content.get("title", ""), f"{place}: title"),
        initial_state=_checked_text(content.get("initial_state", "begun"), f"{place}: initial_state"),
        steps=steps,
    )


def _check_resources(steps: tuple[Step, ...], place: str) -> None:
    """Check that each resource is taken once before it is released, and that nothing is held at either end. Raises `FlowDefinitionException`."""
    held: dict[str, str] = {}
    for number, step in enumerate(steps, 1):
        where = f"{place}, step {number} ({step.name})"
        for name in step.releases:
            if held.pop(name, None) is None:
                raise FlowDefinitionException(
                    f"{where}: releases {name!r}, which no step before it holds; leave it out"
                )
        for name in step.takes:
            if name in held:
                raise FlowDefinitionException(
                    f"{where}: takes {name!r}, which {held[name]} holds already; leave it out of one"
                )
            held[name] = step.name
        # The last step is not gone back over once it is done.
        if step.compensation is None and (step.takes or (step.releases and number < len(steps))):
            raise FlowDefinitionException(
                f"{where}: it takes or releases resources and has no compensation, so they would be wrong when an instance goes back; "
                "name the queue of its compensation"
            )
    if held:
        name, taker = next(iter(held.items()))
        raise FlowDefinitionException(
            f"{place}: at its end an instance still holds {name!r}, which {taker} takes; have a later step release it"
        )


def _step(raw: object, place: str) -> Step:
    if not isinstance(raw, Mapping):
        raise FlowDefinitionException(f"{place}: a table of name, queue and so on is expected")
    _refuse_unknown(raw, {field.name for field in fields(Step)}, place)
    name = _checked_name(raw.get("name"), f"{place}: name")
    place = f"{place} ({name})"
    compensation = raw.get("compensation")
    on_timeout = raw.get("on_timeout", "compensate")
    if on_timeout not in ("compensate", "park"):
        raise FlowDefinitionException(f"{place}: on_timeout is {on_timeout!r}; write 'compensate' or 'park'")
    return Step(
        name=name,
        queue=_queue(raw.get("queue"), f"{place}: queue"),
        compensation=None if compensation is None else _queue(compensation, f"{place}: compensation"),
        state=_checked_text(raw.get("state", ""), f"{place}: state") or name,
        retries=_checked(raw.get("retries", 3), int, 0, 1000, f"{place}: retries"),
        timeout_s=_checked(raw.get("timeout_s", 300.0), float, 0.001, 10**9, f"{place}: timeout_s"),
        backoff_s=_checked(raw.get("backoff_s", 1.0), float, 0, 10**6, f"{place}: backoff_s"),
        takes=_resources(raw.get("takes", []), f"{place}: takes"),
        releases=_resources(raw.get("releases", []), f"{place}: releases"),
        on_timeout=on_timeout,
    )


def _refuse_unknown(content: Mapping[str, Any], known: set[str], place: str) -> None:
    for key in content:
        if key not in known:
            raise FlowDefinitionException(f"{place}: {key!r} is not known; there are {', '.join(sorted(known))}")


def _checked_name(value: object, place: str) -> str:
    if not isinstance(value, str) or not _name(value):
        raise FlowDefinitionException(
            f"{place} is {value!r}; write a letter, then up to 63 letters, digits, '-' or '_'"
        )
    return value


def _queue(value: object, place: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise FlowDefinitionException(f"{place} is {value!r}; write the name of a queue")
    return value


def _resources(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise FlowDefinitionException(f"{place} is {value!r}; write a list of names")
    if len(value) > _RESOURCES_MAX or len({str(each) for each in value}) != len(value):
        raise FlowDefinitionException(f"{place} is {value!r}; write each name once, {_RESOURCES_MAX} at most")
    return tuple(_checked_name(each, place) for each in value)


def _checked_text(value: object, place: str) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise FlowDefinitionException(f"{place} is {value!r}; write a text of at most 200 characters")
    return value


def _checked(value: object, kind: type, least: float, most: float, place: str) -> Any:
    # A bool is an int in Python. TOML writes a whole number of seconds as an integer, so both become a float.
    is_number = isinstance(value, int | float if kind is float else int) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        raise FlowDefinitionException(f"{place} is {value!r}; write a number from {least} to {most}")
    return kind(value)
