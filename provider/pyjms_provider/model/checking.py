"""Validation of a configuration without running it; all problems are reported together.

Objects are made and validated as they would be when the broker starts, down to virtual hosts whose node keeps them in a
JSON file; but no port is opened, no message store and no database, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import ProviderError
from pyjms_provider.model import tree
from pyjms_provider.model.attributes import resolve
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.configuration.json_file import JsonConfigurationStore, find_same_ids
from pyjms_provider.model.configuration.writer import reveal
from pyjms_provider.model.configured import ConfiguredObject
from pyjms_provider.model.errors import InvalidAttributesError, Problem
from pyjms_provider.model.managed import Phase
from pyjms_provider.model.port import Port, PortAttributes
from pyjms_provider.model.queue import QueueAttributes
from pyjms_provider.model.queue_policy import policy_errors_as_attribute_errors, policy_of
from pyjms_provider.model.virtual_host_node import JsonNodeAttributes, VirtualHostNode
from pyjms_provider.security.secrets import SecretBox, SecretError
from pyjms_provider.stores.opening import check_scheme

if TYPE_CHECKING:
    from pyjms_provider.stores.configuration_contract import ObjectRecord

_HARMLESS: Final = frozenset({"key_store", "trust_store", "authentication_provider", "access_control"})
"""Categories whose opening only reads files."""
_STORED: Final = {"virtual_host": "store_url", "virtual_host_node": "url"}
"""The categories with a store, and the attribute that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a configuration."""

    source: str
    """The object's place in the configuration: ``broker.toml, line 12``."""
    path: str
    """The object: ``port stomp``."""
    attribute: str
    """Its attribute; empty: the object as a whole."""
    text: str
    """The problem, and its remedy."""


def check_configuration(
    records: Sequence[ObjectRecord], context: Mapping[str, str], secrets: SecretBox | None = None
) -> list[Finding]:
    """Return the problems of the records of a configuration store.

    `context`: the variables of the system; `secrets`: decrypts secret attributes, None: there is no key.
    """
    system = SystemConfig(context=context)
    check = _Check(secrets)
    try:
        # Only this phase: opening the root would lock the store, and start the objects that are only checked here.
        system._resolve()
        check.whole(system, records)
    finally:
        system.close()
    return check.findings


def _overlap(one: str, other: str) -> bool:
    """Return whether two addresses overlap, so that both cannot use one port number. Host names are not resolved."""
    try:
        # Addresses only: resolving names could take long, and may differ on another machine.
        first, second = ip_address(one), ip_address(other)
    except ValueError:
        return one == other
    return first == second or (first.version == second.version and (first.is_unspecified or second.is_unspecified))


def _check_store(managed: ConfiguredObject) -> None:
    """Check that a store of the kind that the object names is installed. Raises `InvalidAttributesError`."""
    name = _STORED[managed.category]
    url = getattr(managed.attributes, name, None)
    if url is None:
        return
    try:
        check_scheme(url)
    except ProviderError as error:
        raise InvalidAttributesError(managed.path, (Problem(name=name, text=error.reason),)) from error


