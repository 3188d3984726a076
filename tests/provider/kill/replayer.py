"""A program that sends dead letters back, ten in a transaction, and is killed at a write of the journal.

Arguments: ``before`` or ``after``, the number of the write, and the URL.
"""

from __future__ import annotations

import sys

from pyjms.cli import main
from pyjms.commands import moving
from tests.provider.kill.points import ANY, Suicide

if __name__ == "__main__":
    side, passing, url = sys.argv[1:]
    moving._BATCH = 10  # type: ignore[misc]
    Suicide(side, ANY, int(passing)).install()
    sys.argv = ["pyjms", "dead-letters", "replay", url]
    main()
