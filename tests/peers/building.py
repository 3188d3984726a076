"""The programs of others that tests use: what they need is fetched by ``make needs``, and ours beside them are compiled offline.

A folder of `tests/peers` has a manifest, such as ``pom.xml``, and programs. ``fetch`` asks the registry for what the manifest names. The
result is in ``build/peers``, under a name with a digest of the manifest, so that a changed one is fetched anew. Tests never fetch: they
compile what has changed since, with what is there. Runs on the standard library alone, as ``make`` uses it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

SOURCES: Path = Path(__file__).parent
BUILDS: Path = SOURCES.parents[1] / "build" / "peers"
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
_MANIFESTS = ("pom.xml", "package.json", "package-lock.json", "go.mod", "go.sum")


def fetched(name: str) -> Path | None:
    """Return where the libraries of this folder are, or None where they have not been fetched."""
    folder = _libraries(name)
    return folder if folder.is_dir() else None


def fetch(name: str) -> None:
    """Fetch the libraries of this folder, if they are missing. Raises RuntimeError with what the program of the registry says."""
    source = SOURCES / name
    (kind,) = (kind for kind in _FETCHERS if (source / kind).exists())
    _make(_libraries(name), lambda into: _FETCHERS[kind](source, into))
    if kind == "go.mod":
        go_program(name)  # the first one takes a minute, as Go compiles its own library


def java_program(libraries: str, *sources: Path, replacing: tuple[str, str] = ("", "")) -> str:
    """Compile these sources of Java, and return the class path to run them with.

    Args:
        libraries: The folder of `tests/peers` whose libraries they use.
        sources: Files, of which those that are not Java are copied beside the classes.
        replacing: A text of the sources, and the text that stands for it.
    """
    jars = _needed(libraries)
    texts = {each.name: each.read_text(encoding="utf-8").replace(*replacing) for each in sources}
    folder = BUILDS / f"{libraries}-classes-{_digest([libraries, *(text for pair in texts.items() for text in pair)])}"

    def compile_into(into: Path) -> None:
        for name, text in texts.items():
            (into / name).write_text(text, encoding="utf-8")
        programs = [str(into / name) for name in texts if name.endswith(".java")]
        _run(["javac", "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(into), *programs])

    _make(folder, compile_into)
    return f"{jars}/*:{folder}"


def go_program(name: str) -> Path:
    """Compile the Go program of this folder with the modules that were fetched, and return it."""
    modules, source = _needed(name), SOURCES / name
    texts = [each.read_text(encoding="utf-8") for each in sorted(source.iterdir()) if each.is_file()]
    folder = BUILDS / f"{name}-program-{_digest(texts)}"
    offline = {
        "GOMODCACHE": str(modules),
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GOTOOLCHAIN": "local",
    }

    def compile_into(into: Path) -> None:
        for each in source.iterdir():
            if each.is_file():
                shutil.copy(each, into)
        _run(["go", "build", "-o", str(into / "program"), "."], into, **offline)

    _make(folder, compile_into)
    return folder / "program"


def node_program(name: str, program: str) -> Path:
    """Return the program of this folder, copied to where it finds the packages that were fetched."""
    packages, source = _needed(name), SOURCES / name / program
    copy = packages / f"{source.stem}-{_digest([source.read_text(encoding='utf-8')])}{source.suffix}"
    if not copy.exists():
        making = packages / f"{copy.name}.{os.getpid()}"
        shutil.copy(source, making)
        making.rename(copy)
    return copy


def _needed(name: str) -> Path:
    folder = fetched(name)
    if folder is None:
        raise RuntimeError(f"{name}: its libraries have not been fetched; `make needs` does that")
    return folder


def _libraries(name: str) -> Path:
    manifests = [SOURCES / name / each for each in _MANIFESTS]
    return BUILDS / f"{name}-{_digest(each.read_text(encoding='utf-8') for each in manifests if each.exists())}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder in one step, however many processes do at a time."""
    if folder.exists():
        return
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        fill(making)
        with suppress(OSError):  # another process was quicker
            making.rename(folder)
    finally:
        if making.exists():
            _run(["chmod", "-R", "u+w", str(making)])  # Go's modules are read-only
            shutil.rmtree(making, ignore_errors=True)


def _fetch_with_maven(source: Path, into: Path) -> None:
    _run(["mvn", "-q", "-B", "-f", str(source / "pom.xml"), _COPY_DEPENDENCIES, f"-DoutputDirectory={into}"])
    for archive in into.glob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(into)
        archive.unlink()


def _fetch_with_npm(source: Path, into: Path) -> None:
    for manifest in ("package.json", "package-lock.json"):
        shutil.copy(source / manifest, into)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], into)


def _fetch_with_go(source: Path, into: Path) -> None:
    _run(["go", "mod", "download"], source, GOMODCACHE=str(into), GOFLAGS="-mod=mod", GOTOOLCHAIN="local")


_FETCHERS: dict[str, Callable[[Path, Path], None]] = {
    "pom.xml": _fetch_with_maven,
    "package.json": _fetch_with_npm,
    "go.mod": _fetch_with_go,
}


def _run(command: list[str], folder: Path | None = None, **variables: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:3])} failed:\n{done.stdout[-5_000:]}")
