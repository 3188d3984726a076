from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from pyjms_tck import cli, command
from pyjms_tck.catalogue import load_catalogue
from pyjms_tck.command import Exit, app
from pyjms_tck.results import Outcome, Report
from pyjms_tck.run import SPI_TARGET, contract_catalogue
from pyjms_tck.runner.pool import Task, collect
from tests.tck.samples import sample_report, waived_report

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from pyjms_tck.runner.pool import Listener

# A requirement that costs little, and that the embedded broker meets.
ID = next(id for id, one in load_catalogue().requirements.items() if id.startswith("3.4.") and one.testable)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_run_judges_writes_the_reports_and_exits_well(tmp_path: Path) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("json", "html", "junit")}
    options = [part for name, path in files.items() for part in (f"--{name}", path)]
    result = call("run", "vm://command", "--select", ID, "--workers", 1, *options)
    assert result.exit_code == Exit.CONFORMS
    assert "Conforms to the selected requirements of JMS 2.0." in result.output
    report = Report.from_json(files["json"].read_text("utf-8"))
    assert [judgement.requirement.id for judgement in report.judgements] == [ID]
    assert report.provider.title == "vm://command"
    assert ID in files["html"].read_text("utf-8")
    assert len(ET.parse(files["junit"]).findall(".//testcase")) == 1


def test_list_runs_nothing_and_needs_no_provider() -> None:
    result = call("run", "--list", "--select", ID)
    assert result.exit_code == 0
    assert ID in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["run"], Exit.USAGE, "which provider? Give its URL"),
        (["run", "vm://x", "--select", "99"], Exit.USAGE, "nothing is selected by '99'"),
        (["run", "--list", "--select", "99"], Exit.USAGE, "nothing is selected by '99'. Write an id (3.4.1-a)"),
        (["spi"], Exit.USAGE, "such as: pyjms-tck spi vm://test"),
        (["run", "vm://x", "--timeout", "long"], Exit.USAGE, "'--timeout': "),
        (
            ["spi", "vm://x", "--select", "close"],
            Exit.USAGE,
            "by 'close'; is closing meant? Write an id, as --list shows",
        ),
        (
            ["spi", "--list", "--select", "3.4"],
            Exit.USAGE,
            "nothing is selected by '3.4'. Write an id, as --list shows",
        ),
        (["run", "vm://x", "--profile", "missing.py"], Exit.USAGE, "missing.py is no Python file"),
        (["run", "vm://x", "--json", "no/such/folder/x.json"], Exit.USAGE, "there is no folder no/such/folder"),
        (["run", "vm://x", "--json", "."], Exit.USAGE, ". cannot be written: it is a folder"),
        (["run", "nowhere://x"], Exit.UNREACHABLE, "no provider is installed for nowhere://"),
        (["spi", "nowhere://x"], Exit.UNREACHABLE, "no provider is installed for nowhere://"),
        (["diff", "missing.json", "missing.json"], Exit.USAGE, "cannot read missing.json"),
        (["diff", __file__, __file__], Exit.USAGE, "is no report of pyjms-tck"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], code: Exit, told: str) -> None:
    result = call(*arguments)
    assert result.exit_code == code
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, Exit.FAILED),
        ({"given_up": "it hangs"}, Exit.GIVEN_UP),
        ({"judgements": ()}, Exit.FAILED),
        ({"judgements": waived_report().judgements}, Exit.WAIVED),
    ],
)
def test_the_exit_code_says_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], code: Exit
) -> None:
    asked: list[Task] = []

    async def judge(task: Task, listener: Listener) -> Report:
        asked.append(task)
        return sample_report(**change)

    monkeypatch.setattr(command, "judge_provider", judge)
    assert call("run", "x://y", "--timeout", "3s", "--give-up-after", 4, "--workers", 5).exit_code == code
    assert [(task.url, task.limit_s, task.give_up_after, task.workers) for task in asked] == [("x://y", 3, 4, 5)]


def test_a_report_that_cannot_be_written_costs_no_other_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def judge(task: Task, listener: Listener) -> Report:
        folder.mkdir()  # meanwhile somebody else has put it there
        return waived_report()

    monkeypatch.setattr(command, "judge_provider", judge)
    folder, page = tmp_path / "report.json", tmp_path / "report.html"
    result = call("run", "x://y", "--json", folder, "--html", page)
    assert result.exit_code == Exit.USAGE
    assert f"{folder} cannot be written: " in result.output
    assert "</html>" in page.read_text("utf-8")


