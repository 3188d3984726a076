"""Builds the sdist, and the wheel from it, installs each in an empty environment, and tries what a user tries first.

pip fetches the few dependencies as it does for everybody. Run by `make distribution`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "pyjms-messaging"
PROGRAM = """
from importlib.metadata import version
from pyjms import ConnectionFactory
with ConnectionFactory("vm://shop").create_connection() as connection:
    session = connection.create_session()
    session.create_producer(session.create_queue("orders")).send(session.create_text_message("espresso"))
    connection.start()
    print(session.create_consumer(session.create_queue("orders")).receive(1000).text, version("pyjms-messaging"))
"""
BROKER = f"pip install '{NAME}[broker]'"


@dataclass(frozen=True)
class Try:
    """A command of the installed distribution."""

    command: Sequence[str]
    told: str
    """What its output has."""
    exit_code: int = 0


TRIES = (
    Try(("python", "-c", PROGRAM), "espresso "),
    Try(("pyjms", "--version"), "pyjms "),
    Try(("pyjms", "--help"), "dead-letters"),
    Try(("pyjms", "send", "vm://shop", "orders", "espresso"), ""),
    Try(("pyjms", "browse", "vm://shop", "orders"), ""),
    Try(("pyjms", "broker", "run"), BROKER, 2),
    Try(("pyjms", "manage", "--help"), "Usage"),
    Try(("pyjms", "port", "Sample.java"), f"pip install '{NAME}[port]'", 2),
    Try(("pyjms", "receive", "stomp://127.0.0.1:1", "orders"), f"pip install '{NAME}[stomp]'", 2),
    Try(("pyjms-tck", "run", "--list", "--select", "3.4"), "3.4.1-a"),
    Try(("pyjms-tck", "run", "vm://shop"), f"pip install '{NAME}[tck]'", 2),
)


def build(folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"not built:\n{done.stdout}{done.stderr}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def install(file: Path, environment: Path) -> Path:
    """Install into an empty environment, as a user does; return the folder of its programs."""
    venv.create(environment)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(programs / "python")]
    subprocess.run([*pip, "install", str(file)], check=True)
    subprocess.run([*pip, "check"], check=True)
    return programs


def failures(programs: Path, folder: Path) -> list[str]:
    """Return what did not come out as it should, with no checkout in sight."""
    hidden = {"PYTHONPATH", "PYJMS_URL", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    wrong: list[str] = []
    for each in TRIES:
        done = subprocess.run(
            [str(programs / each.command[0]), *each.command[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode != each.exit_code or each.told not in output or "Traceback" in output:
            wrong.append(f"{' '.join(each.command)}: exit code {done.returncode}\n{output}")
    return wrong


def main() -> None:
    """Build, install and try; the exit code says whether all was well."""
    with tempfile.TemporaryDirectory(prefix="pyjms-distribution-") as made:
        folder = Path(made)
        empty = folder / "empty"
        empty.mkdir()
        (empty / "Sample.java").write_text("class Sample {}", encoding="utf-8")
        for file in build(folder / "dist"):
            wrong = failures(install(file, folder / file.suffix.lstrip(".")), empty)
            if wrong:
                sys.exit(f"{file.name}:\n" + "\n".join(wrong))
            print(f"{file.name}: installed, and {len(TRIES)} commands tried")


if __name__ == "__main__":
    main()
