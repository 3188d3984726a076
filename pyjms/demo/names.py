"""The destinations of one run, and which dead letters are its own. Pure."""

from __future__ import annotations

from dataclasses import dataclass

RUNS = "demo.runs"
"""The queue that says which run a store holds."""
DEAD_LETTERS = "DLQ"
"""The queue into which the embedded broker puts what was delivered too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The destinations of one run. The prefix keeps runs apart that share a broker."""

    prefix: str
    lanes: int

    @property
    def intake(self) -> str:
        """The queue into which the file is loaded."""
        return f"{self.prefix}.intake"

    @property
    def checked(self) -> str:
        """The queue between `check` and `look up`."""
        return f"{self.prefix}.checked"

    @property
    def looked_up(self) -> str:
        """The queue between `look up` and `dispatch`."""
        return f"{self.prefix}.looked-up"

    @property
    def desk(self) -> str:
        """The queue of requests to the desk."""
        return f"{self.prefix}.desk"

    @property
    def dispatched(self) -> str:
        """The topic that tells of each record dispatched."""
        return f"{self.prefix}.dispatched"

    @property
    def stamps(self) -> str:
        """The queue in which stages count what they did."""
        return f"{self.prefix}.stamps"

    @property
    def pages(self) -> str:
        """The queue in which collectors write down what they received."""
        return f"{self.prefix}.pages"

    def lane(self, number: int) -> str:
        """The queue at the end of lane `number`."""
        return f"{self.prefix}.lane-{number}"

    @property
    def work(self) -> tuple[str, ...]:
        """The queues that must be empty in the end."""
        return self.intake, self.checked, self.looked_up, self.desk

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues of the run."""
        return *self.work, *map(self.lane, range(self.lanes)), self.stamps, self.pages

    def client_id(self, subscriber: str) -> str:
        """The client id of a durable subscriber."""
        return f"{self.prefix}-{subscriber}"

    @property
    def dead_letters(self) -> str:
        """The selector of this run's dead letters."""
        return f"JMS_pyjms_deadDestination LIKE '%://{self.prefix}.%'"

    def dead_letters_of(self, queue: str, selector: str | None = None) -> str:
        """The selector of those that came from a queue, and that `selector` selects."""
        own = f"JMS_pyjms_deadDestination = 'queue://{queue}'"
        return own if selector is None else f"{own} AND ({selector})"

    def dead_letters_for(self, subscriber: str) -> str:
        """The selector of those that a durable subscriber was to get."""
        return f"JMS_pyjms_deadSubscription LIKE '%#{self.client_id(subscriber)}/%'"
