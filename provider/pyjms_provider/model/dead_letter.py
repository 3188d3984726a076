"""Queues of messages that were given up: what is there, why, and the way back."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import BaseModel, Field

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.dead_letters import DEAD_PREFIX
from pyjms_provider.model.errors import UnknownObjectError
from pyjms_provider.model.messages import LetterView
from pyjms_provider.model.observed import ObservedObject
from pyjms_provider.model.operations import NO_PROGRESS, Progress, operation
from pyjms_provider.model.queue import Ids, Offset, Selector, chosen
from pyjms_provider.model.showing import Showing
from pyjms_provider.model.statistics import statistic
from pyjms_provider.security.contracts import Operation, Target, TargetKind

__all__ = ["DeadLetterOffice"]


class LetterPage(BaseModel):
    """Part of the dead letters: fewer than were asked for where they are long."""

    letters: list[LetterView]
    has_more: bool


class Returned(BaseModel):
    """What became of the letters, or would become of them."""

    returned: int
    left: int
    """Those whose origin is gone, and messages that are no dead letters."""


class DeadLetterOffice(ObservedObject):
    """A queue that is some queue's queue of dead letters, or of expired messages."""

    category = "dead_letter"

    def target(self) -> Target:
        return Target(kind=TargetKind.QUEUE, name=self.name, virtual_host=self.host.name)

    @statistic("Messages that are here.", unit="messages")
    def letters(self) -> int:
        """How many messages are here."""
        queue = self.host.embedded.virtual_host.find_queue(self.name)
        if queue is None:
            raise UnknownObjectError(f"{self.host.path} has no queue {self.name!r}")
        return queue.count(MessageState.NEW)

    @statistic("How many there are of each reason's kind.", costly=True)
    def reasons(self) -> dict[str, int]:
        """How many there are of each kind: rejected, deliveries, expired, none."""
        found = self.host.queues.manager.browse(self.name)
        return dict(Counter(str(each.properties.get(f"{DEAD_PREFIX}Kind", "none")) for each in found))

    @operation("Look at dead letters, with the reasons why they are here.", needs=Operation.BROWSE, changes=False)
    def list_letters(
        self,
        selector: Selector = None,
        message_ids: Ids = None,
        offset: Offset = 0,
        limit: Annotated[int, Field(ge=1, le=1000, description="At most so many.")] = 50,
        *,
        with_bodies: Annotated[bool, Field(description="Whether bodies are wanted.")] = True,
    ) -> LetterPage:
        """Return a page of letters. Raises `InvalidSelectorError`, `ResourceError`."""
        found = self.host.queues.manager.browse(self.name, chosen(selector, message_ids))
        showing = Showing(with_bodies=with_bodies)
        shown, has_more = showing.page(found, showing.letter, offset, limit)
        return LetterPage(letters=shown, has_more=has_more)

    @operation("Return dead letters to where they came from.")
    def replay(
        self,
        selector: Selector = None,
        message_ids: Ids = None,
        *,
        dry_run: Annotated[bool, Field(description="Only say what would become of them.")] = False,
        progress: Progress = NO_PROGRESS,
    ) -> Returned:
        """Return letters to the queues and subscriptions that they came from. Raises as `list_letters`."""
        total = self.letters
        done = self.host.queues.manager.replay(
            self.name, chosen(selector, message_ids), dry_run=dry_run, go_on=lambda so_far: progress(so_far, total)
        )
        return Returned(returned=done.returned, left=done.left)
