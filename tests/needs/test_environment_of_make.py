"""`make` makes an environment where there is none, and leaves alone what it has not made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(MAKEFILE, folder)
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "VENV"}}
    return subprocess.run(
        ["make", f"PYTHON={sys.executable}", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_environment_of_somebody_else_s_is_left_alone_and_what_to_do_is_told(tmp_path: Path) -> None:
    mine = tmp_path / ".venv"
    venv.create(mine, symlinks=True)
    (mine / "notes").write_text("mine")
    done = make(tmp_path, "test")
    version = "{}.{}".format(*sys.version_info)
    assert done.returncode != 0
    assert (
        f"There is a .venv that make has not made (an environment of Python {version}). It is left as it is."
        in done.stderr
    )
    assert "make VENV=.venv-make test" in done.stderr
    assert make(tmp_path, "clean").returncode == 0
    assert (mine / "notes").read_text() == "mine"


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_environment_is_left_alone_too(tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes").write_text("mine")
    place = tmp_path / ".venv"
    if kind == "link":
        place.symlink_to("elsewhere")
    else:
        elsewhere.rename(place)
    done = make(tmp_path, ".venv/.made")
    assert done.returncode != 0
    assert "(no environment that works)" in done.stderr
    assert (place / "notes").read_text() == "mine"


def test_what_an_interrupted_run_has_left_is_made_anew_and_another_folder_may_be_named(tmp_path: Path) -> None:
    place = tmp_path / ".other"
    place.mkdir()
    (place / ".making").touch()
    (place / "half").touch()
    done = make(tmp_path, "VENV=.other", ".other/.made")
    assert done.returncode == 0, done.stderr
    assert sorted(each.name for each in place.iterdir() if each.name in {".made", ".making", "half", "bin"}) == [
        ".made",
        "bin",
    ]
    assert make(tmp_path, "VENV=.other", "clean").returncode == 0
    assert not place.exists()
