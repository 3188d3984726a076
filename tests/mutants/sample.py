"""How many small faults the tests notice: a fresh random sample of mutants, each judged by the tests that cover its line.

``python -m tests.mutants.sample`` first runs the tests of the parts once, to learn which test covers which line (`--map` keeps
that for later runs of the same sources), then runs each mutant of the sample against the quickest tests that cover it. It prints the
survivors, and the share that was killed. A mutant that no test covers survives; one whose tests hang is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import coverage

from tests.mutants.operators import Mutation, mutations
from tests.mutants.plugin import DURATIONS, MUTANT

ROOT = Path(__file__).resolve().parent.parent.parent
# Part -> its sources, and the tests that know it best; other tests may cover it, too, and would only kill more.
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "core": (
        "provider/pyjms_provider/core",
        ("tests/provider/core", "tests/provider/xa", "tests/provider/keeping", "tests/provider/simulation"),
    ),
    "runtime": ("pyjms/runtime", ("tests/pyjms/runtime",)),
    "stores": ("provider/pyjms_provider/stores", ("tests/provider/stores",)),
}
TESTS_S_MAX = 20.0
"""So long the tests of one mutant may take together, by what they took without it."""
HANGS_AFTER_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault in one module."""

    part: str
    path: str
    mutation: Mutation

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        parts = Path(self.path).with_suffix("").parts
        return ".".join(parts[1:] if parts[0] == "provider" else parts)

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line}: {self.mutation.operator}: {self.mutation.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a mutant: "killed", "survived" or "not covered"."""

    mutant: Mutant
    outcome: str
    tests: int


class CoverageMap:
    """Which tests cover a line, and how long each takes.

    Args:
        folder: where it is kept; it is made anew where that is empty.
    """

    def __init__(self, folder: Path) -> None:
        self._data_file = folder / "coverage"
        self._durations_file = folder / "durations.json"

    def make(self, parts: list[str]) -> None:
        """Run the tests of these parts once, unless the folder has a map."""
        if self._durations_file.exists():
            return
        tests = sorted({test for part in parts for test in PARTS[part][1]})
        sources = [f"--cov={ROOT / PARTS[part][0]}" for part in parts]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "tests.mutants.plugin"]
        command += ["-p", "no:randomly", "--cov-context=test", "--cov-report=", "-W", "default", *sources, *tests]
        variables = {DURATIONS: str(self._durations_file), "COVERAGE_FILE": str(self._data_file)}
        print("running the tests once, to learn which test covers which line ...", flush=True)
        subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False)

    def read(self) -> None:
        """Read what `make` has written."""
        self._data = coverage.CoverageData(str(self._data_file))
        self._data.read()
        self._durations: dict[str, float] = json.loads(self._durations_file.read_text(encoding="utf-8"))

    def tests_of(self, path: str, line: int) -> list[str]:
        """Return the tests that cover a line, the quickest first, that take `TESTS_S_MAX` together, or one."""
        contexts = self._data.contexts_by_lineno(str(ROOT / path)).get(line, [])
        names = {context.rpartition("|")[0] for context in contexts} & set(self._durations)
        chosen: list[str] = []
        seconds = 0.0
        for name in sorted(names, key=lambda each: (self._durations[each], each)):
            seconds += self._durations[name]
            if chosen and seconds > TESTS_S_MAX:
                break
            chosen.append(name)
        return chosen


def mutants_of(part: str) -> Iterator[Mutant]:
    """Yield all mutants of a part."""
    for path in sorted((ROOT / PARTS[part][0]).rglob("*.py")):
        for mutation in mutations(path.read_text(encoding="utf-8")):
            yield Mutant(part=part, path=str(path.relative_to(ROOT)), mutation=mutation)


def judge(mutant: Mutant, tests: list[str]) -> Verdict:
    """Run the tests on the mutant."""
    if not tests:
        return Verdict(mutant=mutant, outcome="not covered", tests=0)
    with tempfile.TemporaryDirectory() as folder:
        source, arguments = Path(folder) / "mutant.txt", Path(folder) / "tests.txt"
        source.write_text(mutant.mutation.apply((ROOT / mutant.path).read_text(encoding="utf-8")), encoding="utf-8")
        arguments.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-n",
            "0",
            "-p",
            "tests.mutants.plugin",
            "-p",
            "no:randomly",
        ]
        command += ["-p", "no:cacheprovider", "--timeout=60", f"@{arguments}"]
        variable = json.dumps({"module": mutant.module, "source": str(source)})
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env={**os.environ, MUTANT: variable},
                timeout=HANGS_AFTER_S,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(mutant=mutant, outcome="killed", tests=len(tests))
    return Verdict(mutant=mutant, outcome="killed" if done.returncode else "survived", tests=len(tests))


def report(verdicts: list[Verdict]) -> dict[str, float]:
    """Print the survivors and the shares; return the shares in hundredths, by part."""
    for verdict in verdicts:
        if verdict.outcome != "killed":
            print(f"{verdict.outcome} ({verdict.tests} tests): {verdict.mutant}")
    shares: dict[str, float] = {}
    for part in sorted({verdict.mutant.part for verdict in verdicts}):
        outcomes = Counter(verdict.outcome for verdict in verdicts if verdict.mutant.part == part)
        shares[part] = round(100 * outcomes["killed"] / outcomes.total(), 1)
        print(f"{part}: {shares[part]} % of {outcomes.total()} mutants killed; {dict(outcomes)}")
    return shares


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="mutants of each part (default: 100)")
    parser.add_argument(
        "--seed", type=int, default=None, help="the same seed draws the same mutants from the same sources"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--map", type=Path, default=None, help="a folder that keeps which test covers which line")
    parser.add_argument(
        "--least", type=float, default=0.0, help="fail when fewer hundredths of any part's mutants are killed"
    )
    parser.add_argument("--json", type=Path, default=None, help="write all verdicts to this file")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    parts = options.part or list(PARTS)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kept = (options.map or Path(folder)).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        covered = CoverageMap(kept)
        covered.make(parts)
        covered.read()
        chance = random.Random(seed)
        drawn = []
        for part in parts:
            possible = list(mutants_of(part))
            drawn += chance.sample(possible, min(options.count, len(possible)))
        work = [(mutant, covered.tests_of(mutant.path, mutant.mutation.line)) for mutant in drawn]
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda each: judge(*each), work))
    shares = report(verdicts)
    if options.json:
        options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1), encoding="utf-8")
    return int(min(shares.values()) < options.least)


if __name__ == "__main__":
    sys.exit(main())
