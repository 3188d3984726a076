"""Records what the programs of the corpus print when Java runs them: `python -m tests.pyjms.porting.record`.

It needs a JDK of version 17 or newer and the jars of ActiveMQ Classic 5.17 (Debian: activemq and openjdk-17-jdk-headless). Programs of JMS 2.0 run
at ActiveMQ Artemis (2.40), whose folder the environment variable ARTEMIS_HOME names. It
writes an ``.out`` file beside each program. The test suite compares with these files and runs no Java: CI has a JRE alone.
"""

from __future__ import annotations

import os
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


LAUNCHER = """
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

public class Launcher {
    public static void main(String[] names) throws Exception {
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(new ConfigurationImpl().setPersistenceEnabled(false).setSecurityEnabled(false)
            .addAcceptorConfiguration("in-vm", "vm://0"));
        broker.start();
        Class.forName(names[0]).getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        broker.stop();
        System.exit(0);
    }
}
"""
"""Starts Artemis in the process of a program: its URL vm://0 needs a broker that is there already."""


def record(names: list[str]) -> None:
    """Compile and run programs, all of them without names, and keep what they print."""
    for source in sorted(path for path in CORPUS.glob("*.java") if not names or path.stem in names):
        text = source.read_text(encoding="utf-8")
        at_artemis = "artemis" in text
        jars = (f"{os.environ['ARTEMIS_HOME']}/lib/*",) if at_artemis else JARS
        with tempfile.TemporaryDirectory() as folder:
            program, launcher = Path(folder, source.name), Path(folder, "Launcher.java")
            # Artemis' own jars have the classes under the name of javax alone.
            program.write_text(text.replace("jakarta.jms", "javax.jms"), encoding="utf-8")
            launcher.write_text(LAUNCHER, encoding="utf-8")
            files = [str(program), *([str(launcher)] if at_artemis else [])]
            path = ":".join((folder, *jars))
            subprocess.run(["javac", "-nowarn", "-Xlint:none", "-cp", path, "-d", folder, *files], check=True)
            started = ["Launcher", source.stem] if at_artemis else [source.stem]
            command = ["java", "-cp", path, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", *started]
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
        if done.returncode:
            sys.exit(f"{source.name}: {done.stderr.decode()}")
        source.with_suffix(".out").write_bytes(done.stdout)
        print(f"{source.stem}: {len(done.stdout.splitlines())} lines")


if __name__ == "__main__":
    record(sys.argv[1:])
