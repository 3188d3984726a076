"""The example with a fault: a message that comes again does not say so. What does the conformance suite find?"""

from pathlib import Path

import folder_provider
from folder_profile import FolderProfile


def forgetful_give_back(folder: folder_provider._Folder, claim: Path) -> None:
    name = claim.name.partition(".")[0]
    claim.rename(folder._root / "queues" / claim.parent.name / f"{name}.0.json")  # noqa: SLF001  as if never delivered


folder_provider._Folder.give_back = forgetful_give_back  # noqa: SLF001  a fault has to reach inside


class FaultyProfile(FolderProfile):
    title = "folder://, with a fault"
