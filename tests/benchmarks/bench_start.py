"""What a program and a command pay before they do anything: processor time beyond a bare `python -c pass`.

The import of pyjms is compared with that of pika, a client of RabbitMQ that people know; a command with the import of typer, on which
it stands. Processor time of the started processes is counted, so that other load on the machine matters little.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, report

RUNS = 5
COMMAND = "import sys; from pyjms.cli import main; sys.argv = ['pyjms', *{arguments!r}]; main()"


def processor_ms(program: str) -> float:
    """Return what the cheapest of some processes has taken."""
    taken: list[float] = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken) * 1000


def beyond_bare(program: str) -> Callable[[], float]:
    """Return what measures a program, in milliseconds beyond those of Python itself."""
    return lambda: processor_ms(program) - processor_ms("pass")


def command(*arguments: str) -> Callable[[], float]:
    """Return what measures a command that ends at once."""
    return beyond_bare(COMMAND.format(arguments=list(arguments)))


def main() -> int:
    """Run and report."""
    pika, typer = beyond_bare("import pika"), beyond_bare("import typer")
    good = True
    for name, ours, peer, theirs, most in (
        ("import pyjms", beyond_bare("import pyjms"), "import pika", pika, 0.8),
        (
            "from pyjms import ConnectionFactory",
            beyond_bare("from pyjms import ConnectionFactory"),
            "import pika",
            pika,
            1.5,
        ),
        ("pyjms --version", command("--version"), "import typer", typer, 2.5),
        ("pyjms send --help", command("send", "--help"), "import typer", typer, 5.0),
    ):
        result = compare(ours, theirs)
        detail = f"{result.ours:.0f} ms against {result.theirs:.0f} ms"
        good &= report(f"{name} / {peer}", result.ratio, most=most, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
