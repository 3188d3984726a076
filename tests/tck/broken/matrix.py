"""The kill matrix, requirement x mutant: `make tck-mutants` tries all mutants and writes it to docs/conformance.

``python -m tests.tck.broken.matrix headers "JMS 2.0"`` tries those of areas whose names begin so, and leaves the rest of the matrix as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from pyjms_tck.catalogue import load_catalogue, order_of
from tests.tck.broken.collection import AREAS, MUTANTS
from tests.tck.broken.judge import Trial, Verdicts, judge, missing

__all__ = ["KNOWN", "MATRIX", "known_unkilled", "requirements_with_a_test"]

ROOT = Path(__file__).parents[3]
MATRIX = ROOT / "docs" / "conformance" / "kill-matrix.json"
KNOWN = Path(__file__).parent / "unkilled.txt"


def requirements_with_a_test() -> list[str]:
    """Return the ids of all requirements that have a test."""
    return [one.id for one in load_catalogue().requirements.values() if one.testable]


def known_unkilled() -> set[str]:
    """Return the requirements of which it is known that no mutant shows that their tests can fail."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def to_data(trials: Sequence[Trial], by_test: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the matrix; `by_test` has, for each function of the suite, mutants that it notices."""
    killers: dict[str, list[str]] = {id: [] for id in requirements_with_a_test()}
    for trial in trials:
        for id, tests in trial.killed_by.items():
            if tests:
                killers[id].append(trial.mutant.name)
    return {
        "mutants": {
            trial.mutant.name: {
                "about": trial.mutant.about,
                "breaks": list(trial.mutant.breaks),
                "killed_by": sorted({test for tests in trial.killed_by.values() for test in tests}),
            }
            for trial in trials
        },
        "not_noticed": missing(trials),
        "requirements": killers,
        "unkilled": [id for id, names in killers.items() if not names],
        "tests": {test: list(names) for test, names in sorted(by_test.items())},
    }


def merged(old: Mapping[str, Any], new: Mapping[str, Any], tried: AbstractSet[str]) -> dict[str, Any]:
    """Return the matrix `old` with what `new` says of the mutants in `tried`; without mutants that there are no more."""
    kept = {each.name for each in MUTANTS} - tried
    mutants = {name: old["mutants"][name] for name in old["mutants"] if name in kept} | new["mutants"]
    killers = {
        kind: {
            each: [name for name in old[kind].get(each, ()) if name in kept] + names
            for each, names in new[kind].items()
        }
        for kind in ("requirements", "tests")
    }
    return {
        "mutants": {each.name: mutants[each.name] for each in MUTANTS if each.name in mutants},
        "not_noticed": [each for each in old["not_noticed"] if each.rpartition(": ")[0] in kept] + new["not_noticed"],
        "requirements": killers["requirements"],
        "unkilled": [id for id, names in killers["requirements"].items() if not names],
        "tests": killers["tests"],
    }


def to_page(data: dict[str, Any]) -> str:
    """Return the page that people read."""
    killed = {id: names for id, names in data["requirements"].items() if names}
    lines = [
        "---",
        "orphan: true",
        "---",
        "",
        "# Kill matrix",
        "",
        "A conformance test is worth something if it fails on a provider that breaks its rule. Each mutant is a right provider",
        "with one such fault; it is judged by the tests of the requirements that it breaks. Written by `make tck-mutants`.",
        "",
        f"{len(data['mutants'])} mutants; {len(killed)} of {len(data['requirements'])} requirements with a test are killed by",
        f"at least one of them. Not killed: {', '.join(data['unkilled']) or 'none'}.",
        "",
        f"By function: {sum(map(bool, data['tests'].values()))} of the {len(data['tests'])} test functions of the suite were seen",
        "to fail on a mutant; the JSON file beside this page names it.",
        "",
        "## By requirement",
        "",
        "| requirement | mutants that its tests notice |",
        "|---|---|",
    ]
    about = {name: one["about"] for name, one in data["mutants"].items()}
    lines += [
        f"| {id} | {'; '.join(about[name] for name in data['requirements'][id]) or '**none**'} |"
        for id in sorted(data["requirements"], key=order_of)
    ]
    lines += ["", "## By mutant", ""]
    for area, mutants in AREAS.items():
        lines += [f"### {area[0].upper() + area[1:]}", "", "| what is wrong | breaks | noticed by |", "|---|---|---|"]
        for each in mutants:
            one = data["mutants"][each.name]
            tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in one["killed_by"])
            lines.append(f"| {each.about} | {', '.join(each.breaks)} | {tests or '**nothing**'} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def main(*areas: str) -> int:
    """Try all mutants, or those of areas whose names begin so, and write the matrix; return 1 if it is not as it must be."""
    chosen = [each for area, mutants in AREAS.items() if not areas or area.startswith(areas) for each in mutants]
    verdicts: Verdicts = judge(chosen, verbose=True)
    data = to_data(verdicts.trials, verdicts.killers)
    if areas:
        data = merged(json.loads(MATRIX.read_text(encoding="utf-8")), data, {each.name for each in chosen})
    MATRIX.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    MATRIX.with_suffix(".md").write_text(to_page(data), encoding="utf-8")
    new = sorted(set(data["unkilled"]) - known_unkilled(), key=order_of)
    blind = [test for test, names in data["tests"].items() if not names]
    for text, found in (
        ("These tests fail without any mutant", verdicts.unsound),
        ("These mutants no longer fit the source", verdicts.stale),
        ("Not noticed", data["not_noticed"]),
        ("Requirements whose tests nothing kills", new),
        ("Tests that notice no mutant", blind),
    ):
        if found:
            print(f"{text}:", *found, sep="\n  ")  # noqa: T201
    print(f"{len(chosen)} mutants, {len(data['unkilled'])} requirements without a killing one: {MATRIX}")  # noqa: T201
    return int(bool(verdicts.unsound or verdicts.stale or data["not_noticed"] or new or blind))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
