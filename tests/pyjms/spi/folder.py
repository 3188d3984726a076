"""The example of the authors' guide, imported from where its readers find it; and what its tests share."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pyjms import JMSException, Message, TextMessage
from pyjms_tck.spi.environment import PATIENCE_S

if TYPE_CHECKING:
    from pyjms import Queue, Session

GUIDE = Path(__file__).parents[3] / "docs" / "provider-authors"


def _load() -> Any:
    name = "folder_provider"
    if name not in sys.modules:
        spec = spec_from_file_location(name, GUIDE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


folder_provider = _load()
FolderProvider = folder_provider.FolderProvider


class Problems:
    """An exception listener that gathers what it is told."""

    def __init__(self) -> None:
        self.reported: list[JMSException] = []
        self._told = Event()

    def __call__(self, error: JMSException) -> None:
        self.reported.append(error)
        self._told.set()

    def wait(self) -> None:
        assert self._told.wait(PATIENCE_S)


def send(session: Session, queue: Queue, *texts: str) -> None:
    producer = session.create_producer(queue)
    for text in texts:
        producer.send(session.create_text_message(text))


def text_of(message: Message | None) -> str | None:
    assert isinstance(message, TextMessage)
    return message.text
