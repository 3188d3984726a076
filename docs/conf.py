"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "provider"), str(ROOT / "tck")]

project = "pyjms"
copyright = "the pyjms project, Apache License 2.0"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"pyjms {release}"
html_static_path = ["_static"]
html_css_files = ["pyjms.css"]

default_role = "code"  # `name` in a docstring is code
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "member-order": "bysource",
    "exclude-members": "java_members",
}
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"


def skip_java_names(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the Java name of a method: it stands for the method documented under its Python name."""
    if what == "class" and not name.islower() and not name.isupper() and callable(obj):
        return True
    return None


def citations(tests: Path) -> dict[str, list[str]]:
    """Return the test files that cite each id in a `realises` marker."""
    found: dict[str, set[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "realises":
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        found.setdefault(str(argument.value), set()).add(path.relative_to(tests).as_posix())
    return {item_id: sorted(files) for item_id, files in found.items()}


def items_table() -> str:
    """Return the requirements and the tests that cite them, as a Markdown table."""
    cited = citations(ROOT / "tests")
    items = tomllib.loads((ROOT / "tests" / "traceability" / "items.toml").read_text(encoding="utf-8"))["item"]
    rows = ["| id | asks for | cited by |", "|---|---|---|"]
    for item in items:
        tests = ", ".join(f"`{name}`" for name in cited.get(item["id"], []))
        said = [tests] if tests else []
        if "why" in item and not tests:
            is_declined = item["belongs_to"] == "declined"
            said.append(f"{'declined' if is_declined else 'belongs to ' + item['belongs_to']}: {item['why']}")
        cells = (item["id"], f"`` {item['statement']} ``", " ".join(said) or "none yet")
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows)


def rules_table() -> str:
    """Return the rules of AMQP 1.0 that the broker keeps, as a Markdown table."""
    path = ROOT / "tests" / "provider" / "protocols" / "amqp" / "rules.toml"
    rows = ["| id | about | rule | level |", "|---|---|---|---|"]
    for rule in tomllib.loads(path.read_text(encoding="utf-8"))["rule"]:
        about = rule["title"] if rule["part"].isdigit() else f"{rule['title']} ({rule['part']})"
        said = rule["rule"] if rule["status"] == "kept" else f"{rule['rule']} *Not implemented.*"
        rows.append("| " + " | ".join((rule["id"], about, said, rule["level"])) + " |")
    return "\n".join(rows)


def fill_in(app: Any, docname: str, source: list[str]) -> None:
    """Put the tables where the pages ask for them."""
    if docname == "reference/traceability":
        source[0] = source[0].replace("%ITEMS%", items_table())
    elif docname == "reference/amqp-rules":
        source[0] = source[0].replace("%RULES%", rules_table())


def keep_out_of_the_search(app: Any, environment: Any) -> None:
    """Leave decisions out of the search: they explain pyjms to its developers, and hide the pages for users there."""
    for docname in environment.found_docs:
        if docname.startswith("decisions/"):
            environment.metadata[docname]["no-search"] = "true"


def setup(app: Any) -> None:
    """Connect the functions above."""
    app.connect("env-updated", keep_out_of_the_search)
    app.connect("autodoc-skip-member", skip_java_names)
    app.connect("source-read", fill_in)
