"""Records what the programs of the corpus print when Java runs them: `python -m tests.pyjms.porting.record`.

It needs a JDK of version 17 or newer and the jars of ActiveMQ Classic 5.17 (Debian: activemq and openjdk-17-jdk-headless), and
writes an ``.out`` file beside each program. The test suite compares with these files and runs no Java: CI has a JRE alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
JARS = (
    "/usr/share/activemq/lib/*",
    "/usr/share/activemq/lib/optional/*",
    "/usr/share/java/geronimo-j2ee-management-1.1-spec.jar",
)


def record(names: list[str]) -> None:
    """Compile and run programs, all of them without names, and keep what they print."""
    sources = sorted(path for path in CORPUS.glob("*.java") if not names or path.stem in names)
    with tempfile.TemporaryDirectory() as folder:
        path = ":".join((folder, *JARS))
        subprocess.run(["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", folder, *map(str, sources)], check=True)
        for source in sources:
            command = ["java", "-cp", path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", source.stem]
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
            if done.returncode:
                sys.exit(f"{source.name}: {done.stderr.decode()}")
            source.with_suffix(".out").write_bytes(done.stdout)
            print(f"{source.stem}: {len(done.stdout.splitlines())} lines")


if __name__ == "__main__":
    record(sys.argv[1:])
