"""Stories outlive the broker, whatever ended it; they take no more room than they may, and tell no more than they should."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms.testing import VirtualClock
from pyjms_provider.core.message.trace_events import Happening, StoryBuffer
from pyjms_provider.stories.log import StoryLog, segments_in
from pyjms_provider.stories.reading import LOST, RESTARTED, StoryQuery, find_stories, in_words
from pyjms_provider.stories.settings import DAY_MS, StoryLevel, StorySettings
from tests.provider.stories.teller import Teller, send

KILLED = """
import sys
from pyjms import ConnectionFactory, Session
from pyjms_provider.broker import running_broker
connection = ConnectionFactory(sys.argv[1]).create_connection()
session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
message = session.create_text_message("one")
session.create_producer(session.create_queue("orders")).send(message)
running_broker("storied").stories.flush()
print(message.jms_message_id, flush=True)
sys.stdin.read()
"""


def test_a_story_goes_on_after_a_restart(teller: Teller, tmp_path: Path) -> None:
    options = f"&store=sqlite:///{tmp_path}/store.db"
    session = teller.session(options=options)
    kept = send(session)
    teller.stop()
    session = teller.session(options=options)
    assert session.create_consumer(session.create_queue("orders")).receive(5000) is not None
    assert teller.steps(kept) == ["accepted", RESTARTED, "delivered", "paged_in", "acknowledged"]


def test_what_only_memory_had_is_lost_with_the_broker(teller: Teller) -> None:
    message = send(teller.session())
    teller.stop()
    assert teller.story(message).places == {"queue://orders": "NEW"}  # nobody knows yet that it will not come back
    teller.session()
    send(teller.session())
    story = teller.story(message)
    assert [each.what for each in story.events] == ["accepted", LOST]
    assert story.places == {}
    assert "its memory alone" in in_words(story.events[-1])


def test_a_number_that_another_message_has_later_begins_another_story(teller: Teller, tmp_path: Path) -> None:
    options = f"&store=sqlite:///{tmp_path}/store.db"
    first_ids = []
    for _ in range(2):  # an empty store gives its numbers again
        session = teller.session(options=options)
        first_ids.append(send(session))
        assert session.create_consumer(session.create_queue("orders")).receive(5000) is not None
        teller.stop()
    for message in first_ids:
        assert teller.steps(message) == ["accepted", "delivered", "acknowledged"]


def test_kill_9_leaves_all_that_was_written_and_a_torn_line_is_skipped(teller: Teller, tmp_path: Path) -> None:
    url = f"vm://storied?story=all&story_directory={teller.directory}&store=sqlite:///{tmp_path}/store.db"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        message_id = process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (segment,) = segments_in(teller.directory)
    with segment.path.open("ab") as file:
        file.write(b'[1,1795268108462,"deliv')
    session = teller.session(options=f"&store=sqlite:///{tmp_path}/store.db")
    assert session.create_consumer(session.create_queue("orders")).receive(5000) is not None
    (story,) = teller.found(message_id=message_id).stories
    assert [each.what for each in story.events] == ["accepted", RESTARTED, "delivered", "paged_in", "acknowledged"]


def test_messages_are_found_by_correlation_id_and_by_chosen_properties(teller: Teller) -> None:
    session = teller.session(options="&story_properties=customer,size")
    first = send(session, jms_correlation_id="A-1", properties={"customer": "Ann Ü", "secret": "rose"})
    send(session, jms_correlation_id="A-2", properties={"customer": "Bob"})
    again = send(session, jms_correlation_id="A-1")
    by_id = teller.found(correlation_id="A-1").stories
    assert [each.message_id for each in by_id] == [first.jms_message_id, again.jms_message_id]
    (story,) = teller.found(property=("customer", "Ann Ü")).stories
    assert story.message_id == first.jms_message_id
    assert teller.found(property=("secret", "rose")).stories == ()


def test_more_stories_than_are_wanted_are_said_to_be_more(teller: Teller) -> None:
    session = teller.session()
    for _ in range(3):
        send(session, jms_correlation_id="A")
    teller.found(correlation_id="A")
    found = find_stories(teller.directory, StoryQuery(correlation_id="A"), 2)
    assert (len(found.stories), found.is_cut) == (2, True)


def test_neither_bodies_nor_properties_are_written_and_files_are_their_owners_alone(teller: Teller) -> None:
    session = teller.session()
    message = send(session, text="the body", properties={"customer": "Ann"})
    assert teller.steps(message) == ["accepted"]
    (segment,) = segments_in(teller.directory)
    text = segment.path.read_text()
    assert "the body" not in text
    assert "Ann" not in text
    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(teller.directory.stat().st_mode) == 0o700


def test_names_with_any_characters_are_written_and_found(teller: Teller) -> None:
    session = teller.session()
    message = send(session, "ord\n\u2028[1,", jms_correlation_id='half \ud800 "quoted"\n')
    (story,) = teller.found(correlation_id='half \ud800 "quoted"\n').stories
    assert story.message_id == message.jms_message_id
    assert story.events[0].where == "queue://ord\n\u2028[1,"


# How much room they take


def make_log(folder: Path, clock: VirtualClock, *, days: int = 7, total_bytes: int = 64_000_000) -> StoryLog:
    settings = StorySettings(level=StoryLevel.ALL, directory=folder, days=days, total_bytes=total_bytes)
    log = StoryLog("shop", "ab12", clock, settings, lambda _: None)
    log.buffer.begin()
    return log


def tell(log: StoryLog, number: int) -> None:
    facts = (f"ID:{number}", None, True, True, 0, "shop-1", None, None)
    log.buffer.emit(Happening.ACCEPTED, number, "queue://orders", facts)


def test_the_oldest_files_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    log = make_log(tmp_path, VirtualClock(), total_bytes=131_072)
    for round_ in range(40):
        for number in range(100):
            tell(log, round_ * 100 + number + 1)
        log.flush()
    log.close()
    assert sum(each.path.stat().st_size for each in segments_in(tmp_path)) <= 131_072
    assert find_stories(tmp_path, StoryQuery(message_id="ID:1")).stories == ()
    assert len(find_stories(tmp_path, StoryQuery(message_id="ID:4000")).stories) == 1


def test_files_go_when_their_days_are_over(tmp_path: Path) -> None:
    clock = VirtualClock()
    log = make_log(tmp_path, clock, days=2)
    for day in range(6):
        tell(log, day + 1)
        log.flush()
        clock.advance(DAY_MS + 1)
    log.close()
    assert find_stories(tmp_path, StoryQuery(message_id="ID:1")).stories == ()
    assert len(find_stories(tmp_path, StoryQuery(message_id="ID:5")).stories) == 1


def test_what_cannot_be_written_is_told_of_and_noted_as_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "stories"
    folder.write_text("in the way")
    log = make_log(folder, VirtualClock())
    for number in range(1, 4):
        tell(log, number)
        log.flush()
    folder.unlink()
    tell(log, 4)
    log.flush()
    log.close()
    found = find_stories(folder, StoryQuery(message_id="ID:4"))
    assert (len(found.stories), found.missing) == (1, 3)
    told = [each.message.partition(" ")[0] for each in caplog.records if each.name == "pyjms_provider.stories.log"]
    assert told == ["PYJMS-STORY-1", "PYJMS-STORY-2"]


FILLED = """
import resource
import sys
from pathlib import Path
from pyjms.testing import VirtualClock
from tests.provider.stories.test_files import make_log, tell
log = make_log(Path(sys.argv[1]), VirtualClock())
tell(log, 1)
log.flush()
(path,) = Path(sys.argv[1]).iterdir()
head = path.stat().st_size - len(path.read_bytes().splitlines(keepends=True)[-1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (head + int(sys.argv[2]), hard))  # a file can be begun, but no step be written
for number in (2, 3):
    tell(log, number)
    log.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
tell(log, 4)
log.flush()
log.close()
"""


@pytest.mark.parametrize("room", [5, 60], ids=["none", "for the count alone"])
def test_what_several_failed_writes_have_lost_is_counted_together(tmp_path: Path, room: int) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", FILLED, str(tmp_path / "stories"), str(room)]
    subprocess.run(command, check=True, cwd=root, timeout=60)
    found = find_stories(tmp_path / "stories", StoryQuery(message_id="ID:4"))
    assert (len(found.stories), found.missing) == (1, 2)


def test_memory_is_bounded_and_what_did_not_fit_is_counted() -> None:
    woken: list[int] = []
    buffer = StoryBuffer(VirtualClock(), everything=True, properties=(), most=10, on_some=woken.append)
    buffer.emit(Happening.COMMITTED, 1, "")  # before it begins, nothing is told
    buffer.begin()
    for number in range(15):
        buffer.emit(Happening.COMMITTED, number, "")
    assert (len(buffer.fetch()), buffer.lost, woken) == (10, 5, [1, 6])
    buffer.end()
    buffer.emit(Happening.COMMITTED, 1, "")
    assert (buffer.fetch(), buffer.lost) == ([], 5)


def test_the_directory_of_nobody_has_no_stories(tmp_path: Path) -> None:
    found = find_stories(tmp_path / "nowhere", StoryQuery(message_id="ID:1"))
    assert (found.stories, found.since_ms) == ((), None)


def test_lines_are_json_for_whoever_wants_to_read_them(teller: Teller) -> None:
    session = teller.session(transacted=True)
    message = send(session)
    session.commit()
    assert teller.steps(message) == ["sent", "committed"]
    (segment,) = segments_in(teller.directory)
    lines = [json.loads(line) for line in segment.path.read_text().splitlines()]
    assert lines[0]["pyjms_story"] == 1
    assert [line[2] for line in lines if isinstance(line, list)] == ["sent", "committed"]
