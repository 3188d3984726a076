"""How commands follow a query, without Spark: what they tell, how they stop, when they start again."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from pyjms.spark.commands import commands
from pyjms.spark.commands.running import ended_at_once, errors_told, follow, is_jvm_gone, spark_reason
from pyjms.spark.options import OptionError
from pyjms.spi.errors import ResourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_TO_OUT = '[[rule]]\nname = "all"\nto = ["out"]\n[targets.out]\nqueue = "out"\n'
SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """A query that has done some batches, and ended, with a problem or without."""

    def __init__(self, rows: dict[int, int], problem: str | None = None, *, is_active: bool = False) -> None:
        self.recentProgress = [
            {"batchId": batch, "numInputRows": number, "processedRowsPerSecond": 1.0} for batch, number in rows.items()
        ]
        self.isActive = is_active
        self._problem = None if problem is None else RuntimeError(problem)

    def exception(self) -> Exception | None:
        return self._problem

    def stop(self) -> None:
        self.isActive = False


def followed(*queries: Query, wanted: threading.Event | None = None) -> tuple[int, list[int], int]:
    """Return how many messages were moved, which batches were heard of, and how many queries were left."""
    left, heard = list(queries), list[int]()

    def start() -> Any:
        return left.pop(0)

    moved = follow(start, wanted or threading.Event(), "moved", lambda each: heard.append(each["batchId"]))
    return moved, heard, len(left)


def test_each_batch_that_moved_something_is_told_once() -> None:
    assert followed(Query({0: 10, 1: 0, 2: 5})) == (15, [0, 2], 0)


def test_a_query_whose_process_started_too_slowly_is_started_again() -> None:
    assert followed(Query({0: 10}, SLOW), Query({}, SLOW), Query({0: 10, 1: 7})) == (17, [0, 1], 0)


def test_it_is_not_started_again_for_ever_nor_for_another_problem() -> None:
    with pytest.raises(RuntimeError, match="failed to connect back"):
        followed(*(Query({}, SLOW) for _ in range(15)))
    with pytest.raises(RuntimeError, match="PYJMS-FENCED"):
        followed(Query({}, "PYJMS-FENCED"), Query({}))


def test_who_wants_it_to_end_is_obeyed() -> None:
    wanted = threading.Event()
    wanted.set()
    assert followed(Query({0: 3}, is_active=True), Query({}), wanted=wanted) == (3, [0], 1)


def test_a_command_that_only_reads_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, ended_at_once("report"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 1
    assert "nothing was written" in capsys.readouterr().err


TRACEBACK = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):
  File "options.py", line 100, in parse_address
    raise OptionError("...")
pyjms.spark.options.OptionError: destination='orders' names no destination: write queue:NAME

During handling of the above exception, another exception occurred:

UnboundLocalError: cannot access local variable 'reader'
 SQLSTATE: 38000
\tat org.apache.spark.X.y(X.scala:1)"""
JAVA = """An error occurred while calling o1.start.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: nosuch.
\tat org.apache.spark.X.y(X.scala:1)
Caused by: java.lang.ClassNotFoundException: nosuch.DefaultSource
\tat java.base/X"""


ARROW = """An error occurred while calling o106.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.X.y(X.scala:1)
Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE] a.parquet
\tat org.apache.spark.X.y(X.scala:1)
Caused by: org.apache.spark.Y: column: [t0]"""


