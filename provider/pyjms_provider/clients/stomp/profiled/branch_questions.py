"""What a session asks of the pyjms broker about branches of distributed transactions, each once however often it is called (decision 0603)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyjms.spi.errors import BranchError, ProviderError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.clients.stomp.epoch import InterruptedLinkError, Question, UnansweredError
from pyjms_provider.protocols.stomp import verbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms_provider.clients.stomp.epoch import Epoch
    from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["BranchQuestions", "BranchVerb", "unreachable"]

BranchVerb: TypeAlias = (
    verbs.EndBranch | verbs.PrepareBranch | verbs.CommitBranch | verbs.RollbackBranch | verbs.ForgetBranch
)


class BranchQuestions:
    """Those of one session. Any thread: a transaction manager decides of several branches by one session."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Xid, type[BranchVerb]], Question] = {}
        """The last one of each kind about a branch, if its answer was not heard."""

    def ask(self, epoch: Epoch, verb: BranchVerb, read: Callable[[Frame], bool] = lambda _: True) -> bool:
        """Ask what changes a branch; return what the answer says. If the last call of its kind about the branch asked the same and did not hear that,
        it is waited for: it is done once, whatever other threads ask meanwhile. Raises `BranchError`, `ProviderError`.
        """
        about = (verb.xid, type(verb))
        question = self._asked.get(about)
        if question is None or not question.is_about(epoch, verb):
            question = self._asked[about] = Question(epoch, verb)
        try:
            said = read(epoch.ask_once(question, verb.write()))
        except UnansweredError as error:
            raise unreachable(error) from error
        except InterruptedLinkError as error:
            self._asked.pop(about, None)
            raise unreachable(error) from error
        except ProviderError:
            self._asked.pop(about, None)
            raise
        self._asked.pop(about, None)
        return said

    def forget(self, xid: Xid) -> None:
        """Have what was asked about a branch not be about the next one of its name."""
        for about in [*self._asked]:
            if xid in about:
                self._asked.pop(about, None)

    def clear(self) -> None:
        """Forget all, as the connection is lost: no answer comes any more."""
        self._asked.clear()


def unreachable(error: InterruptedLinkError | UnansweredError) -> BranchError:
    """Return how XA says that nobody knows what became of a branch."""
    reason = (
        error.reason
        if isinstance(error, UnansweredError)
        else f"the connection was lost ({error}): it is not known what became of the branch"
    )
    return BranchError(reason, BranchFailure.UNREACHABLE)
