"""The end of a crowd, again and again, and the judgement on what each of its threads was told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

from tests.provider.kill.crowd import QUEUE
from tests.provider.kill.site import await_word, bury, drained, start_process


class CrowdSite:
    """A store, and one process of many threads after the other that works with it and is killed."""

    def __init__(self, url: str, path: Path, *options: str) -> None:
        """`path`: of the file in which the threads write down what they are told. `options`: of `crowd.py`."""
        self.sent: set[str] = set()
        self.got: set[str] = set()
        self.done: set[str] = set()
        self.repeated: list[str] = []
        """Which were acknowledged, and came again."""
        self.unflagged: list[str] = []
        """Which came again without JMSRedelivered."""
        self._url = url
        self._path = path
        self._options = options
        self._lives = 0

    def live_and_die(self, after_s: float, modules: Sequence[str] = ()) -> None:
        """Let a process work so long once many wait for one commit, and kill it. `modules`: what runs it, with their arguments."""
        worker = ("tests.provider.kill.crowd", self._url, str(self._path), str(self._lives), *self._options)
        self._lives += 1
        process = start_process(*modules, *worker)
        try:
            await_word(process)
            Event().wait(after_s)  # the moment of death is what is random here
        finally:
            process.kill()
            bury(process)

    def judge(self) -> None:
        """Take all that is left, and look at what every thread was told in the order in which it was."""
        for line in self._path.read_text().splitlines():
            word, *texts = line.split()
            if word == "sent":
                self.sent.add(texts[0])
            elif word == "done":
                self.done.update(texts)
            else:
                self._receive(texts[0], texts[1] == "1")
        for text, is_flagged in drained(self._url, QUEUE):
            self._receive(text, is_flagged)

    def _receive(self, text: str, is_flagged: bool) -> None:
        if text in self.done:
            self.repeated.append(text)
        if text in self.got and not is_flagged:
            self.unflagged.append(text)
        self.got.add(text)
