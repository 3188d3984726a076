"""What to say when PySpark or Java is not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

from pyjms.spi.errors import MissingProviderError

__all__ = ["LEAST_JAVA", "MissingJavaError", "check_java", "find_java", "spark_sql"]

LEAST_JAVA = 17
"""The oldest Java that PySpark 4 runs on."""

_SECONDS = 60.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class MissingJavaError(MissingProviderError):
    """There is no Java runtime, or it is too old for Spark."""


def spark_sql() -> ModuleType:
    """Return `pyspark.sql`. Raises `MissingProviderError` that names what to install; asks for Java, too."""
    try:
        import pyarrow as pa  # noqa: F401  Spark's workers import it; the one who waits for them should not learn it from them
        from pyspark import sql
    except ImportError as error:
        raise MissingProviderError(
            f"this needs PySpark ({error}); install it with: pip install 'pyjms-messaging[spark]', and Java {LEAST_JAVA} or newer"
        ) from error
    check_java()
    return sql


def check_java() -> None:
    """Do nothing where a Java runtime is that Spark can use; raise `MissingJavaError` otherwise."""
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
        return str(program) if program.exists() else None
    return shutil.which("java", path=path)


@cache
def _what_is_wrong(home: str | None, path: str | None) -> str | None:
    program = find_java(home, path)
    if program is None:
        return f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=True)  # noqa: S603  what Spark will start, too
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({error})"
    found = _VERSION.search(told.stderr + told.stdout)
    if found is None:
        return f"{program} does not tell its version"
    return None if int(found[1]) >= LEAST_JAVA else f"{program} is Java {found[1]}"
