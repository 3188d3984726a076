"""Properties: setters and getters, names, what travels, clear_properties, JMSX names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tck.broken.mutation import Change, Mutant, body, edit, mutant

__all__ = ["MUTANTS"]

_P = "pyjms.messages.base:Properties."
_STORE = "pyjms.messages.conversion:"
_THAW = "pyjms.messages.freeze:thaw"
_INFO = "pyjms_provider.clients.vm:VmConnection.info.fget"


def _listing(names: str) -> Change:
    """Let the metadata list `names`, an expression over the right `info`."""
    return body(
        _INFO,
        "from dataclasses import replace\n"
        "info = embedded_broker_info()\n"
        f"return replace(info, jmsx_property_names={names})",
    )


def _values() -> Iterator[Mutant]:
    """One type whose values do not arrive as they were set."""
    changes = {
        "3.5.2-a": ("boolean", "get_boolean_property", "return not self._get(name)"),
        "3.5.2-b": ("byte", "get_byte_property", "return Byte(abs(self._get(name)) & 127)"),
        "3.5.2-c": ("short", "get_short_property", "return Short(int(self._get(name)) & 0x7FFF)"),
        "3.5.2-d": ("int", "get_int_property", "return Int(int(self._get(name)) & 0xFFFF)"),
        "3.5.2-e": ("long", "get_long_property", "return Long(int(float(self._get(name)) / 2))"),
        "3.5.2-f": ("float", "get_float_property", "return Float(max(-1e30, min(1e30, self._get(name))))"),
        "3.5.2-g": ("double", "get_double_property", "return Double(float(str(Float(self._get(name)))))"),
        "3.5.2-h": ("String", "get_string_property", "return (self._get(name) or '').strip()"),
    }
    for id, (kind, method, code) in changes.items():
        yield mutant(id, f"a {kind} property does not arrive as it was set", body(_P + method, code))


MUTANTS = (
    *_values(),
    mutant(
        "3.5.1-b",
        "a property may have an empty name",
        edit("pyjms.messages.base:check_property_name", "or not name", ""),
    ),
    mutant(
        "3.5.3-a",
        "only five properties travel",
        edit(_THAW, "= envelope.properties ", "= dict(list(envelope.properties.items())[:5]) "),
    ),
    mutant("3.5.3-a", "no property travels", edit(_THAW, "= envelope.properties ", "= {} ")),
    mutant(
        "3.5.3-b 7.3-j",
        "properties of a received message can be set",
        edit(_THAW, "message._properties_read_only = True", "message._properties_read_only = False"),
    ),
    mutant(
        "3.5.3-c",
        "a property whose value is null does not exist",
        edit(_P + "property_exists", "name in self._properties", "self._properties.get(name) is not None"),
    ),
    mutant(
        "3.5.5-a",
        "a list is stored as text",
        edit(
            _STORE + "store_property",
            "return store_object",
            "if isinstance(value, list): value = str(value)\n    return store_object",
        ),
    ),
    mutant(
        "3.5.5-a",
        "bytes are taken for a property",
        edit(_STORE + "store_property", "if isinstance(value, _NO_PROPERTIES)", "if False"),
    ),
    mutant(
        "3.5.5-b",
        "get_object_property gives every number as a long",
        body(
            _P + "get_object_property",
            "found = box(self._get(name))\nreturn Long(found) if isinstance(found, int) and not isinstance(found, bool) else found",
        ),
    ),
    mutant(
        "3.5.5-c",
        "get_object_property of an unknown name is the empty text",
        edit(_P + "get_object_property", "self._get(name)", "self._properties.get(name, '')"),
    ),
    mutant(
        "3.5.6-a",
        "the enumeration of names leaves out null values",
        edit(
            _P + "_names",
            "if is_shown(name) and",
            "if value is not None and is_shown(name) and",
        ),
    ),
    mutant(
        "3.5.6-a",
        "the enumeration of names lists header fields",
        edit(_P + "_names", "if self._delivery_count:", "yield 'JMSPriority'\n    if self._delivery_count:"),
    ),
    mutant(
        "3.5.7-a",
        "clear_properties keeps the properties",
        edit(_P + "clear_properties", "self._properties = {}", "self._properties = dict(self._properties)"),
    ),
    mutant(
        "3.5.7-a",
        "clear_properties keeps a received message read-only",
        edit(_P + "clear_properties", "self._properties_read_only = False", "pass"),
        edit(_P + "clear_properties", "self._settable = KNOWN_NAMES", "pass"),
    ),
    mutant(
        "3.5.7-b",
        "clear_properties clears JMSType",
        edit(_P + "clear_properties", "self._properties = {}", "self._properties = {}\n    self._type = None"),
    ),
    mutant(
        "3.5.7-b",
        "clear_properties clears the correlation id",
        edit(
            _P + "clear_properties", "self._properties = {}", "self._properties = {}\n    self._correlation_id = None"
        ),
    ),
    mutant(
        "3.5.8-a",
        "a property that was never set reads as the empty text",
        edit(
            _P + "get_string_property",
            "STRING.read(self._get(name), _WHAT, name)",
            "(STRING.read(self._get(name), _WHAT, name) if name in self._properties else '')",
        ),
    ),
    mutant(
        "3.5.9-a",
        "the metadata lists a name that is no JMSX name",
        _listing('("GroupID", *info.jmsx_property_names)'),
    ),
    mutant("3.5.9-b", "the metadata does not list JMSXGroupSeq", _listing("info.jmsx_property_names[:-1]")),
    mutant(
        "3.5.9-c",
        "JMSXGroupID does not travel",
        edit(
            _THAW,
            "= envelope.properties ",
            "= {name: value for name, value in envelope.properties.items() if name != 'JMSXGroupID'} ",
        ),
    ),
    mutant(
        "3.5.9-d",
        "JMSXGroupSeq does not travel",
        edit(
            _THAW,
            "= envelope.properties ",
            "= {name: value for name, value in envelope.properties.items() if name != 'JMSXGroupSeq'} ",
        ),
    ),
    mutant("3.5.9-e", "JMSXDeliveryCount counts from 0", edit(_THAW, "delivery.count", "delivery.count - 1")),
    mutant("3.5.9-e", "JMSXDeliveryCount is always 1", edit(_THAW, "delivery.count", "1")),
    mutant(
        "3.5.9-f",
        "setting a JMSX property of providers raises KeyError",
        edit(
            _P + "set_object_property",
            "return",
            "raise KeyError(name)",
        ),
    ),
)
