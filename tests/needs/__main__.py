"""``python -m tests.needs add [NAME...]`` installs what tests need; ``without COMMAND`` runs a command without any of it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.needs.table import NEEDS, Need, is_there, packages_of
from tests.peers.building import fetch

_BASIC = (
    *(
        "awk",
        "basename",
        "bash",
        "cat",
        "chmod",
        "cp",
        "cut",
        "date",
        "dirname",
        "echo",
        "env",
        "expr",
        "false",
        "find",
    ),
    *("grep", "head", "id", "kill", "ln", "ls", "make", "mkdir", "mktemp", "mv", "nohup", "printf", "pwd", "readlink"),
    *("rm", "rmdir", "sed", "seq", "sh", "sleep", "sort", "tail", "tee", "test", "touch", "tr", "true", "uname", "wc"),
)
"""The programs that every machine with a shell and Make has."""
_GUARD = Path("/usr/sbin/policy-rc.d")
"""Where it says so, packages start no services: the tests start servers of their own."""


def add(names: Sequence[str]) -> str | None:
    """Install what is missing, of these needs or targets, or of all; return what is wrong."""
    chosen = [need for need in NEEDS.values() if not names or need.name in names or need.target in names]
    wanted = [need for need in chosen if not is_there(need.name)]
    packages = packages_of(wanted)
    if not wanted:
        return None
    if packages:
        if shutil.which("apt-get") is None or (os.geteuid() and shutil.which("sudo") is None):
            return f"This adds packages of Debian and Ubuntu, as root or with sudo. Install by hand: {_titles(wanted)}"
        with _services_stay_off():
            environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
            _root(*environment, "apt-get", "update", "-qq")
            _root(*environment, "apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages)
    distributions = [each for need in wanted for each in need.distributions]
    if distributions:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *distributions], check=True)
        importlib.invalidate_caches()
    for peer in dict.fromkeys(each for need in wanted for each in need.peers):
        try:
            fetch(peer)
        except RuntimeError as error:
            return str(error)
    is_there.cache_clear()
    still = [need for need in wanted if not is_there(need.name)]
    return f"All is installed ({' '.join(packages)}), but these are not found: {_titles(still)}" if still else None


def _titles(needs: Sequence[Need]) -> str:
    return "; ".join(dict.fromkeys(need.title for need in needs))


def _root(*command: str) -> None:
    sudo = ["sudo"] if os.geteuid() else []
    subprocess.run([*sudo, *command], check=True)


@contextmanager
def _services_stay_off() -> Iterator[None]:
    if _GUARD.exists():
        yield
        return
    _root("sh", "-c", rf"printf '#!/bin/sh\nexit 101\n' >{_GUARD} && chmod +x {_GUARD}")
    try:
        yield
    finally:
        _root("rm", "-f", str(_GUARD))


def without(command: Sequence[str]) -> int:
    """Run a command where there is Python and Make, and nothing else that tests need; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="pyjms-without-") as folder:
        programs, packages = Path(folder, "bin"), Path(folder, "packages")
        programs.mkdir()
        packages.mkdir()
        for name in _BASIC:
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        environment = {
            name: value for name, value in os.environ.items() if name not in {"CI", "JAVA_HOME", "SPARK_HOME"}
        }
        environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{programs}",
            "PYJMS_TESTS_PACKAGES": str(packages),
        }
        return subprocess.run(command, env=environment, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Do what was asked for; return the exit code."""
    match arguments:
        case ["add", *names]:
            error = add(names)
        case ["without", _, *_]:
            return without(arguments[1:])
        case _:
            error = __doc__
    if error is not None:
        sys.stderr.write(f"{error}\n")
    return int(error is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