def test_what_is_no_text_is_no_report(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(b"\xff")
    result = call("diff", file, file)
    assert result.exit_code == Exit.USAGE
    assert "no text in UTF-8" in result.output


def test_diff_tells_what_got_worse(tmp_path: Path) -> None:
    report = sample_report()
    better = replace(
        report, judgements=tuple(replace(one, outcome=Outcome.PASSED, tests=()) for one in report.judgements)
    )
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(report.to_json(), "utf-8")
    new.write_text(better.to_json(), "utf-8")
    assert call("diff", old, new).exit_code == Exit.CONFORMS
    assert call("diff", new, old).exit_code == Exit.FAILED
    assert "No requirement came out differently" in call("diff", old, old).output


@pytest.mark.timeout(300)
def test_spi_checks_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "spi.json"
    result = call("spi", "vm://command", "--json", path)
    report = Report.from_json(path.read_text("utf-8"))
    assert report.suite == "the contract of the SPI"
    ids = {judgement.requirement.id for judgement in report.judgements}
    assert {"poll-does-not-wait", "capabilities-are-those-that-work"} <= ids
    failed = [judgement.requirement.id for judgement in report.judgements if judgement.outcome is Outcome.FAILED]
    assert (result.exit_code, failed) == (Exit.CONFORMS, [])
    lacking = [one.reason for one in report.judgements if one.outcome is Outcome.NOT_SUPPORTED]
    assert set(lacking) == {"the provider does not declare XA"}, "a store would be needed"
    titles = {chapter.title for chapter in report.chapters.values()}
    assert titles >= {"Closing", "Connecting", "Delivery", "Notifying", "Refusing"}


def test_spi_checks_what_is_selected(tmp_path: Path) -> None:
    path = tmp_path / "spi.json"
    chosen = ("--select", "poll-does-not-wait", "--workers", 1)
    result = call("spi", "vm://command", *chosen, "--json", path)
    assert result.exit_code == Exit.CONFORMS, result.output
    assert "Conforms to the selected requirements of the contract of the SPI" in result.output
    report = Report.from_json(path.read_text("utf-8"))
    assert [each.requirement.id for each in report.judgements] == ["poll-does-not-wait"]
    assert report.selection == ("poll-does-not-wait",)


def test_the_contract_is_listed_without_a_provider() -> None:
    whole, part = call("spi", "--list"), call("spi", "--list", "--select", "closing")
    assert (whole.exit_code, part.exit_code) == (0, 0)
    assert "poll-does-not-wait" in whole.output
    assert "poll-does-not-wait" not in part.output
    assert "what-is-closed-refuses-all-other-calls" in part.output


def test_what_is_listed_is_what_is_collected() -> None:
    task = Task(url="vm://listed", profile=None, select=(), target=SPI_TARGET)
    collected = asyncio.run(collect(task))
    names = {each.test.rpartition("::")[2].partition("[")[0]: (each.module, each.statement) for each in collected.tests}
    listed = {
        "test_" + each.id.replace("-", "_"): (each.section, each.statement)
        for each in contract_catalogue().requirements.values()
    }
    assert listed == names


def test_diff_compares_what_was_selected_for_both(tmp_path: Path) -> None:
    whole = sample_report()
    part = replace(whole, selection=("3.4",), judgements=whole.judgements[:2])
    other = replace(whole, selection=("4",), judgements=whole.judgements[2:])
    files = {name: tmp_path / f"{name}.json" for name in ("whole", "part", "other")}
    for file, report in zip(files.values(), (whole, part, other), strict=True):
        file.write_text(report.to_json(), "utf-8")
    for before, after in (("whole", "part"), ("part", "whole")):
        result = call("diff", files[before], files[after])
        assert result.exit_code == Exit.CONFORMS, result.output
        assert "3 requirements were selected for one of the reports only, and left out." in result.output
        assert "No requirement came out differently." in result.output
    result = call("diff", files["part"], files["other"])
    assert result.exit_code == Exit.USAGE
    assert "no requirement in common" in result.output


@pytest.mark.parametrize("arguments", [["run", "vm://x"], ["spi", "vm://x"], ["spi", "--list"]])
def test_without_pytest_what_judges_says_what_to_install(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("pyjms_tck.command.find_spec", lambda name: None)
    result = call(*arguments)
    assert result.exit_code == Exit.USAGE
    assert "pip install 'pyjms-messaging[tck]'" in result.output


def test_the_command_is_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["pyjms-tck", "--help"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert {"run", "spi", "diff"} <= set(capsys.readouterr().out.split())
