"""``format("jms")`` in a session that a program has made itself, run by the Python of an environment that is not activated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pyjms.spark.options import OptionError
from pyspark_jms import DefaultSource
from pyspark_jms.driver_python import name_driver_python
from tests.pyjms.spark.jvm import QUICK

pytestmark = pytest.mark.requires("spark")

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, site, sys
site.addsitedir(sys.argv[1])
assert "pyspark" not in sys.modules
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()
def load(**more):
    given = {"url": "stomp://127.0.0.1:1", "destination": "orders", **more}
    return spark.read.format("jms").options(**given).load()
print("columns", "message_id" in load().columns)
try:
    load(selector="colour ==  'red'")
except Exception as error:
    print("refused", " ".join(str(error).split()))
spark.stop()
"""


def _installed(folder: Path) -> Path:
    """Copy into a folder what the wheel puts beside the packages."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for source, target in build["targets"]["wheel"]["force-include"].items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, folder / target)
    return folder


def test_a_plain_session_finds_the_source_and_refuses_a_wrong_selector_at_load(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho this Python has no pyjms >&2\nexit 1\n")
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "PYJMS_"))}
    environment["PATH"] = f"{python.parent}:{environment['PATH']}"
    command = [sys.executable, "-c", PROGRAM, str(_installed(tmp_path / "site")), QUICK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "columns True"
    assert len(lines) == 2, done.stdout
    assert "option selector: found '==': '=' compares for equality, at ^ in: colour ^==" in lines[1]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"selector": "cups >"}, "option selector: .*, at \\^ in: cups >"),
        ({"destination": "ques:orders"}, "destination='ques:orders' names no destination"),
        ({"mod": "browse"}, "option mod is not known: did you mean mode"),
    ],
)
def test_options_are_looked_at_when_spark_asks_for_the_schema(wrong: dict[str, str], told: str) -> None:
    """That is at `load()`; a reader it asks for when rows are wanted."""
    with pytest.raises(OptionError, match=told):
        DefaultSource({"url": "stomp://127.0.0.1:1", "destination": "orders", **wrong}).schema()


def test_the_python_is_named_only_where_spark_would_take_another(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.touch(0o755)
    driver = "PYSPARK_DRIVER_PYTHON"
    for before in ({"PATH": str(tmp_path)}, {"PATH": str(tmp_path / "nothing")}):
        environment = dict(before)
        name_driver_python(environment)
        assert environment == {**before, driver: sys.executable}
    for before in (
        {"PATH": str(tmp_path), "PYSPARK_PYTHON": "/elsewhere/python"},
        {"PATH": str(tmp_path), driver: "/elsewhere/python"},
        {"PATH": str(tmp_path), "PYSPARK_GATEWAY_PORT": "1"},
    ):
        environment = dict(before)
        name_driver_python(environment)
        assert environment == before


def test_an_activated_environment_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python", "python3"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    environment = {"PATH": str(tmp_path)}
    name_driver_python(environment)
    assert environment == {"PATH": str(tmp_path)}
