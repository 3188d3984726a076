"""What writing down the stories of messages costs each message, and how long one takes to be found.

Processor time of all threads is measured, so the thread that writes counts, and other load on the machine does not.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from measure import compare, report

from pyjms import ConnectionFactory, Session
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.stories.reading import StoryQuery, find_stories

MESSAGES = 50_000
_numbers = count(1)


def send_and_receive(options: str) -> float:
    """Return the microseconds of processor time that a message takes there and back."""
    name = f"bench-stories-{next(_numbers)}"
    connection = ConnectionFactory(f"vm://{name}{options}").create_connection()
    connection.start()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    message = session.create_text_message("one")
    began = time.process_time()
    for _ in range(MESSAGES):
        producer.send(message)
        assert consumer.receive(1000) is not None
    stories = getattr(running_broker(name), "stories", None)
    if stories is not None:
        stories.flush()
    took = time.process_time() - began
    connection.close()
    stop_broker(name)
    return took / MESSAGES * 1e6


def main() -> int:
    """Measure, and print a line for each figure."""
    with tempfile.TemporaryDirectory() as folder:
        where = f"story_directory={folder}/all"
        ends = compare(
            lambda: send_and_receive(f"?story=ends&story_directory={folder}/ends"), lambda: send_and_receive("")
        )
        good = report(
            "the way of a message while only bad ends are written down, divided by the way without",
            ends.ratio,
            most=1.03,
            detail=f"{ends.ours:.1f} and {ends.theirs:.1f} µs",
        )
        all_steps = compare(lambda: send_and_receive(f"?story=all&{where}"), lambda: send_and_receive(""))
        good &= report(
            "µs of a message more while every step is written down",
            all_steps.ours - all_steps.theirs,
            most=40,
            detail=f"{all_steps.ours:.1f} and {all_steps.theirs:.1f} µs; {all_steps.ratio:.2f} times",
        )
        began = time.perf_counter()
        find_stories(Path(folder) / "all", StoryQuery(message_id="ID:nobody"))
        size = sum(each.stat().st_size for each in (Path(folder) / "all").iterdir())
        took_ms = (time.perf_counter() - began) * 1000
        good &= report("ms to look for a message", took_ms, most=2000, detail=f"in {size / 1e6:.0f} MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
