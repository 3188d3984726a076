"""Without PySpark or Java, what needs them says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.spark.session import MissingJavaError, check_java, find_java, spark_sql
from pyjms.spi.errors import MissingProviderError


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


def test_without_java_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingJavaError, match=r"17 or newer: there is no java on the PATH.*apt-get install"):
        check_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        check_java()


@pytest.mark.parametrize(("version", "told"), [("1.8.0_402", "8"), ("11.0.22", "11")])
def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, told: str) -> None:
    program = fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match=f"{program} is Java {told}"):
        check_java()


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    program = fake_java(tmp_path, "21.0.1")
    assert find_java(str(tmp_path), None) == str(program)
    assert find_java(None, str(tmp_path / "bin")) == str(program)


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingProviderError, match=r"pip install 'pyjms-messaging\[spark\]', and Java 17 or newer"):
        spark_sql()


def test_the_package_imports_nothing_heavy() -> None:
    program = "import sys, pyjms.spark, pyjms.spark.session; print({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout.strip() == "set()"
