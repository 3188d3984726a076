"""A child process that writes to a store until it is killed, and says after each write what is written.

It adds messages, alone and in pairs to two queues, and removes some of them again. Each line is one thing that is known
to be written: ``+ ID`` or ``- ID``. Before a removal it says ``? ID``, as nobody knows what became of one that was cut.
"""

from __future__ import annotations

import sys
from itertools import count

from pyjms.spi.clock import SystemClock
from pyjms_provider.core.journal.journal import Changes, NewMessage, QueueNumber, Removal
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.testing.world import envelope_of, queue_record


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(url: str) -> None:
    journal = open_journal(StoreSettings(url=url), "writer", SystemClock())
    recovery = journal.recover(lambda _: None)
    for _ in recovery.entries:
        pass
    queues = tuple(journal.define_queue(queue_record(name)) for name in ("first", "second"))
    say("ready")
    for number in count(recovery.last_id + 1):
        reference = MessageReference(ReferenceId(number), None, 0, 4, reliable=True)
        where: tuple[QueueNumber, ...] = queues if number % 3 == 0 else queues[:1]
        reference.shared = len(where) > 1
        message = NewMessage(reference, envelope_of(f"message {number}"), where)
        journal.write(Changes(messages=[message]), force=bool(number % 2))
        say(f"+ {number}")
        if number % 4 == 0:
            say(f"? {number}")
            journal.write(Changes(removals=[Removal(queue, reference) for queue in where]), force=False)
            say(f"- {number}")


if __name__ == "__main__":
    main(sys.argv[1])
