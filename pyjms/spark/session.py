"""The Spark session of the commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from pyjms.spi.errors import MissingProviderError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The texts for a missing PySpark or Java.

LEAST_JAVA = 17
"""The oldest Java that PySpark 4 runs on."""

_SECONDS = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class MissingJavaError(MissingProviderError):
    """There is no Java runtime, or it is too old for Spark."""


def spark_sql() -> ModuleType:
    """Return `pyspark.sql`, and check Java. Raises `MissingProviderError`, which names what to install."""
    try:
        import pyarrow as pa  # noqa: F401  workers import it: its absence must be reported here
        from pyspark import sql
    except ImportError as error:
        raise MissingProviderError(
            f"this needs PySpark ({error}); install it with: pip install 'pyjms-messaging[spark]', and Java {LEAST_JAVA} or newer"
        ) from error
    check_java()
    return sql


def check_java() -> None:
    """Raise `MissingJavaError` unless there is a Java runtime that Spark can use."""
    reason = _what_is_wrong(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))
    if reason is not None:
        raise MissingJavaError(
            f"Spark needs a Java runtime, {LEAST_JAVA} or newer: {reason}. "
            "Install one (on Debian and Ubuntu: apt-get install default-jre-headless), or set JAVA_HOME to one"
        )


def find_java(home: str | None, path: str | None) -> str | None:
    """Return the program `java` that Spark would start, by the values of JAVA_HOME and PATH; None if there is none."""
    if home:
        program = Path(home) / "bin" / "java"
        # Spark's scripts look at JAVA_HOME first and do not fall back to the PATH if it is wrong, so neither does this.
        return str(program) if program.exists() else None
    return shutil.which("java", path=path)


@cache
def _what_is_wrong(home: str | None, path: str | None) -> str | None:
    program = find_java(home, path)
    if program is None:
        return f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
    try:
        # Both streams are searched: `java -version` writes to stderr, `--version` to stdout.
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=True)  # noqa: S603  what Spark will start, too
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({error})"
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None:
        return f"{program} does not tell its version"
    return None if int(found[1]) >= LEAST_JAVA else f"{program} is Java {found[1]}"


LOCAL = "local[*,4]"
"""The master of a session on this machine alone, with all of its processors. A task has four attempts, as on a cluster:
plain ``local[*]`` gives it one, so that a worker that dies, or a broker that restarts while rows are written, would end
the query."""

_SPARKS_OWN = "local[*]"
_NAMES_OF_PYTHON = ("PYSPARK_PYTHON", "PYJMS_SPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")

_QUIET = Path(__file__).with_name("quiet.properties")
_JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"

QUICK_PYTHON = Path(__file__).with_name("python.sh")
"""The script that starts workers on this machine; it says why it exists."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # an audit has a hundred, the number that Spark caches; a second one had to compile all of them again
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.sql.session.timeZone": "UTC",  # JMS times are UTC; a table must not depend on where it was made
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
_LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A history lists its files one by one, and Spark started a task for each of more than 32.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


def make_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None, log_level: str = "ERROR"
) -> SparkSession:
    """Return a session named `name`, or the session that is already running.

    master: where to run: ``local[2,4]``, ``spark://host:7077`` ...; None: what the environment says (spark-submit,
    ``spark-defaults.conf``); if it has none, or Spark's own ``local[*]``: `LOCAL`. On one machine Spark listens on the
    loopback interface alone, and data are cut into as many parts as there are processors. settings: Spark's own, which
    override ours. log_level: of Spark's log; with OFF it is silent from the start. Raises `MissingProviderError`
    without PySpark, `MissingJavaError` without Java.
    """
    builder = spark_sql().SparkSession.builder.appName(name)
    if log_level == "OFF":
        # Before anything starts a JVM, which reads the variable once, at its start.
        _have_jvm_quiet(os.environ)
    # Only the JVM reads `spark-defaults.conf` and the options of spark-submit.
    where = _master_of_environment({**_SETTINGS, **(settings or {})}) if master is None else master
    chosen = dict(_SETTINGS)
    if where.startswith("local"):
        chosen |= _LOCAL_SETTINGS
        _name_the_python(os.environ)
        # Spark's default of 200 partitions is for clusters: on one machine each would be a small task.
        chosen["spark.sql.shuffle.partitions"] = str(_processors(where))
    # The user's settings come last, so that they override ours.
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.master(where).getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def _master_of_environment(settings: Mapping[str, str]) -> str:
    """Return the master of Spark's own configuration, which its JVM knows: starts the JVM, with the memory and the like
    from `settings`.
    """
    from pyspark import SparkConf, SparkContext

    named = {name: os.environ.get(name) for name in _NAMES_OF_PYTHON}
    # a JVM uses the Python that is named when the JVM starts for the processes that plan streams
    _name_the_python(os.environ)
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))  # noqa: SLF001 -- nothing else asks a JVM without a session
    found = SparkConf().get("spark.master")
    # PySpark sets `local[*]` where nothing is configured, and a user who writes it means the same.
    if found is None or found == _SPARKS_OWN:
        return LOCAL
    if not found.startswith("local"):  # workers on other machines have no Python at our path
        for name, value in named.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return found


def _name_the_python(environment: MutableMapping[str, str]) -> None:
    """Make workers run this Python, and not the first python3 on the PATH; and make them start quickly, if PySpark is
    in our site-packages.
    """
    # The user's own choice of a Python stays.
    if "PYSPARK_PYTHON" in environment:
        return
    environment["PYSPARK_PYTHON"] = sys.executable
    # With a SPARK_HOME, PySpark is in the archive of that installation, which the script takes off the path.
    if os.name == "posix" and "SPARK_HOME" not in environment and os.access(QUICK_PYTHON, os.X_OK):
        environment.update(PYSPARK_PYTHON=str(QUICK_PYTHON), PYJMS_SPARK_PYTHON=sys.executable)
    if (
        environment.get("PYSPARK_DRIVER_PYTHON") == sys.executable
    ):  # by `pyspark_jms.driver_python`; it comes before the other
        environment["PYSPARK_DRIVER_PYTHON"] = environment["PYSPARK_PYTHON"]


def _have_jvm_quiet(environment: MutableMapping[str, str]) -> None:
    """Make a JVM that is started log nothing: its session can change that only afterwards."""
    before = environment.get(_JAVA_OPTIONS, "")
    # A user who configured the log of Spark keeps that configuration.
    if "-Dlog4j" not in before:
        environment[_JAVA_OPTIONS] = f"{before} -Dlog4j2.configurationFile={_QUIET.as_uri()}".strip()


def _processors(master: str) -> int:
    """Return the number of tasks that ``local[N]``, ``local[N,F]`` or ``local[*,F]`` runs at once."""
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    return int(inside) if inside.isdigit() else 1 if not inside else os.cpu_count() or 1
