"""The reference lists every column and every rule as they are."""

from __future__ import annotations

import pytest

from pyjms.history import RULES
from pyjms.history.parquet import SCHEMA
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs" / "reference" / "history.md").read_text(encoding="utf-8")
SQL = {"string": "STRING", "int64": "BIGINT", "int8": "TINYINT", "int32": "INT", "bool": "BOOLEAN"}


def test_the_columns_are_listed_in_order_with_their_types() -> None:
    section = PAGE.partition("\n## Columns\n")[2].partition("\n## ")[0]
    listed = [line.split(" | ")[:2] for line in section.splitlines() if line.endswith(" |") and line.count(" | ") == 2]
    columns = [[f"| `{field.name}`", SQL[str(field.type)]] for field in SCHEMA]
    assert [each for each in listed if each[1] in SQL.values()] == columns


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_listed_with_its_verdict_and_statement(name: str) -> None:
    rule = RULES[name]
    section = "§" + rule.section.replace(", ", ", §") if rule.section else ""
    assert f"| `{name}` | {rule.verdict.value} | {rule.statement} | {section} |" in PAGE