FOREIGN = """[PYTHON_DATA_SOURCE_ERROR] Failed to read: Traceback (most recent call last):
  File "worker.py", line 3, in main
    work()
    ^^^^^^
ValueError: year 10000 is out of range
 SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ARROW, "[FAILED_READ_FILE] a.parquet"),
        (TRACEBACK, "destination='orders' names no destination: write queue:NAME"),
        (JAVA, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: nosuch."),
        ("[PATH_NOT_FOUND] no such path\n\tat org.apache", "[PATH_NOT_FOUND] no such path"),
        (
            "[DIVIDE_BY_ZERO] Division by zero.\n== SQL (line 1) ==\nseq = 1/0\n      ^^^",
            "[DIVIDE_BY_ZERO] Division by zero.",
        ),
        (FOREIGN, "ValueError: year 10000 is out of range"),
        ("", "RuntimeError"),
    ],
)
def test_of_all_that_spark_tells_a_person_reads_the_reason(text: str, told: str) -> None:
    assert spark_reason(RuntimeError(text)) == told


@pytest.mark.requires("spark")
@pytest.mark.parametrize("made", ["here", "by a worker", "by Java", "by a broker"])
def test_what_was_asked_wrongly_has_an_exit_code_of_its_own(made: str, capsys: pytest.CaptureFixture[str]) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    errors = {
        "here": OptionError("jobId is empty"),
        "by a worker": PySparkException(TRACEBACK),
        "by Java": Py4JError(JAVA),
        "by a broker": PySparkException("pyjms.spi.errors.ResourceError: no connection"),
    }
    with pytest.raises(typer.Exit) as ended, errors_told("archive"):
        raise errors[made]
    assert ended.value.exit_code == (1 if made == "by a broker" else 2)
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.requires("spark")
def test_a_jvm_that_has_died_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from pyspark import SparkContext

    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not is_jvm_gone(OSError("full"))
    monkeypatch.setattr(SparkContext, "_gateway", type("Gateway", (), {"proc": process}))
    with pytest.raises(typer.Exit), errors_told("archive"):
        raise ConnectionRefusedError(111, "Connection refused")
    assert "Spark's JVM is gone: start the command again" in capsys.readouterr().err


@pytest.mark.requires("spark")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["queue:"], "destination='queue:' names no destination"),
        (["queue:orders", "--group", ""], "option readerGroup has 0 characters"),
        (["queue:orders", "--every", "banana"], "'banana' is no span of time"),
        (["queue:orders", "--checkpoint", ""], "the name of a folder is empty"),
    ],
)
def test_what_a_route_is_asked_wrongly_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], told: str
) -> None:
    monkeypatch.setattr("pyjms.spark.commands.route.make_session", lambda *_, **__: pytest.fail("it starts"))
    rules = tmp_path / "rules.toml"
    rules.write_text(ALL_TO_OUT)
    result = CliRunner().invoke(commands(), ["route", str(rules), "stomp://127.0.0.1:1", *more])
    assert (result.exit_code, told in " ".join(result.output.split())) == (2, True), result.output


@pytest.mark.requires("spark")
@pytest.mark.parametrize(
    ("command", "more", "told"),
    [
        ("archive", ["URL", "queue:q", "a", "--format", "csv"], "none of parquet, orc, json, delta: 'csv'"),
        ("archive", ["URL", "queue:q", "a", "--credentials", "env:NO_SUCH_LOG_IN"], "set the variable NO_SUCH_LOG_IN"),
        ("archive", ["URL", "queue:q", "a:b", "--dry-run"], "write the whole path"),
        ("archive", ["URL", "queue:q", ""], "the name of a folder is empty"),
        ("archive", ["URL", "queue:q", "a", "--checkpoint", " "], "the name of a folder is empty"),
        ("archive", ["URL", "queue:", "a"], "destination='queue:' names no destination"),
        ("archive", ["URL", "queue:q", "a", "--metrics", "/no/such/x.prom"], "there is no folder /no/such"),
        ("replay", ["", "URL", "--job", "j"], "the name of a folder is empty"),
        ("replay", ["a", "URL", "--job", ""], "the name of a job has 1 to 200 characters, and this one has 0"),
        ("replay", ["a", "URL", "--job", "j", "--to", "topic:"], "destination='topic:' names no destination"),
        ("replay", ["a", "URL", "--job", "j", "--format", "csv"], "none of parquet, orc, json, delta: 'csv'"),
        ("replay", ["a", "URL", "--job", "j", "--metrics", "/no/such/x.jsonl"], "there is no folder /no/such"),
        ("audit", ["a", "--report", "/no/such/x.html"], "there is no folder /no/such"),
        ("report", ["a", "--report", "/no/such/x.html"], "there is no folder /no/such"),
        ("replay", ["a", "URL", "--job", " "], "the name of a job has 1 to 200 characters, and this one has 0"),
        (
            "replay",
            ["a", "URL", "--job", "j", "--credentials", "file:/no/such"],
            "credentials=file:/no/such: FileNotFound",
        ),
        ("audit", [""], "the name of a folder is empty"),
        ("audit", ["a", "--findings", ""], "the name of a folder is empty"),
        ("report", [""], "the name of a folder is empty"),
        ("report", ["--archive", ""], "the name of a folder is empty"),
        ("report", ["--archive", "a", "--format", "csv"], "none of parquet, orc, json, delta: 'csv'"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, command: str, more: list[str], told: str
) -> None:
    monkeypatch.setattr(f"pyjms.spark.commands.{command}.make_session", lambda *_, **__: pytest.fail("it starts"))
    asked = [each.replace("URL", "stomp://127.0.0.1:1") for each in more]
    result = CliRunner().invoke(commands(), [command, *asked])
    assert (result.exit_code, told in result.output, len(result.output.splitlines())) == (2, True, 1), result.output


@pytest.mark.requires("spark")
@pytest.mark.parametrize(
    ("command", "asked"),
    [("archive", ["stomp://127.0.0.1:1", "queue:q", "a", "--batch"]), ("replay", ["a", "URL", "--job", "j", "--rate"])],
)
def test_more_messages_than_spark_counts_are_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, command: str, asked: list[str]
) -> None:
    monkeypatch.setattr(f"pyjms.spark.commands.{command}.make_session", lambda *_, **__: pytest.fail("it starts"))
    result = CliRunner().invoke(commands(), [command, *asked, str(2**31)])
    assert (result.exit_code, "2147483647" in result.output) == (2, True), result.output


@pytest.mark.requires("spark")
@pytest.mark.parametrize("command", ["archive", "route"])
def test_who_looks_only_hears_before_spark_starts_that_the_broker_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def away(**_: object) -> None:
        raise ResourceError("no connection to 127.0.0.1:1")

    monkeypatch.setattr(f"pyjms.spark.commands.{command}.check_broker", away)
    monkeypatch.setattr(f"pyjms.spark.commands.{command}.make_session", lambda *_, **__: pytest.fail("it starts"))
    rules = tmp_path / "rules.toml"
    rules.write_text(ALL_TO_OUT)
    asked = {"archive": ["URL", "queue:q", "a"], "route": [str(rules), "URL", "queue:q"]}[command]
    words = [each.replace("URL", "stomp://127.0.0.1:1") for each in asked]
    result = CliRunner().invoke(commands(), [command, *words, "--dry-run"])
    assert (result.exit_code, "no connection to 127.0.0.1:1" in result.output) == (1, True), result.output


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["replay", "FOLDER", "URL", "--job", "j", "--where", "rand() < 0.5"], "has another result each time"),
        (["replay", "FOLDER", "URL", "--job", "j", "--where", "nosuch = 1"], "`nosuch` cannot be resolved"),
        (["replay", "FOLDER", "URL", "--job", "j", "--where", "seq = = 1"], "Syntax error at or near '='"),
        (["replay", "FOLDER/no", "URL", "--job", "j", "--dry-run"], "Path does not exist"),
        (["replay", "FOLDER", "URL", "--job", "j", "--format", "delta"], "Failed to find the data source: delta"),
        (["archive", "URL", "queue:q", "nosuchfs://x/y"], 'No FileSystem for scheme "nosuchfs"'),
        (["archive", "URL", "queue:q", "s3a://x/y"], "S3AFileSystem not found"),
        (["archive", "URL", "queue:q", "FOLDER/file"], "/a/file is a file; name another folder"),
        (
            ["archive", "URL", "queue:q", "FOLDER/out", "--checkpoint", "FOLDER/file/x"],
            "/a/file is a file; name another folder",
        ),
        (
            ["route", "FOLDER/rules.toml", "URL", "queue:q", "--checkpoint", "FOLDER/file"],
            "/a/file is a file; name another",
        ),
        (["report", "--archive", "FOLDER/no"], "Path does not exist"),
    ],
)
def test_what_only_spark_can_tell_is_one_line_with_the_code_of_what_was_asked_wrongly(
    plain_spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], asked: list[str], told: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    (tmp_path / "a" / "rules.toml").write_text(ALL_TO_OUT)
    words = [each.replace("URL", "stomp://127.0.0.1:1").replace("FOLDER", str(tmp_path / "a")) for each in asked]
    result = CliRunner().invoke(commands(), words)
    assert (result.exit_code, told in result.output, len(result.output.splitlines())) == (2, True, 1), result.output
    assert "stacktrace" not in capfd.readouterr().err
