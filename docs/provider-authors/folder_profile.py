"""What the conformance suite must know of the example: `pyjms-tck run folder:///tmp/messages --profile FILE`."""

from folder_provider import FolderProvider

from pyjms.spi import register_provider
from pyjms_tck.profile import Profile

# A provider that is installed needs no such line: its entry point tells its scheme.
register_provider("folder", FolderProvider())


class FolderProfile(Profile):
    title = "folder://, the example of the authors' guide"
