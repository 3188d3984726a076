"""The processes of the sites: started, killed, started again, ended; always by their own ids."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

_ATTEMPTS = 4
_PAUSE_S = 0.5
_LOG_SHOWN = 2_000


class SiteError(Exception):
    """A site could not be started; the text says why."""


class SiteProcess:
    """One site, whose process may die and be started again at the same port. One thread."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder / name.lower()
        self._folder.mkdir(exist_ok=True)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def books(self) -> str:
        """The file of the companies' database."""
        return str(self._folder / "books.db")

    @property
    def flows(self) -> str:
        """The file of the workflows' store."""
        return str(self._folder / "flows.db")

    @property
    def pid(self) -> int:
        """The id of its process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    @property
    def url(self) -> str:
        """The URL of its broker, once it was `announced`."""
        return f"stomp://127.0.0.1:{self._port}"

    def launch(self) -> None:
        """Start the process; `announced` waits until its broker is there."""
        with (self._folder / "site.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  this very Python
                [sys.executable, "-m", "pyjms.demo.sites.site", self.name, str(self._port)],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends its sites
            )

    def announced(self) -> None:
        """Wait until the broker accepts connections. Raises `SiteError` when it does not come up."""
        for attempt in range(1, _ATTEMPTS + 1):
            assert self._process is not None
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if line.startswith("listening "):
                self._port = int(line.rpartition(":")[2])
                return
            self.kill()
            if attempt < _ATTEMPTS:  # the site of a demo that was killed just now may not have ended yet
                Event().wait(_PAUSE_S)
                self.launch()
        raise SiteError(f"the site {self.name} does not start: {self.log() or 'it says nothing'}")

    def tell(self, urls: Mapping[str, str]) -> None:
        """Tell it where all sites are: it begins to work."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(urls) + "\n")
        self._process.stdin.flush()

    def has_died(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """Kill it without a moment's notice (SIGKILL), if it is there."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def log(self) -> str:
        """Return the end of what it has logged."""
        try:
            return (self._folder / "site.log").read_text(encoding="utf-8", errors="replace")[-_LOG_SHOWN:].strip()
        except FileNotFoundError:
            return ""
