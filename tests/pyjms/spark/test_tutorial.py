"""The tutorial's page on Spark and README's pipeline, as they are written: on one broker and the session of the other tests."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spark.connecting import close_links
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.pyjms.demo.command_line import Run, runner
from tests.tidy.source import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "tutorial" / "10-spark.md"
PORT = "61613"
_BLOCK = re.compile(r"(?P<before>[^\n]*)\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page: its language, or `prints`, and what is in it."""

    kind: str
    text: str


def blocks(text: str) -> list[Block]:
    return [
        Block("prints" if each["before"] == "<!-- prints -->" else each["language"], each["text"])
        for each in _BLOCK.finditer(text)
    ]


class Reader:
    """Does what a page says, as somebody who reads it would."""

    def __init__(self, folder: Path, port: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._port = port
        self._run = run
        self._capsys = capsys
        self._names: dict[str, Any] = {}
        self._printed = ""
        self.broker: BrokerProcess | None = None

    def does(self, block: Block) -> None:
        text = block.text.replace(PORT, self._port)
        if block.kind == "python":
            program = self._folder / "block.py"
            program.write_text(text, encoding="utf-8")
            self._names = runpy.run_path(str(program), init_globals=self._names)
            self._printed = self._capsys.readouterr().out
        elif block.kind == "prints":
            assert self._printed == text
        elif block.kind == "console":
            for typed in text.removeprefix("$ ").split("\n$ "):
                self._types(typed.strip())

    def _types(self, typed: str) -> None:
        command, _, prints = typed.partition("\n")
        program, *words = shlex.split(command)
        if program.endswith("pip"):
            return
        assert program.rpartition("/")[2] == "pyjms", command
        if words[:2] == ["broker", "run"]:
            self.broker = BrokerProcess(self._folder, *words[2:])
            assert prints == f"listening {self.broker.announced('stomp')[0]}"
            return
        code, out, err = self._run(*words)
        assert code == 0, f"{command}\n{out}{err}"
        if prints:
            assert out.strip() == prints, command


@pytest.fixture
def reader(
    plain_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Reader]:
    """Somebody in an empty folder, which is Spark's, too."""
    port = str(free_port())
    where_the_jvm_was_started = str(Path.cwd())
    monkeypatch.chdir(tmp_path)
    _work_in(plain_spark, str(tmp_path))
    made = Reader(tmp_path, port, runner(monkeypatch, capsys), capsys)
    yield made
    _work_in(plain_spark, where_the_jvm_was_started)
    close_links()
    if made.broker is not None:
        assert made.broker.end() == 0


def _work_in(spark: SparkSession, folder: str) -> None:
    """Have Hadoop, which has two ways to files, take names of files to be in a folder: a JVM cannot go to another one."""
    jvm: Any = spark._jvm
    jvm.System.setProperty("user.dir", folder)
    files = jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
    files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(folder))


@pytest.mark.timeout(300)  # a busy machine starts Spark's processes slowly
def test_the_tutorial_and_the_readme_do_what_they_say(reader: Reader) -> None:
    page = blocks(PAGE.read_text(encoding="utf-8"))
    assert {each.kind for each in page} == {"console", "python", "prints"}
    for block in page:
        reader.does(block)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Into files and back, on Spark")[2]
    [commands] = blocks(readme.partition("\n## ")[0])
    reader.does(commands)
    assert {"archive", "archive-checkpoint", "bills-checkpoint", "files", "history", "shop.db"} <= {
        each.name for each in Path().iterdir()
    }
