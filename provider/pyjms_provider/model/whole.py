"""All objects below a clustered virtual host, whichever member has them: they look and work as those of a virtual host of one broker.

A request for objects is JSON. A member carries it out on its own objects, below the virtual host of a shard that it leads, or below its front; for
other shards and fronts it asks their members (`member_requests`). So each object is managed by the same code everywhere. The rights of the user
were checked before by the member that was asked, whose access rules those are.

Most objects are in one place. A queue of dead letters, or a transaction, may be in several: it is shown as one, its numbers are added, and an operation
is done in all its places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError, ResourceError
from pyjms_provider.cluster.placement import FrontPlace, ShardPlace
from pyjms_provider.cluster.placing import shards_for
from pyjms_provider.core.queue.altering import RetiredQueueError
from pyjms_provider.model import tree
from pyjms_provider.model.errors import (
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    Problem,
    UnknownObjectError,
    WrongStateError,
)
from pyjms_provider.model.managed import ChildSource, ManagedObject, Snapshot, State, observed_id
from pyjms_provider.model.member_requests import (
    LINK,
    MEMBER_QUEUE,
    MemberRequests,
    MemberRequestServer,
    UnansweredError,
    error_as_data,
    error_from_data,
)
from pyjms_provider.model.operations import EVERYTHING, NO_PROGRESS, Permissions, Progress, operations_of, statistics_of
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.stores.configuration_contract import ObjectRecord

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.cluster.known import JoinedCluster
    from pyjms_provider.cluster.placement import Place
    from pyjms_provider.model.contracts import ManagedHost

Request = Mapping[str, Any]
_IN_SHARDS: Final = (
    "queue",
    "topic",
    "durable_subscription",
    "shared_subscription",
    "dead_letter",
    "transaction",
    "reader_group",
    "registered_client",
    "staged_unit",
)
_AT_FRONTS: Final = frozenset({"queue", "topic", "shared_subscription", "connection"})
"""The categories of temporary destinations, and of what clients connect with."""
_HIDDEN: Final = frozenset({MEMBER_QUEUE, "$management"})
_HOMES: Final = {
    "queue": AddressKind.QUEUE,
    "dead_letter": AddressKind.QUEUE,
    "topic": AddressKind.TOPIC,
}
_WAIT_MS: Final = 10_000
"""How long a request waits for a shard to get a leader."""
_LOST_MAX: Final = 3
_RETRY_MS: Final = 50
_SKIPPED_AT_ONCE: Final = 1_000
_ADDED_UNITS: Final = frozenset(
    {"messages", "messages/s", "consumers", "receivers", "subscriptions", "alerts", "bytes"}
)


_OF_ENDED: Final = (ClosedError, UnknownObjectError, WrongStateError)
"""What a virtual host says that has just ended."""


class LeaderMissingError(ResourceError):
    """No member leads a shard at present, or its leader does not answer, so that nobody can tell of its objects."""

    code = "PYJMS-CLUSTER-LEADER"


class _NotHereError(ProviderError):
    """The member does not lead the shard, or not yet, or no more."""


class Whole:
    """The objects of all members of a cluster. Any thread."""

    def __init__(self, host: ManagedHost, member: JoinedCluster, shown: Callable[[int], ManagedHost | None]) -> None:
        """`host`: the clustered virtual host; `shown`: returns the virtual host of a shard that this member leads; None: it shows none."""
        self.host = host
        self._member = member
        self._shown = shown
        self._front = FrontPlace(member.front.run_id)
        self._requests = MemberRequests(member, host.clock)
        self._server = MemberRequestServer(member, self._answer)
        categories = dict.fromkeys((*_IN_SHARDS, "connection"))
        self.sources: Mapping[str, ChildSource] = {
            each: SourceOfWhole(self, each, host.as_object, (), None) for each in categories
        }

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.host.clock

    def close(self) -> None:
        """Ask and answer no more. May be repeated."""
        self._server.close()
        self._requests.close()

    # Places

    def places(self, category: str) -> list[Place]:
        """Return where there may be objects of a category below the host."""
        found: list[Place] = []
        if category in _IN_SHARDS:
            found += map(ShardPlace, range(self._member.placement.shards))
        if category in _AT_FRONTS:
            fronts = sorted(self._member.fronts().values(), key=lambda each: each.run_id)
            self._requests.keep_only(frozenset(fronts))
            found += fronts
        return found

    def home(self, category: str, name: str) -> Place | None:
        """Return the shard that clients use for a destination of that name; None: the category has none."""
        kind = _HOMES.get(category)
        return None if kind is None else ShardPlace(self._member.placement.shard_of(kind, name))

    def partitions_of(self, queue: str) -> int:
        """Return into how many partitions a queue is divided; 1: it is whole."""
        return len(self._member.placement.shards_of(AddressKind.QUEUE, queue))

    @contextmanager
    def divided(self, queue: str, partitions: Any) -> Iterator[list[Place]]:
        """Have a queue that is not there yet be divided as an operator says; yield its places. If it is not created there, it is as before.

        `partitions`: how many it is to have; None: as its policy says, or as it was placed before. Raises `InvalidAttributesError`, `ProviderError`.
        """
        member, address = self._member, Address(AddressKind.QUEUE, queue)
        before = member.placement.shards_of(AddressKind.QUEUE, queue)
        with ExitStack() as undo:
            if partitions is None:
                while not member.is_settled(address):
                    member.await_placed(queue)
            elif not member.is_settled(address) or len(before) != partitions:
                self._check_partitions(queue, partitions)
                member.place_queue(queue, shards_for(queue, partitions, member.placement, member.status()))
                undo.callback(self._place_back, queue, before)
            yield [ShardPlace(each) for each in member.placement.shards_of(AddressKind.QUEUE, queue)]
            undo.pop_all()

    def once_placed(self, queue: str, act: Callable[[], None]) -> None:
        """Do something at the leader of a shard, which may not have heard yet that a queue is there from now on. Raises what `act` raises."""
        until_ms = self.clock.monotonic_ms() + _WAIT_MS
        while True:
            try:
                act()
            except RetiredQueueError:
                if self.clock.monotonic_ms() >= until_ms:
                    raise
                self._member.await_placed(queue)
            else:
                return

    def _check_partitions(self, queue: str, partitions: Any) -> None:
        shards = self._member.placement.shards
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= shards:
            text = f"is {partitions!r}; give a number from 1 to {shards}, as so many shards there are"
            raise InvalidAttributesError(f"queue {queue}", (Problem(name="partitions", text=text),))

    def _place_back(self, queue: str, shards: Collection[int]) -> None:
        with suppress(ProviderError):  # who could not create it hears why; the partitions are empty
            self._member.place_queue(queue, shards)

    def own_source(self, category: str) -> ChildSource | None:
        """Return the source of the category below the front of this member."""
        return self.host.own_sources().get(category)

    # Asking

    def ask(self, place: Place, request: Request, *, changes: bool = False, progress: Progress = NO_PROGRESS) -> Any:
        """Return the result of a request to one place. Raises as `ask_all`, and `UnknownObjectError` if its member has gone."""
        found = self.ask_all([place], request, changes=changes, progress=progress)
        if place not in found:
            raise UnknownObjectError("the member whose connection it was of has ended")
        return found[place]

    def ask_all(
        self,
        places: Collection[Place],
        request: Request,
        *,
        changes: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> dict[Place, Any]:
        """Return the results of a request to several places; fronts of members that have ended are left out.

        Args:
            places: the places.
            request: the request, as JSON.
            changes: whether it changes anything, so that it must not be made twice.
            progress: is told of its progress, and can stop it half way.

        Raises:
            LeaderMissingError: a shard has had no leader that answers for ten seconds.
            InDoubtError: a change was sent to a member that has not answered, and perhaps has made it.
            ProviderError: what the request raises at one of the places.
        """
        left, found = list(dict.fromkeys(places)), dict[Any, Any]()
        until_ms = self.clock.monotonic_ms() + _WAIT_MS
        why, lost = "", 0
        while True:
            for front, group in self._by_member(left).items():
                try:
                    results = self._ask_member(front, group, request, progress)
                except UnansweredError as error:
                    if error.was_sent and changes:
                        raise InDoubtError(
                            f"{error.reason}, so it is unknown whether it has done what was asked; look at what came of it"
                        ) from error
                    why = error.reason
                    if error.was_sent and lost < _LOST_MAX:
                        # It was there a moment ago: the next leader has as long as if the request came now.
                        lost, until_ms = lost + 1, self.clock.monotonic_ms() + _WAIT_MS
                    continue
                for place, result in zip(group, results, strict=True):
                    if "error" not in result:
                        found[place] = result["result"]
                        left.remove(place)
                    elif result["error"]["class"] != _NotHereError.__name__:
                        raise error_from_data(result["error"])
            living = self._member.fronts().values()
            left = [each for each in left if isinstance(each, ShardPlace) or each in living]
            if not left:
                return {each: found[each] for each in places if each in found}
            if self.clock.monotonic_ms() >= until_ms:
                raise self._missing(left, why)
            self.clock.wait(Signal(), self.clock.monotonic_ms() + _RETRY_MS)

    def _missing(self, left: Sequence[Place], why: str) -> LeaderMissingError:
        shards = ", ".join(str(each.number) for each in left if isinstance(each, ShardPlace))
        what = f"shard {shards} of {self.host.path} has" if shards else "a member has"
        because = f" ({why})" if why else ""
        return LeaderMissingError(
            f"{what} had no leader that answers for {_WAIT_MS // 1000} s{because}, so what is there is not known; "
            "cluster_status tells which shards have leaders"
        )

    def _by_member(self, places: Sequence[Place]) -> dict[FrontPlace, list[Place]]:
        found: dict[FrontPlace, list[Place]] = {}
        for each in places:
            front = self._front_of(each)
            if front is not None:
                found.setdefault(front, []).append(each)
        return found

    def _front_of(self, place: Place) -> FrontPlace | None:
        return self._member.front_of_leader(place.number) if isinstance(place, ShardPlace) else place

    def _ask_member(
        self, front: FrontPlace, places: Sequence[Place], request: Request, progress: Progress
    ) -> list[dict[str, Any]]:
        numbers = [each.number if isinstance(each, ShardPlace) else None for each in places]
        whole = {**request, "places": numbers}
        if front == self._front:
            return self._answer(whole, progress)
        answer: list[dict[str, Any]] = self._requests.ask(
            front,
            whole,
            is_current=lambda: (
                all(self._front_of(each) == front for each in places) and front in self._member.fronts().values()
            ),
            progress=progress,
        )
        return answer

    def columns_by_place(self, category: str, fields: Sequence[str]) -> dict[Place, Mapping[str, Mapping[str, Any]]]:
        """Return fields of all objects of a category, by their place, the field and the name."""
        return self.ask_all(self.places(category), {"do": "columns", "category": category, "fields": list(fields)})

    def names_by_place(self, category: str) -> dict[Place, Sequence[str]]:
        """Return the names of all objects of a category, by their place."""
        return self.ask_all(self.places(category), {"do": "names", "category": category})

    def invoke_all(self, operation: str, arguments: Request, progress: Progress = NO_PROGRESS) -> list[Any]:
        """Return the joined results of an operation of the virtual hosts of all shards, which only reads."""
        shards = [ShardPlace(number) for number in range(self._member.placement.shards)]
        request = {"do": "invoke", "name": None, "operation": operation, "arguments": dict(arguments), "by": ""}
        return [each for found in self.ask_all(shards, request, progress=progress).values() for each in found]

    # Answering, for this member and for others

    def _answer(self, request: Request, progress: Progress) -> list[dict[str, Any]]:
        return [self._answer_at(number, request, progress) for number in request["places"]]

    def _answer_at(self, number: int | None, request: Request, progress: Progress) -> dict[str, Any]:
        try:
            host = self.host if number is None else self._shown(number)
            if host is None:
                raise _NotHereError(f"shard {number} is not led here")
            result = _REQUESTS[request["do"]](_Below(host, request), request, progress)
            if number is not None and request["do"] in _READING and self._shown(number) is not host:
                raise _NotHereError(f"shard {number} is led here no more")  # it may have been looked at half way
        except ProviderError as error:
            if number is not None and isinstance(error, _OF_ENDED) and self._shown(number) is None:
                error = _NotHereError(error.reason)
            return {"error": error_as_data(error)}
        return {"result": result}


class _Below:
    """The objects that a request is about, at the member that has them."""

    def __init__(self, host: ManagedHost, request: Request) -> None:
        self._host = host
        self._category = str(request.get("category", ""))
        self._above: list[list[str]] = request.get("above", [])

    @property
    def _parent(self) -> ManagedObject:
        above = self._host.as_object
        for depth, (category, name) in enumerate(self._above):
            found = self._host.own_sources()[category].find(name) if depth == 0 else above.find_child(category, name)
            if found is None:
                raise UnknownObjectError(f"{above.path} has no {category} {name!r}")
            above = found
        return above

    @property
    def source(self) -> ChildSource:
        """The source of the category."""
        return (self._parent.sources() if self._above else self._host.own_sources())[self._category]

    def names(self) -> list[str]:
        """Return the names of all, without those that are there for the cluster itself."""
        names = self.source.names()
        if self._category == "connection":
            source = self.source
            return [each for each in names if (found := source.find(each)) is not None and _is_of_client(found)]
        return [each for each in names if each not in _HIDDEN] if self._category == "queue" else list(names)

    def find(self, name: str) -> ManagedObject:
        """Return one. Raises `UnknownObjectError`."""
        found = self.source.find(name)
        if found is None:
            raise UnknownObjectError(f"{self._parent.path} has no {self._category} {name!r}")
        return found

    def objects(self, names: Sequence[str]) -> Iterator[ManagedObject]:
        """Yield those of these names that there are."""
        source = self.source
        for name in names:
            found = source.find(name)
            if found is not None:
                yield found

    @property
    def host(self) -> ManagedObject:
        """The virtual host itself."""
        return self._host.as_object


def _is_of_client(connection: ManagedObject) -> bool:
    with suppress(UnknownObjectError):
        return connection.statistic_values(["protocol"]).get("protocol") != LINK
    return False


def _names(below: _Below, _request: Request, _progress: Progress) -> Any:
    return below.names()


def _columns(below: _Below, request: Request, _progress: Progress) -> Any:
    columns = below.source.columns(request["fields"])
    names = set(below.names())
    return {
        field: {name: value for name, value in column.items() if name in names} for field, column in columns.items()
    }


def _look(below: _Below, request: Request, _progress: Progress) -> Any:
    found: dict[str, Any] = {}
    for each in below.objects(request["names"]):
        with suppress(UnknownObjectError):
            found[each.name] = _seen(each, request["fields"], actual=request["actual"])
    return found


def _seen(managed: ManagedObject, fields: Sequence[str] | None, *, actual: bool) -> dict[str, Any]:
    facts = managed.facts()
    try:
        statistics: Any = managed.statistic_values(fields)
    except (UnknownObjectError, WrongStateError):
        # One in error has no statistics; one that has gone is left out.
        if managed.state in {State.ACTIVE, State.DELETED}:
            raise
        statistics = None
    return {
        "type": managed.type,
        "is_durable": managed.is_durable,
        "facts": facts,
        "revision": managed.revision_seen,
        "attributes": managed.attribute_values(fields, actual=actual),
        "statistics": statistics,
    }


def _invoke(below: _Below, request: Request, progress: Progress) -> Any:
    managed = below.host if request.get("name") is None else below.find(request["name"])
    return managed.invoke(request["operation"], request["arguments"], by=request["by"], progress=progress)


def _change(below: _Below, request: Request, _progress: Progress) -> Any:
    below.find(request["name"]).set_attributes(request["changes"], by=request["by"])


def _delete(below: _Below, request: Request, _progress: Progress) -> Any:
    below.find(request["name"]).delete(by=request["by"])


def _create(below: _Below, request: Request, _progress: Progress) -> Any:
    host = below.host
    host.configuration_thread.call(
        lambda: host.create_child(request["category"], request["attributes"], by=request["by"])
    )


_REQUESTS: Final[Mapping[str, Callable[[_Below, Request, Progress], Any]]] = {
    "names": _names,
    "columns": _columns,
    "look": _look,
    "invoke": _invoke,
    "change": _change,
    "delete": _delete,
    "create": _create,
}
"""What a member does for another one."""


_READING: Final = frozenset({"names", "columns", "look"})


class SourceOfWhole(ChildSource):
    """The objects of one category, of all members."""

    def __init__(
        self,
        whole: Whole,
        category: str,
        parent: ManagedObject,
        above: Sequence[tuple[str, str]],
        places: Sequence[Place] | None,
    ) -> None:
        """`above`: category and name of each object between the host and these; `places`: where they are; None: where the category is."""
        self._whole = whole
        self._category = category
        self._parent = parent
        self._above = above
        self._places = places

    @property
    def category(self) -> str:
        return self._category

    def _ask_all(self, do: str, **request: Any) -> dict[Place, Any]:
        places = self._whole.places(self._category) if self._places is None else self._places
        return self._whole.ask_all(
            places, {"do": do, "category": self._category, "above": [list(each) for each in self._above], **request}
        )

    def names(self) -> Sequence[str]:
        return sorted({name for names in self._ask_all("names").values() for name in names})

    def find(self, name: str) -> ManagedObject | None:
        found = self.find_all([name], (), actual=False).get(name)
        if isinstance(found, ObjectOfWhole):
            found.forget()
        return found

    def find_all(
        self, names: Sequence[str], fields: Sequence[str] | None, *, actual: bool
    ) -> Mapping[str, ManagedObject]:
        seen: dict[str, dict[Place, Any]] = {}
        given = None if fields is None else list(fields)
        for place, each in self._ask_all("look", names=list(names), fields=given, actual=actual).items():
            for name, values in each.items():
                seen.setdefault(name, {})[place] = values
        return {name: self._view(name, seen[name]) for name in names if name in seen}

    def _view(self, name: str, seen: Mapping[Place, Any]) -> ObjectOfWhole:
        home = self._whole.home(self._category, name)
        places = sorted(seen, key=lambda each: each != home)  # where clients look for it comes first
        kind_name = seen[places[0]]["type"] if places else ""
        kind = _class_of_whole(self._category, kind_name)
        return kind(self._whole, self._parent, self._above, name, places, [seen[each] for each in places])

    def has_column(self, field: str) -> bool:
        own = self._whole.own_source(self._category) if not self._above else None
        return super().has_column(field) if own is None else own.has_column(field)

    def columns(self, fields: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        found: dict[str, dict[str, list[Any]]] = {field: {} for field in fields}
        for columns in self._ask_all("columns", fields=list(fields)).values():
            for field, column in columns.items():
                for name, value in column.items():
                    found[field].setdefault(name, []).append(value)
        kind = _class_of_whole(self._category, "")
        if self._category == "queue" and "partitions" in found:
            found["partitions"] = {name: [self._whole.partitions_of(name)] for name in found["partitions"]}
        return {
            field: {
                name: values[0] if len(values) == 1 else _added(kind, field, values) for name, values in column.items()
            }
            for field, column in found.items()
        }

    def targets(self) -> tuple[TargetKind, str] | None:
        own = self._whole.own_source(self._category) if not self._above else None
        return None if own is None else own.targets()

    def target(self, name: str) -> Target | None:
        return super().target(name) or self._view(name, {}).target()

    def create(self, attributes: Mapping[str, Any], by: str) -> ManagedObject:
        name = str(attributes.get("name", ""))
        home = self._whole.home(self._category, name)
        if home is None or tree.shape_of(self._category).is_observed:
            return super().create(attributes, by)
        if self._category == "queue":
            self._create_queue(name, dict(attributes), by)
        else:
            self._create_at(home, attributes, by)
        made = self.find(name)
        if made is None:
            raise UnknownObjectError(f"{self._category} {name!r} was made, and has gone again")
        return made

    def _create_at(self, place: Place, attributes: Mapping[str, Any], by: str) -> None:
        request = {"do": "create", "category": self._category, "attributes": dict(attributes), "by": by}
        self._whole.ask(place, request, changes=True)

    def _create_queue(self, name: str, attributes: dict[str, Any], by: str) -> None:
        """Create a queue, or all its partitions. Raises as `create`; then there is none of them."""
        if self.find(name) is not None:
            raise ObjectExistsError(f"{self._parent.path} has a queue {name!r} already")
        partitions = attributes.pop("partitions", None)
        with self._whole.divided(name, partitions) as places, ExitStack() as undo:
            for place in places:
                self._whole.once_placed(name, partial(self._create_at, place, attributes, by))
                undo.callback(self._delete_at, place, name, by)
            undo.pop_all()

    def _delete_at(self, place: Place, name: str, by: str) -> None:
        with suppress(ProviderError):  # who could not create the queue hears why
            request = {"do": "delete", "category": self._category, "name": name, "by": by}
            self._whole.ask(place, request, changes=True)


class ObjectOfWhole(ManagedObject):
    """An object of a member. It has the class of such objects as a second base, for their declarations, and asks for all values."""

    def __init__(
        self,
        whole: Whole,
        parent: ManagedObject,
        above: Sequence[tuple[str, str]],
        name: str,
        places: Sequence[Place],
        seen: Sequence[Mapping[str, Any]],
    ) -> None:
        """`places`: where it is, where clients look for it first; `seen`: what was seen of it there."""
        self.parent = parent
        self.name = name
        self.id = observed_id(parent, self.category, name)
        self._children = {}
        self._listeners = ()
        self.pending = ()
        self._whole = whole
        self._host = whole.host
        self._above_it = above
        self._places = places
        self._type = str(seen[0]["type"]) if seen else ""
        self._is_durable = bool(seen[0]["is_durable"]) if seen else True
        self._known: Mapping[str, Any] | None = self._as_one(seen) if seen else None

    def forget(self) -> None:
        """Ask for all values from now on."""
        self._known = None

    def _request(self, do: str, **request: Any) -> dict[str, Any]:
        above = [list(each) for each in self._above_it]
        return {"do": do, "category": self.category, "above": above, **request}

    def _look(self, fields: Sequence[str] | None = (), *, actual: bool = False) -> Mapping[str, Any]:
        if self._known is not None:
            return self._known
        given = None if fields is None else list(fields)
        request = self._request("look", names=[self.name], fields=given, actual=actual)
        found = self._whole.ask_all(self._places, request)
        seen = [found[each][self.name] for each in self._places if self.name in found.get(each, ())]
        if not seen:
            raise UnknownObjectError(f"{self._parent.path} has no {self.category} {self.name!r}")
        return self._as_one(seen)

    def _as_one(self, seen: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        found = {**seen[0], "facts": {**seen[0]["facts"], "id": str(self.id)}}
        if self.category == "queue" and "partitions" in found["attributes"]:
            found["attributes"] = {**found["attributes"], "partitions": self._whole.partitions_of(self.name)}
        all_of_them = [each["statistics"] for each in seen if each["statistics"] is not None]
        if len(all_of_them) > 1:
            found["statistics"] = {
                name: _added(type(self), name, [each[name] for each in all_of_them]) for name in all_of_them[0]
            }
        return found

    @property
    def _parent(self) -> ManagedObject:
        assert self.parent is not None, "it is below the host"
        return self.parent

    # What readers use

    @property
    def snapshot(self) -> Snapshot:
        seen, given = self._look(None), self._look(None, actual=True)
        facts = seen["facts"]
        record = ObjectRecord(
            id=self.id,
            category=self.category,
            parent=self._parent.id,
            attributes=given["attributes"],
            created_by=facts["created_by"] or "",
            created_ms=facts["created_at_ms"] or 0,
            updated_by=facts["updated_by"] or "",
            updated_ms=facts["updated_at_ms"] or 0,
        )
        state = State(facts["state"])
        attributes = None if state is not State.ACTIVE else self.attributes_class.model_construct(**seen["attributes"])
        return Snapshot(state=state, record=record, attributes=attributes, error=facts["error"])

    @property
    def state(self) -> State:
        return State(self._look()["facts"]["state"])

    @property
    def type(self) -> str:
        return self._type

    @property
    def is_durable(self) -> bool:
        return self._is_durable

    @property
    def revision_seen(self) -> int | None:
        found: int | None = self._look()["revision"]
        return found

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self._look()["facts"]
        return found

    def attribute_values(self, names: Sequence[str] | None = None, *, actual: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = self._look(names, actual=actual)["attributes"]
        return found

    def statistic_values(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        found: dict[str, Any] | None = self._look(names)["statistics"]
        if found is None:
            raise WrongStateError(f"{self.path} is in error")
        return found

    def sources(self) -> Mapping[str, ChildSource]:
        above = (*self._above_it, (self.category, self.name))
        return {
            shape.category: SourceOfWhole(self._whole, shape.category, self, above, self._places)
            for shape in tree.children_of(self.category)
        }

    # What changes it

    def set_attributes(self, changes: Mapping[str, Any], *, by: str = "") -> None:
        changes = dict(changes)
        if self.category == "queue" and changes.pop("partitions", None) not in {
            None,
            self._whole.partitions_of(self.name),
        }:
            raise NotChangeableError(
                f"{self.path} is not divided by a change of its attributes: call partition_queue of {self._host.path}"
            )
        request = self._request("change", name=self.name, changes=changes, by=by)
        self._whole.ask_all(self._places, request, changes=True)

    def delete(self, *, by: str = "") -> None:
        self._whole.ask_all(self._places, self._request("delete", name=self.name, by=by), changes=True)

    def invoke(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        by: str = "",
        progress: Progress = NO_PROGRESS,
        permissions: Permissions = EVERYTHING,
    ) -> Any:
        declared = operations_of(type(self))[name]
        declared.read_arguments(self.path, arguments)
        known = declared.parameters.get("properties", {})

        def ask(place: Place, **changed: Any) -> Any:
            given = {**arguments, **changed}
            request = self._request("invoke", name=self.name, operation=name, arguments=given, by=by)
            return self._whole.ask(place, request, changes=declared.changes, progress=progress)

        if len(self._places) == 1 or declared.needs is Operation.WRITE or "since_ms" in known:
            return ask(self._places[0])
        if "offset" in known and "limit" in known:
            return self._page(ask, int(arguments.get("offset", 0)), int(arguments.get("limit", 50)))
        if arguments.get("most") is not None:
            done = 0
            for place in self._places:
                if done < int(arguments["most"]):
                    done += ask(place, most=int(arguments["most"]) - done)["messages"]
            return {"messages": done}
        results = [ask(each) for each in self._places]
        return _added_results(results)

    def _page(self, ask: Callable[..., Any], offset: int, limit: int) -> Any:
        """Return a page of messages that are in several places: those of one place after those of another."""
        pages: list[Any] = []
        for number, place in enumerate(self._places):
            page = ask(place, offset=offset, limit=limit)
            pages.append(page)
            found = _listed(page)
            if found or page["has_more"]:
                limit, offset = limit - len(found), 0
                if limit <= 0 or page["has_more"]:
                    page["has_more"] = page["has_more"] or number + 1 < len(self._places)
                    break
            elif offset:
                offset -= _how_many(partial(ask, place, limit=_SKIPPED_AT_ONCE, with_bodies=False))
        return _added_results(pages)


def _listed(page: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = next(value for value in page.values() if isinstance(value, list))
    return found


def _how_many(ask: Callable[..., Any]) -> int:
    counted = 0
    while True:
        page = ask(offset=counted)
        counted += len(_listed(page))
        if not page["has_more"]:
            return counted


@cache
def _class_of_whole(category: str, type_name: str) -> type[ObjectOfWhole]:
    """Return the class of objects of that category and type, whichever member has them."""
    known = tree.types_of(category)
    kind = tree.class_of(category, type_name if type_name in known else known[0])[1]
    return cast("type[ObjectOfWhole]", type(f"{kind.__name__}OfWhole", (ObjectOfWhole, kind), {}))


def _added(kind: type[ManagedObject], field: str, values: Sequence[Any]) -> Any:
    """Return a field of an object that is in several places: numbers of things are added, of others it is the largest."""
    there = [each for each in values if each is not None]
    declared = statistics_of(kind).get(field)
    if not there or isinstance(there[0], (bool, str)) or declared is None:
        return there[0] if there else None
    if isinstance(there[0], (int, float)):
        return sum(there) if declared.unit in _ADDED_UNITS else max(there)
    return _added_results(there)


def _added_results(results: Sequence[Any]) -> Any:
    """Return the results of an operation in several places as one: numbers are added, lists are joined."""
    first = results[0]
    if isinstance(first, bool):
        return any(results)
    if isinstance(first, (int, float)):
        return sum(results)
    if isinstance(first, list):
        return [each for result in results for each in result]
    if isinstance(first, dict):
        names = dict.fromkeys(name for each in results for name in each)
        return {name: _added_results([each[name] for each in results if name in each]) for name in names}
    return first