class _Check:
    """Walks down the tree, and collects the problems."""

    def __init__(self, secrets: SecretBox | None) -> None:
        self._secrets = secrets
        self._numbers: list[tuple[str, int, str]] = []
        """Host, number and path of the ports checked so far."""
        self.findings: list[Finding] = []

    def whole(self, above: ConfiguredObject, records: Sequence[ObjectRecord]) -> None:
        """Check all records of one store."""
        for record, problem in find_same_ids(records):
            path = f"{record.category} {record.name}"
            self.findings.append(Finding(source=record.source, path=path, attribute="", text=problem))
        self.below(above, [each for each in records if each.parent is None], records)

    def below(self, above: ConfiguredObject, tops: Sequence[ObjectRecord], records: Sequence[ObjectRecord]) -> None:
        """Check the objects `tops` below `above`, and all below them."""
        for record in sorted(tops, key=lambda each: tree.opening_order(each.category)):
            managed = self._look(above, record)
            if managed is not None:
                self.below(managed, [each for each in records if each.parent == record.id], records)
                self._follow(managed)

    def _look(self, above: ConfiguredObject, record: ObjectRecord) -> ConfiguredObject | None:
        path = f"{record.category} {'/'.join((*above.names, record.name))}"
        record = self._revealed(record, path)
        try:
            if record.category == "queue":
                self._judge_queue(above, record, path)
                return None
            _, kind = tree.class_of(record.category, str(record.attributes.get("type", "")) or None)
        except ProviderError as error:
            self._note(record, path, error)
            return None
        if not issubclass(kind, ConfiguredObject):
            return None
        managed = self._resolved(kind, above, record)
        if managed.snapshot.attributes is not None:
            self._judge(managed, record, path)
        try:
            # Registered although it is wrong: references to it must not be reported as missing, too.
            managed._run_phase(Phase.REGISTER)
        except ProviderError as error:
            self._note(record, path, error)
        return managed

    def _revealed(self, record: ObjectRecord, path: str) -> ObjectRecord:
        """Return a record with its secrets decrypted, without those that cannot be decrypted."""
        sealed = [
            name
            for name, value in record.attributes.items()
            if isinstance(value, str) and SecretBox.is_encrypted(value)
        ]
        if not sealed:
            return record
        reason = "is encrypted, and there is no key file; put it back, or enter the secret again"
        if self._secrets is not None:
            try:
                return reveal(record, self._secrets)
            except SecretError as error:
                reason = error.reason
        self.findings += [Finding(source=record.source, path=path, attribute=name, text=reason) for name in sealed]
        rest = {name: value for name, value in record.attributes.items() if name not in sealed}
        return replace(record, attributes=rest)

    def _judge_queue(self, above: ConfiguredObject, record: ObjectRecord, path: str) -> None:
        """Check a queue, as its virtual host would create it."""
        own = record.attributes.get("context")
        # A queue sees only contexts, as when its virtual host makes it; the environment is not open to it.
        known = {"this:name": record.name, **(own if isinstance(own, Mapping) else {})}

        def variable(name: str) -> str | None:
            return known.get(name) or above.variable_below(name, record.name)

        found = resolve(QueueAttributes, record.attributes, variable, path)
        assert isinstance(found, QueueAttributes)
        with policy_errors_as_attribute_errors(path):
            policy_of(found, path).check_for(found.name)

    def _judge(self, managed: ConfiguredObject, record: ObjectRecord, path: str) -> None:
        try:
            managed._run_phase(Phase.VALIDATE)
            if record.category in _HARMLESS:
                # These only read files when they are opened, and a file that cannot be used is a finding.
                managed._run_phase(Phase.ON_OPEN)
            if isinstance(managed, Port):
                managed.listener_settings()
                self._judge_number(managed)
            if record.category in _STORED:
                _check_store(managed)
        except (ProviderError, OSError) as error:
            self._note(record, path, error)

    def _judge_number(self, port: Port) -> None:
        """Refuse a port's number that an earlier port has. Raises `InvalidAttributesError`."""
        found = port.attributes
        assert isinstance(found, PortAttributes)
        # 0 lets the system choose, so two of them do not collide.
        if found.port == 0:
            return
        for host, number, path in self._numbers:
            if number == found.port and _overlap(host, found.host):
                text = f"{number} is the number of {path}, too; choose another one, or 0 for any that is free"
                raise InvalidAttributesError(port.path, (Problem(name="port", text=text),))
        self._numbers.append((found.host, found.port, port.path))

    def _resolved(
        self, kind: type[ConfiguredObject], above: ConfiguredObject, record: ObjectRecord
    ) -> ConfiguredObject:
        """Return the object without its wrong attributes, so that the other ones are checked too."""
        managed = kind(above, record)
        try:
            managed._run_phase(Phase.RESOLVE)
        except InvalidAttributesError as error:
            self._note(record, managed.path, error)
            wrong = {each.name.partition(".")[0] for each in error.problems} - {"name", "type"}
            rest = {name: value for name, value in record.attributes.items() if name not in wrong}
            managed = kind(above, replace(record, attributes=rest))
            # A mandatory attribute is missing.
            with suppress(InvalidAttributesError):
                managed._run_phase(Phase.RESOLVE)
        return managed

    def _follow(self, managed: ConfiguredObject) -> None:
        """Check the records in a node's own file, or the virtual host that its attributes describe."""
        if not isinstance(managed, VirtualHostNode) or managed.snapshot.attributes is None:
            return
        found = managed.attributes
        if not isinstance(found, JsonNodeAttributes) or not Path(found.path).exists():
            # The file is made at the first start.
            given = managed.given_host()
            if given is not None:
                self.below(managed, [given], [given])
            return
        try:
            records = JsonConfigurationStore(found.path).read()
        except ProviderError as error:
            self._note(managed.snapshot.record, managed.path, error)
        else:
            key_file = Path(f"{found.path}.key")
            outer, self._secrets = self._secrets, SecretBox.open(key_file) if key_file.exists() else None
            self.whole(managed, records)
            # Each node has a key of its own beside its file.
            self._secrets = outer

    def _note(self, record: ObjectRecord, path: str, error: Exception) -> None:
        if isinstance(error, InvalidAttributesError):
            self.findings += [
                Finding(source=record.source, path=path, attribute=each.name, text=each.text) for each in error.problems
            ]
            return
        text = error.reason if isinstance(error, ProviderError) else str(error)
        self.findings.append(Finding(source=record.source, path=path, attribute="", text=text))
