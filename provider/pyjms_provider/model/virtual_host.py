"""A virtual host: one name space of destinations, with its messages; it owns a running `EmbeddedBroker`.

The host owns its queues. `queue.QueueSource` stores those that an operator made, and attributes that a queue's policy
cannot hold; the view of a queue is made on demand.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError
from pyjms.spi.words import counted
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.core.host.host_policy import ExpiredInTransaction, HostPolicy
from pyjms_provider.core.policy import PolicyError, QueuePolicies
from pyjms_provider.core.queue.channel_state import Reliability
from pyjms_provider.model.attributes import Attributes, ByteCount, Reached, Secret, attribute, with_password
from pyjms_provider.model.clustered import (
    ClusterAtLeader,
    ClusterAttributes,
    Clustered,
    Membership,
    Shard,
    ShardCrossing,
    cluster_problems,
    cluster_settings,
)
from pyjms_provider.model.configuration_thread import ConfigurationThread
from pyjms_provider.model.configured import Stoppable
from pyjms_provider.model.errors import InvalidAttributesError, NotChangeableError, ObjectInUseError, WrongStateError
from pyjms_provider.model.host_views import host_sources
from pyjms_provider.model.managed import Phase, State
from pyjms_provider.model.member_requests import LINK
from pyjms_provider.model.messages import MessageRenderer, MessageView
from pyjms_provider.model.metrics_sampler import AlertNotifier, MetricsSampler, PastView, Since, past_view
from pyjms_provider.model.operations import (
    EVERYTHING,
    NO_PROGRESS,
    Permissions,
    Progress,
    StatisticKind,
    operation,
    statistic,
)
from pyjms_provider.model.queue import QueueSource, chosen
from pyjms_provider.model.queue_policy import PolicyPattern, policy_reaches, read_policy
from pyjms_provider.model.stories import StoryAttributes, StoryTelling, story_settings
from pyjms_provider.queue_manager import QueueManager, UnknownQueueError
from pyjms_provider.security.contracts import Operation, Target, TargetKind
from pyjms_provider.settings import Acknowledge, BrokerSettings, PagingSettings, StandBy, StoreSettings, Synchronous

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms.spi.errors import ProviderError
    from pyjms_provider.cluster.contracts import Cluster
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.model.contracts import Crossing
    from pyjms_provider.model.managed import ChildSource, ManagedObject
    from pyjms_provider.stores.configuration_contract import ObjectId, ObjectRecord


_LEADERS_MS: Final = 10_000


class VirtualHostAttributes(ClusterAttributes, StoryAttributes):
    """The attributes of a virtual host. Alerts and the last hour follow a change at once, all others at the next opening."""

    store_url: str | None = attribute(
        "Where messages are kept: the URL of a store, without a password; none: in memory.", default=None, mutable=False
    )
    store_password: Secret | None = attribute("The password for the store.", default=None, secure=True)
    synchronous: Synchronous = attribute("How far a write has got when a send returns.", default="full")
    acknowledge: Acknowledge = attribute("The same for writes that only acknowledge.", default="written")
    stand_by: StandBy = attribute("What to do while another broker holds the store.", default="refuse")
    store_wait_ms: int = attribute(
        "How long to wait, when it is opened, for a store's server that cannot be reached; 0: it is ERRORED at once.",
        default=0,
        unit="ms",
        ge=0,
    )
    memory_bytes: ByteCount = attribute(
        "How much memory bodies may take before they wait on the disk.", default="200MB", unit="bytes", ge=1_000_000
    )
    keep_free_bytes: ByteCount = attribute(
        "While less is left on the disk of a store's file, messages are refused, so that others can be acknowledged; without a store "
        "those beyond memory are.",
        default="16MB",
        unit="bytes",
        ge=0,
    )
    paging_directory: str | None = attribute(
        "Without a store: where the temporary file of messages beyond memory_bytes is made; none: TMPDIR, or /var/tmp.",
        default=None,
    )
    paging_limit_bytes: ByteCount = attribute(
        "How much these messages may take; beyond it messages are refused; 0: what the disk has.",
        default=0,
        unit="bytes",
        ge=0,
    )
    reliability: Reliability = attribute(
        "What becomes of PERSISTENT messages where there is no store: memory accepts them, strict refuses them with an error.",
        default="memory",
    )
    expired_in_transaction: ExpiredInTransaction = attribute(
        "What becomes of a transaction when a message in it expires.", default="rollback"
    )
    branch_timeout_ms: int = attribute(
        "After which a branch that is not prepared is rolled back; 0: never.", default=300_000, unit="ms", ge=0
    )
    transaction_timeout_ms: int = attribute(
        "After which a transaction that somebody left open is rolled back; 0: never.", default=0, unit="ms", ge=0
    )
    persist_all: bool = attribute(
        "Whether every message is PERSISTENT, whatever its sender and its queue say; NON_PERSISTENT senders are logged and counted.",
        default=False,
    )
    keep_transient: bool | None = attribute(
        "Whether NON_PERSISTENT messages are written to the store as well, without waiting for the disk, so that they survive the end of "
        "the broker's process; none: if the host has a cluster.",
        default=None,
    )
    create_on_demand: bool = attribute(
        "Whether network clients create queues by using them; else it is an error to use one that is not there.",
        default=True,
    )
    registered_clients_max: int = attribute(
        "The most clients that may be registered with persistent sessions.", default=10_000, unit="clients", ge=0
    )
    forget_clients_ms: int = attribute(
        "After which a registered client that has no connection is forgotten, with its tags; 0: never.",
        default=0,
        unit="ms",
        ge=0,
    )
    redelivery_back_off_ms: int = attribute(
        "How long a message stays away before its third delivery, doubled before each further one up to 5 s, in queues that have "
        "no redelivery_delay_ms; 0: not at all.",
        default=100,
        unit="ms",
        ge=0,
        le=3_600_000,
    )
    queue_defaults: dict[str, Any] = attribute("The policy of queues that have none of their own.", default={})
    subscription_defaults: dict[str, Any] = attribute("The same for subscriptions of topics.", default={})
    queue_patterns: list[PolicyPattern] = attribute(
        "Policies by name, as a glob, or after topic:// for subscriptions; the first that matches counts.", default=[]
    )

    alert_messages: int = attribute(
        "So many messages in a queue that says nothing itself raise an alert; 0: none.",
        default="${pyjms.alert.messages}",
        unit="messages",
        ge=0,
    )
    alert_bytes: ByteCount = attribute(
        "The same for about how many bytes they take.", default="${pyjms.alert.bytes}", unit="bytes", ge=0
    )
    alert_age_ms: int = attribute(
        "The same for the age of the oldest message that waits or is held.",
        default="${pyjms.alert.age_ms}",
        unit="ms",
        ge=0,
    )
    alert_message_bytes: ByteCount = attribute(
        "The same for about how many bytes one message takes.",
        default="${pyjms.alert.message_bytes}",
        unit="bytes",
        ge=0,
    )
    alert_repeat_gap_ms: int = attribute(
        "After which an alert that holds is told again; 0: it is not.",
        default="${pyjms.alert.repeat_gap_ms}",
        unit="ms",
        ge=0,
    )
    history_queues: int = attribute(
        "So many queues, the busiest, have the last hour kept; each takes 14 kB.", default=100, ge=0, le=10_000
    )

    def reaches(self) -> Iterator[Reached]:
        for policy in (
            self.queue_defaults,
            self.subscription_defaults,
            *(each.policy for each in self.queue_patterns),
        ):
            yield from policy_reaches(policy)


class FoundMessage(BaseModel):
    """A message, and where it waits."""

    queue: str
    message: MessageView


class VirtualHost(Clustered, StoryTelling, Stoppable):
    """A virtual host, whose broker runs while it is ACTIVE."""

    category = "virtual_host"
    attributes_class = VirtualHostAttributes

    def __init__(self, parent: ManagedObject | None, record: ObjectRecord, shard: Shard | None = None) -> None:
        """`shard`: the shard of a cluster that it shows; None: it is configured."""
        super().__init__(parent, record)
        self.shard = shard
        # A thread of its own: opening a large store may take minutes, and other hosts must be changeable meanwhile.
        self._thread = ConfigurationThread(f"virtual host {self.name}", self.clock)
        self._broker: EmbeddedBroker | None = None
        self._cancelled = Signal()
        self._adopted: EmbeddedBroker | None = getattr(self.root, "adopted", None) if shard is None else shard.broker
        self._membership: Membership | None = None
        self.queues = QueueSource(self)
        self._sampler: MetricsSampler | None = None
        self._sources: Mapping[str, ChildSource] = {"queue": self.queues, **host_sources(self)}

    @property
    def configuration_thread(self) -> ConfigurationThread:
        return self._thread

    @property
    def as_object(self) -> ManagedObject:
        """The host as the parent of other objects."""
        return self

    @property
    def embedded(self) -> EmbeddedBroker:
        """The running broker. Raises `WrongStateError` while there is none."""
        broker = self._broker
        if broker is None:
            raise WrongStateError(f"{self.path} is {self.state.value}: it does not run; start it")
        return broker

    @property
    def queue_manager(self) -> QueueManager:
        """The operations on its queues. Raises `WrongStateError` while it does not run."""
        return QueueManager(self.embedded.virtual_host)

    @property
    def is_running(self) -> bool:
        """Whether there is a running broker."""
        return self._broker is not None

    @property
    def access_name(self) -> str:
        """Its name in access rules: that of the clustered virtual host for a shard."""
        return self.name if self.shard is None else self.shard.host.name

    def broker_with(self, address: Address) -> EmbeddedBroker | None:
        """Return the running broker of this process that has a queue or a topic; None: another member has it, or the host does not run."""
        membership = self._membership
        return self._broker if membership is None else membership.broker_with(address)

    def crossing_to(self, queue: str) -> Crossing | None:
        """Return how messages come from the queues of this host to another queue that is in another shard; None: it is in this host."""
        shard = self.shard
        is_here = shard is None or shard.has_queue(queue)
        return None if shard is None or is_here else ShardCrossing(shard)

    def joined_as_leader(self, address: Address) -> Cluster | None:
        """Return the cluster for what runs where its destination is, which reaches that destination here alone; None: it is in none."""
        membership = self._membership
        return None if membership is None else ClusterAtLeader(membership.member, address)

    def target(self) -> Target:
        return Target(kind=TargetKind.VIRTUAL_HOST, name=self.access_name, virtual_host=self.access_name)

    @property
    def is_shown_elsewhere(self) -> bool:  # type: ignore[override]  # a shard may be one, others never are
        """Whether it is a shard: what is below it is below the clustered host, too."""
        return self.shard is not None

    def sources(self) -> Mapping[str, ChildSource]:
        membership = self._membership
        return self._sources if membership is None else {**self._sources, **membership.whole.sources}

    def own_sources(self) -> Mapping[str, ChildSource]:
        """Return the sources of the objects of its own broker, which is the front of this member where it is clustered."""
        return self._sources

    # For its queues; on the configuration thread

    @property
    def keeps_queues(self) -> bool:
        """Whether its store keeps its queues and their policies."""
        return self._broker is not None and self._broker.virtual_host.storage is not None

    def write_record(self, record: ObjectRecord) -> None:
        """Store a queue's record in the node's configuration. Raises `StoreError`."""
        self._write(lambda writer: writer.put(record))

    def remove_record(self, object_id: ObjectId) -> None:
        """Remove a queue's record from the node's configuration. Raises `StoreError`."""
        self._write(lambda writer: writer.drop(object_id))

    # The hooks

    def _validate(self, new: Attributes, old: Attributes | None) -> None:
        assert isinstance(new, VirtualHostAttributes)
        if new.store_url is not None:
            self._check_shown("store_url", new.store_url, "store_password")
        problems = tuple(cluster_problems(new, new.store_url))
        if problems:
            raise InvalidAttributesError(self.path, problems)
        policies = self._policies(new)
        if self.shard is None:
            self._check_partitions(new, policies)

    def _policies(self, chosen: VirtualHostAttributes) -> QueuePolicies:
        read = partial(read_policy, where=self.path)
        patterns = tuple(
            (each.pattern, read(each.policy, attribute_name=f"queue_patterns.{number}.policy"))
            for number, each in enumerate(chosen.queue_patterns)
        )
        try:
            return QueuePolicies(
                default=read(chosen.queue_defaults, attribute_name="queue_defaults"),
                subscriptions=read(chosen.subscription_defaults, attribute_name="subscription_defaults"),
                patterns=patterns,
            )
        except PolicyError as error:
            # The core's error names no attribute, so its text tells which of the two is wrong.
            name = "subscription_defaults" if error.reason.startswith("subscriptions:") else "queue_patterns"
            raise self._wrong(name, error.reason) from error

    def _check_partitions(self, chosen: VirtualHostAttributes, policies: QueuePolicies) -> None:
        """Refuse partitions where there is no cluster, and more than it has shards. Raises `InvalidAttributesError`."""
        named = [("queue_defaults", policies.default)]
        named += [(f"queue_patterns.{at}.policy", policy) for at, (_, policy) in enumerate(policies.patterns)]
        for name, policy in named:
            shards = chosen.cluster_shards
            if policy.partitions > 1 and chosen.cluster is None:
                text = "needs a cluster, which alone divides queues: name that, or leave partitions out"
            elif shards is not None and policy.partitions > shards:
                text = (
                    f"is more than cluster_shards, which is {shards}: each shard has one partition of a queue at most"
                )
            else:
                continue
            raise self._wrong(name, f"partitions is {policy.partitions}, and {text}")

    @property
    def _chosen(self) -> VirtualHostAttributes:
        found = self.attributes
        assert isinstance(found, VirtualHostAttributes)
        return found

    def _settings(self) -> BrokerSettings:
        chosen = self._chosen
        policy = HostPolicy(
            expired_in_transaction=chosen.expired_in_transaction,
            reliability=chosen.reliability,
            branch_timeout_ms=chosen.branch_timeout_ms,
            transaction_timeout_ms=chosen.transaction_timeout_ms,
            persist_all=chosen.persist_all,
            keep_transient=chosen.cluster is not None if chosen.keep_transient is None else chosen.keep_transient,
            create_on_demand=chosen.create_on_demand,
            registered_clients_max=chosen.registered_clients_max,
            forget_clients_ms=chosen.forget_clients_ms,
            back_off_ms=chosen.redelivery_back_off_ms,
            queues=self._policies(chosen),
        )
        node = "" if self.parent is None else self.parent.name
        story = story_settings(chosen, node, self.name)
        if chosen.store_url is None:
            paging = PagingSettings(
                memory_bytes=chosen.memory_bytes,
                directory=None if chosen.paging_directory is None else Path(chosen.paging_directory),
                limit_bytes=chosen.paging_limit_bytes,
                keep_free_bytes=chosen.keep_free_bytes,
            )
            return BrokerSettings(policy=policy, paging=paging, story=story)
        store = StoreSettings(
            url=with_password(chosen.store_url, chosen.store_password),
            synchronous=chosen.synchronous,
            acknowledge=chosen.acknowledge,
            stand_by=chosen.stand_by,
            memory_bytes=chosen.memory_bytes,
            keep_free_bytes=chosen.keep_free_bytes,
            wait_ms=chosen.store_wait_ms,
        )
        return BrokerSettings(policy=policy, store=store, story=story)

    def _on_open(self) -> None:
        # A broker that runs already, as of `manage`: it keeps its own settings, and is not stopped with this object.
        if self._adopted is not None:
            self._broker = broker = self._adopted
        elif self._chosen.cluster is not None:
            self._membership = self._join()
            self._broker = broker = self._membership.member.front
        else:
            broker = EmbeddedBroker(self.name, self.clock, self._settings(), cancelled=self._cancelled)
            self._broker = broker
        # The broker is known already, so that `_on_stop` ends it if what follows fails.
        notifier = AlertNotifier(self.path, self.names, broker)
        self._sampler = MetricsSampler(broker, notifier, self.queues, lambda: self.history_queues)
        self._sampler.start()
        if self._membership is not None:
            self._membership.begin()
        # Last: the loss of the store may be reported at once, and ends what was made above.
        if self.shard is None:  # a shard that is lost disappears
            broker.when_store_lost(partial(self._on_store_lost, broker))

    def _on_store_lost(self, broker: EmbeddedBroker, error: ProviderError) -> None:
        lose = partial(self._thread.submit, partial(self._fail_without_store, broker, error))
        # The broker is ending anyway.
        with suppress(ClosedError):
            # By way of the parent's thread: a host that is just being opened there becomes ACTIVE first.
            self._above.configuration_thread.submit(lose)

    def _fail_without_store(self, broker: EmbeddedBroker, error: ProviderError) -> None:
        """Become ERRORED, as the broker has lost its store; a start takes the store again, or waits for it."""
        if self._broker is not broker or self.state is not State.ACTIVE:
            # The host was stopped meanwhile, and perhaps started again with another broker.
            return
        # Even if an object fails to end, the broker must not serve any more.
        with ExitStack() as ends:
            ends.callback(self._fail, error, "has lost its store")
            ends.callback(self._on_stop)
            self._put_children_away()

    def _open_pending(self) -> None:
        # The queues first, all at once: routes and workflows below may use them as soon as they are opened.
        self.queues.restore([record for record in self.pending if record.category == "queue"])
        self.pending = tuple(record for record in self.pending if record.category != "queue")
        super()._open_pending()

    def _on_stop(self) -> None:
        # The sampler refers to the broker, and would keep all its messages in memory.
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()
        broker, self._broker = self._broker, None
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.end()
        elif broker is not None and broker is not self._adopted:
            broker.stop()

    def _put_children_away(self) -> None:
        try:
            super()._put_children_away()
        finally:
            self.pending = (*self.pending, *self.queues.put_away())

    # A cluster and its shards

    def _join(self) -> Membership:
        """Join the cluster. Waits for the database. Raises `ClusterError`, `ResourceError`, `WrongStateError`."""
        join = self.services.join_cluster
        if join is None:
            raise WrongStateError(f"{self.path} cannot be opened: this process joins no cluster")
        settings = cluster_settings(self, self._chosen, self._settings())
        member = join(settings, self.clock, self._cancelled)
        # So that ports open when clients are served; they wait themselves for a shard that has no leader then.
        member.await_leaders(_LEADERS_MS)
        return Membership(self, member, self._make_shard)

    def _make_shard(self, record: ObjectRecord, shard: Shard) -> VirtualHost:
        return VirtualHost(self.parent, record, shard)

    def _create_child(self, category: str, attributes: dict[str, Any], by: str) -> ManagedObject:
        name = str(attributes.get("name", ""))
        if self.shard is not None:
            self.shard.check_child(self.path, category, name)
        return super()._create_child(category, attributes, by)

    def _check_configured(self) -> None:
        """Refuse to change a shard. Raises `NotChangeableError`."""
        if self.shard is not None:
            raise NotChangeableError(
                f"{self.path} is shard {self.shard.number} of {self.shard.host.path}, and is here while this member leads it; change that host"
            )

    def _set_attributes(self, changes: dict[str, Any], by: str) -> None:
        self._check_configured()
        super()._set_attributes(changes, by)

    def _begin_deletion(self, by: str) -> None:
        self._check_configured()
        super()._begin_deletion(by)

    def _start(self, by: str) -> None:
        self._check_configured()
        super()._start(by)

    def _stop(self, by: str) -> None:
        self._check_configured()
        super()._stop(by)

    def kept_below(self) -> Sequence[ObjectRecord]:
        return (*self.pending, *self.queues.kept_records())

    def _check_deletable(self) -> None:
        if self.is_running and self.connection_count:
            raise ObjectInUseError(f"{self.path} has {counted(self.connection_count, 'connection')}; stop it first")

    def _undo_creation(self, done: Sequence[Phase]) -> None:
        try:
            super()._undo_creation(done)
        finally:
            # A host that was never created has no later moment at which its thread could end.
            self._thread.stop()

    def _end_for_good(self) -> None:
        super()._end_for_good()
        self._thread.stop()

    def close(self) -> None:
        # The opening of a host that is not open yet is cancelled, which is no failure.
        self._failure_level = logging.INFO
        # The host may be waiting for another broker to release the store.
        self._cancelled.set()
        try:
            super().close()
        finally:
            self._thread.stop()

    # Metrics

    @property
    def sampler(self) -> MetricsSampler:
        """The sampler of its queues. Raises `WrongStateError` while it does not run."""
        sampler = self._sampler
        if sampler is None or self._broker is None:
            raise WrongStateError(f"{self.path} is {self.state.value}: it does not run; start it")
        return sampler

    @property
    def history_queues(self) -> int:
        """The number of queues that have a time series."""
        chosen = self.snapshot.attributes
        return chosen.history_queues if isinstance(chosen, VirtualHostAttributes) else 0

    # Operations

    @operation(
        "Return the last hour of all queues together, a point each ten seconds.",
        needs=Operation.OBSERVE,
        changes=False,
    )
    def history(self, since_ms: Since = 0) -> PastView:
        return past_view(self.sampler.past(since_ms))

    @operation("Find messages by their ids, in all queues that you may browse.", needs=Operation.OBSERVE, changes=False)
    def find_messages(
        self,
        message_ids: Annotated[list[str], Field(min_length=1, max_length=100, description="The ids.")],
        *,
        with_bodies: Annotated[bool, Field(description="Whether bodies are wanted.")] = False,
        progress: Progress = NO_PROGRESS,
        permissions: Permissions = EVERYTHING,
    ) -> list[FoundMessage]:
        """Return the messages that no consumer holds, each with its queue; queues are searched one after the other.

        Properties tell as much as bodies do, so queues that the caller may not browse are skipped.
        """
        membership = self._membership
        if membership is not None:
            given = {"message_ids": message_ids, "with_bodies": with_bodies}
            everywhere = [
                FoundMessage(**each) for each in membership.whole.invoke_all("find_messages", given, progress)
            ]
            names = permissions(
                Operation.BROWSE, TargetKind.QUEUE, self.access_name, sorted({each.queue for each in everywhere})
            )
            return [each for each in everywhere if each.queue in names]
        # All names at once, as a policy with groups and patterns is costly to ask ten thousand times.
        names = permissions(Operation.BROWSE, TargetKind.QUEUE, self.access_name, self.queues.names())
        found: list[FoundMessage] = []
        renderer = MessageRenderer(with_bodies=with_bodies)
        for number, name in enumerate(names):
            if not progress(number, len(names)):
                break
            # The queue was deleted meanwhile.
            with suppress(UnknownQueueError):
                messages = self.queues.manager.browse(name, chosen(None, message_ids))
                found += [FoundMessage(queue=name, message=renderer.message(each)) for each in messages]
        return found

    @operation("Settle a transaction that is in doubt, in place of its coordinator, whose log is to be asked first.")
    def settle(
        self,
        transaction: Annotated[str, Field(description="Its name: FORMAT:GLOBAL:BRANCH.")],
        outcome: Annotated[Literal["commit", "rollback", "forget"], Field(description="What to do.")],
        *,
        by: str = "",
    ) -> None:
        """Settle it heuristically, or forget it. Raises `UnknownObjectError`, `BranchError`."""
        self.child("transaction", transaction).invoke(outcome, {}, by=by)

    # Statistics

    @statistic("How many clients are connected.", unit="connections")
    def connection_count(self) -> int:
        # Those of other members, and of this one to its shards, are no clients.
        clients = {} if self._broker is None or self.shard is not None else self._broker.clients()
        return sum(each.protocol != LINK for each in clients.values())

    @statistic("How many queues there are.", unit="queues")
    def queue_count(self) -> int:
        return 0 if self._broker is None else len(self._broker.virtual_host.queue_names())

    @statistic("How many queues have alerts now.", unit="queues")
    def alert_count(self) -> int:
        return 0 if self._broker is None else len(self.sampler.book.holding)

    @statistic("Whether PERSISTENT messages can be kept now, as far as is known; without a store: always.")
    def takes_messages(self) -> bool:
        return self._broker is not None and self._trouble is None

    @statistic("Why PERSISTENT messages cannot be kept now; none: nothing is known to be in the way.")
    def store_trouble(self) -> str | None:
        return self._trouble

    @statistic("Writes that its store refused, or did not answer.", unit="writes", kind=StatisticKind.COUNTER)
    def failed_writes(self) -> int:
        journal = self._journal
        return 0 if journal is None else journal.failed_writes

    @statistic(
        "Messages that were sent NON_PERSISTENT, which persist_all ignores, since the broker started.",
        unit="messages",
        kind=StatisticKind.COUNTER,
    )
    def ignored_delivery_modes(self) -> int:
        ignored = None if self._broker is None else self._broker.virtual_host.ignored_modes
        return 0 if ignored is None else ignored.count

    @property
    def _journal(self) -> Journal | None:
        storage = None if self._broker is None else self._broker.virtual_host.storage
        return None if storage is None else storage.journal

    @property
    def _trouble(self) -> str | None:
        journal, membership = self._journal, self._membership
        if membership is not None:
            return membership.member.trouble
        return None if journal is None else journal.trouble

    @statistic("How many reader groups there are.", unit="groups")
    def reader_group_count(self) -> int:
        return 0 if self._broker is None else len(self._broker.virtual_host.pipelines.groups.groups())

    @statistic("Messages that reader groups hold, which no other consumer gets.", unit="messages")
    def held_by_groups(self) -> int:
        groups = [] if self._broker is None else self._broker.virtual_host.pipelines.groups.groups()
        return sum(group.high - group.low for group in groups)

    @statistic("How many staged units wait for their epoch.", unit="units")
    def staged_unit_count(self) -> int:
        return 0 if self._broker is None else len(self._broker.virtual_host.pipelines.stages.units())

    @statistic("How many clients are registered with persistent sessions.", unit="clients")
    def registered_client_count(self) -> int:
        return 0 if self._broker is None else len(self._broker.virtual_host.clients.reports())

    @statistic("How many messages are kept, each counted once.", unit="messages")
    def message_count(self) -> int:
        return 0 if self._broker is None else len(self._broker.virtual_host.store)
