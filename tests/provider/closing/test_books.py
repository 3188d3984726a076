"""The books find each fault that is planted in them, and none where none is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.provider.closing.books import Books


def sent(*texts: str) -> Books:
    books = Books()
    for text in texts:
        books.offer(text)
    books.confirm(texts)
    return books


def kinds(books: Books, *left: str) -> Sequence[str]:
    return [fault.kind for fault in books.judge(left)]


def test_what_all_brokers_may_do_is_no_fault() -> None:
    books = sent("left", "settled", "in doubt", "again")
    books.offer("never sent")
    books.offer("perhaps sent")
    books.offer("rolled back")
    books.withdraw(["rolled back"])
    for text in ("settled", "in doubt", "again"):
        books.receive(text, is_flagged=False, by="one")
    books.settle_perhaps(["settled", "in doubt"])
    books.settle(["settled"])
    books.give_back(["again"])
    books.receive("again", is_flagged=True, by="two")
    books.settle(["again"])
    assert books.judge(["left", "in doubt", "perhaps sent"]) == []
    assert books.judge(["left", "perhaps sent"]) == []


def _settle_twice(books: Books) -> None:
    books.settle(["a"])
    books.settle(["a"])


def _receive_settled(books: Books) -> None:
    books.settle(["a"])
    books.receive("a", is_flagged=True, by="two")


def _receive_withdrawn(books: Books) -> None:
    books.offer("b")
    books.withdraw(["b"])
    books.receive("b", is_flagged=False, by="two")
    books.settle(["a", "b"])


def _receive_unknown(books: Books) -> None:
    books.receive("b", is_flagged=False, by="two")
    books.settle(["a", "b"])


def _receive_unflagged(books: Books) -> None:
    books.receive("a", is_flagged=False, by="one")
    books.receive("a", is_flagged=False, by="two")
    books.settle(["a"])


@pytest.mark.parametrize(
    ("deed", "kind"),
    [
        (_settle_twice, "settled twice"),
        (_receive_settled, "doubled"),
        (_receive_withdrawn, "withdrawn, and there"),
        (_receive_unknown, "from nowhere"),
        (_receive_unflagged, "unflagged"),
    ],
)
def test_a_fault_on_the_way_is_found(deed: Callable[[Books], None], kind: str) -> None:
    books = sent("a")
    deed(books)
    assert kinds(books) == [kind]


def test_what_is_lost_is_found_with_its_story() -> None:
    books = sent("a", "b")
    books.receive("a", is_flagged=False, by="one")
    books.give_back(["a"])
    (fault,) = books.judge(["b"])
    assert fault == ("lost", "a", ("offered", "sent", "received by one", "given back"))


def test_what_is_there_and_should_not_be_is_found() -> None:
    books = sent("a", "b")
    books.settle(["a"])
    books.offer("c")
    books.withdraw(["c"])
    assert kinds(books, "a", "b") == ["acknowledged, and there again"]
    assert kinds(sent("b"), "b", "b") == ["there twice"]
    assert kinds(sent("b"), "b", "d") == ["from nowhere"]
    books = sent("b")
    books.offer("c")
    books.withdraw(["c"])
    assert kinds(books, "b", "c") == ["withdrawn, and there"]
