"""The session of our commands: on the loopback interface, in UTC, without a web page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pyjms.spark.session import LOCAL, QUICK_PYTHON, _name_the_python, _processors, make_session
from tests.pyjms.spark.jvm import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_session_is_quiet_and_for_itself(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT timestamp_micros(0)").first() is not None


@pytest.mark.parametrize(("master", "number"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_data_are_cut_into_as_many_parts_as_tasks_run_at_once(master: str, number: int) -> None:
    assert _processors(master) == number
    assert _processors("local[*]") == _processors(LOCAL) == os.cpu_count()


def test_a_task_of_a_command_on_this_machine_is_tried_again() -> None:
    attempts = re.fullmatch(r"local\[\*,(\d)\]", LOCAL)  # without a number Spark ends the query when one fails
    assert attempts is not None
    assert int(attempts[1]) > 1


SESSION = """
import os
from pyjms.spark.session import make_session
session = make_session("a program", settings={"spark.driver.memory": "600m"})
said = [session.sparkContext.master, *map(session.conf.get, ("spark.driver.memory", "spark.sql.shuffle.partitions"))]
print(*said, session.conf.get("spark.driver.host"), "PYSPARK_PYTHON" in os.environ, sep="|")
"""


@pytest.mark.requires("spark")
def test_a_program_that_names_no_master_gets_that_of_its_environment() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYJMS_SPARK"))}
    environment["PYSPARK_SUBMIT_ARGS"] = f"--master local[3,2] --driver-java-options '{QUICK}' pyspark-shell"
    run = subprocess.run([sys.executable, "-c", SESSION], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "local[3,2]|600m|3|127.0.0.1|True", run.stderr


@pytest.mark.requires("spark")
@pytest.mark.parametrize("found", [None, "local[*]"])
def test_where_the_environment_names_no_master_tasks_are_tried_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    asked = asked_of_spark(spark, monkeypatch, found)
    assert asked["spark.master"] == LOCAL
    assert asked["spark.sql.shuffle.partitions"] == str(os.cpu_count())
    assert asked["spark.driver.host"] == "127.0.0.1"


def asked_of_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, master: str | None) -> dict[str, str]:
    """Make a session where the environment names a master, and return what Spark was asked for."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession as Session

    asked: dict[str, str] = {}
    monkeypatch.setattr(SparkConf, "get", lambda *_: master)
    monkeypatch.setattr(Session.Builder, "getOrCreate", lambda builder: asked.update(builder._options) or spark)
    for name in ("PYSPARK_PYTHON", "PYJMS_SPARK_PYTHON"):
        monkeypatch.setenv(name, "")  # so that what is named here ends with the test
        monkeypatch.delenv(name)
    make_session("a program")
    return asked


@pytest.mark.requires("spark")
def test_a_program_on_a_cluster_is_not_bound_to_its_own_machine(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_of_spark(spark, monkeypatch, "spark://somewhere:7077")
    assert asked["spark.master"] == "spark://somewhere:7077"
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(asked)
    assert "PYSPARK_PYTHON" not in os.environ, "workers have none at our path"


def test_workers_import_pyspark_from_where_it_is_installed(spark: SparkSession) -> None:
    places = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert places == [sys.modules["pyspark"].__file__]


def test_the_archive_that_spark_puts_on_the_path_is_left_out_and_nothing_else() -> None:
    path = ["/spark home/python/lib/pyspark.zip", "/s/python/lib/py4j-0.10.9.9-src.zip", "/s/jars/spark-core_2.13-4.3.0.jar",
            "/my own", "/*/mine.zip"]  # fmt: skip
    asked = [str(QUICK_PYTHON), "-c", "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])", "an argument"]
    environment = {**os.environ, "PYTHONPATH": ":".join(path), "PYJMS_SPARK_PYTHON": sys.executable}
    run = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "/my own:/*/mine.zip ['an argument']\n"


def test_who_has_named_a_python_or_another_spark_gets_it() -> None:
    named, elsewhere, plain = {"PYSPARK_PYTHON": "python3.12"}, {"SPARK_HOME": "/opt/spark"}, dict[str, str]()
    for environment in (named, elsewhere, plain):
        _name_the_python(environment)
    assert named == {"PYSPARK_PYTHON": "python3.12"}
    assert elsewhere == {"SPARK_HOME": "/opt/spark", "PYSPARK_PYTHON": sys.executable}
    assert plain == {"PYSPARK_PYTHON": str(QUICK_PYTHON), "PYJMS_SPARK_PYTHON": sys.executable}
