"""The authors' guide names all that there is, and nothing else: errors, capabilities, fields of an envelope."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest

from pyjms.runtime.factory import RUNTIME_OPTIONS
from pyjms.spi import errors
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import BodyKind, Envelope
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ConnectRequest
from tests.pyjms.spi.folder import GUIDE, folder_provider
from tests.tidy.source import ROOT

TEXT = (GUIDE / "guide.md").read_text("utf-8")


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table whose first column has this heading, without the code marks."""
    lines = iter(TEXT.splitlines())
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith(f"| {heading} |"):
            next(lines)
            while (row := next(lines)).startswith("|"):
                rows.append([cell.strip().replace("`", "") for cell in row.strip("|").split("|")])
    return rows


def test_errors() -> None:
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ProviderError)]
    assert {row[0]: row[2] for row in table("error")} == {kind.__name__: kind.jms_name for kind in classes}


def test_capabilities() -> None:
    assert [row[0] for row in table("capability")] == [capability.name for capability in Capability]


def test_fields_of_an_envelope() -> None:
    named = [name for row in table("field") for name in row[0].split(", ")]
    request = list(ConnectRequest.__dataclass_fields__)
    assert named == [*request, *Envelope.__dataclass_fields__]


def test_bodies() -> None:
    assert [row[0] for row in table("`body_kind`")] == [kind.name for kind in BodyKind]


def test_options_of_the_runtime() -> None:
    (listed,) = re.findall(r"the options of the client \(([^)]*)\)", TEXT)
    named = set(re.findall(r"`(\w+)`", listed))
    assert named == set(RUNTIME_OPTIONS) - {"clock"}


def test_the_packaging_names_the_class() -> None:
    fragment = tomllib.loads(TEXT.split("```toml\n")[1].split("```")[0])
    (value,) = fragment["project"]["entry-points"]["pyjms.providers"].values()
    module, _, name = value.partition(":")
    assert module == folder_provider.__name__
    assert getattr(folder_provider, name) is folder_provider.FolderProvider


@pytest.mark.parametrize("shown", re.findall(r":pyobject: (\S+)", TEXT))
def test_what_is_shown_exists(shown: str) -> None:
    found = folder_provider
    for name in shown.split("."):
        found = getattr(found, name)
    assert inspect.getsourcefile(inspect.unwrap(found)) == folder_provider.__file__


def test_an_outside_project_runs_the_contract_tests_as_the_guide_says(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL)
    assert [name for name, _ in blocks] == ["conftest.py", "test_contract.py"]
    for name, block in blocks:
        (pytester.path / name).write_text(block, "utf-8")
    packages = pytester.mkdir("packages")
    metadata = packages / "folder_provider-1.0.dist-info"
    metadata.mkdir()
    (packages / "folder_provider.py").write_text((GUIDE / "folder_provider.py").read_text("utf-8"), "utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: folder-provider\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[pyjms.providers]\nfolder = folder_provider:FolderProvider\n", "utf-8")
    pytester.makeini(f"[pytest]\npythonpath = {ROOT} {packages}\naddopts = --strict-markers\n")
    result = pytester.runpytest_subprocess(
        "-p", "no:randomly", "-W", "error", "-q", "-k", "declar or capabilities or order"
    )
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["passed"] >= 3
