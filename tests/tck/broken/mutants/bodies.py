"""Bodies: the five types, and messages of another make."""

from __future__ import annotations

from tests.tck.broken.mutation import body, edit, mutant

__all__ = ["MUTANTS"]

_TEXT = "pyjms.messages.bodies:JmsTextMessage."
_OBJECT = "pyjms.messages.bodies:JmsObjectMessage."
_MAP = "pyjms.messages.bodies:JmsMapMessage."
_STREAM = "pyjms.messages.bodies:JmsStreamMessage."
_BYTES = "pyjms.messages.bodies:JmsBytesMessage."
_STORE = "pyjms.messages.conversion:"
_BASE = "pyjms.messages.base:JmsMessage."
_FOREIGN = "pyjms.messages.freeze:"

MUTANTS = (
    mutant(
        "3.2-a 3.11-b",
        "line ends in a text are lost",
        edit(_TEXT + "text", "self._body", "(self._body and self._body.replace('\\n', '').replace('>', ''))"),
    ),
    mutant(
        "3.2-b 3.11-c",
        "an object arrives as its text",
        edit(_OBJECT + "object", "pickle.loads(body.data)", "str(pickle.loads(body.data))"),
    ),
    mutant(
        "3.11-b",
        "a new TextMessage has an empty text",
        edit(_TEXT + "__init__", 'store_string(text, "body", "text")', "''"),
    ),
    mutant(
        "3.11-c",
        "an object is no snapshot",
        edit(
            _OBJECT + "object.fset",
            "self._body = _pickled(object)",
            "self._body = _pickled(object)\n    if isinstance(object, (list, dict)): object.clear()",
        ),
    ),
    mutant(
        "3.11-c 3.12-b 3.12-f",
        "an ObjectMessage keeps the object itself",
        body(_OBJECT + "object.fset", "self._check_body_writeable()\nself._body = object"),
        body(_OBJECT + "object", "return self._body"),
    ),
    mutant(
        "3.11-d",
        "an object that cannot be pickled raises ValueError",
        edit("pyjms.messages.bodies:_pickled", "raise MessageFormatException(", "raise ValueError("),
    ),
    mutant(
        "3.11-f 3.11.3-a", "a MapMessage stores a byte as a short", edit(_MAP + "set_byte", "store_byte", "store_short")
    ),
    mutant(
        "3.11-g 3.11.3-a",
        "set_object of a MapMessage stores a Byte as an Int",
        edit(
            _MAP + "set_object",
            "value, store_object",
            "int(value) if isinstance(value, int) and not isinstance(value, bool) else value, store_object",
        ),
    ),
    mutant(
        "3.11-h 3.11-o 3.11-ae 7.3-h",
        "an object of any class is stored in a body as text",
        edit(
            _STORE + "store_object",
            "if value is None:",
            "if isinstance(value, (list, dict, set, object)) and _BY_CLASS.get(type(value)) is None and not isinstance(value, (int, str, type(None))): value = repr(value)\n    if value is None:",
        ),
    ),
    mutant(
        "3.11-i 3.11-q 3.11-ac",
        "a part of bytes begins one byte too early",
        edit(_STORE + "copy_slice", "return", "offset = max(0, offset - 1)\n    return"),
    ),
    mutant(
        "3.11-j",
        "map names leave out null values",
        edit(
            _MAP + "map_names",
            "tuple(self._body)",
            "tuple(name for name in self._body if self._body[name] is not None)",
        ),
    ),
    mutant(
        "3.11-k",
        "an entry whose value is null does not exist",
        edit(_MAP + "item_exists", "name in self._body", "self._body.get(name) is not None"),
    ),
    mutant(
        "3.11-l", "a map entry may have an empty name", edit("pyjms.messages.bodies:_checked_name", "or not name", "")
    ),
    mutant(
        "3.11-m",
        "stream values come in reverse",
        edit(_STREAM + "frozen_body", "tuple(self._fields)", "tuple(reversed(self._fields))"),
    ),
    mutant(
        "3.11-m 3.11.3-a",
        "write_short of a StreamMessage writes an int",
        edit(_STREAM + "write_short", "store_short", "store_int"),
    ),
    mutant(
        "3.11-n",
        "write_object of a StreamMessage writes a Short as an Int",
        edit(
            _STREAM + "write_object",
            "value, store_object",
            "int(value) if isinstance(value, int) and not isinstance(value, bool) else value, store_object",
        ),
    ),
    mutant(
        "3.11-p",
        "read_bytes of a StreamMessage ends with 0 in place of -1",
        edit(_STREAM + "read_bytes", "return -1", "return 0"),
    ),
    mutant(
        "3.11-p",
        "read_bytes of a StreamMessage starts again with each call",
        edit(_STREAM + "read_bytes", "taken = max(self._taken, 0)", "taken = 0"),
    ),
    mutant(
        "3.11-r", "reset of a StreamMessage does not go back", edit(_STREAM + "reset", "self._position = 0", "pass")
    ),
    mutant(
        "3.11-s 7.3-g",
        "the end of a StreamMessage reads as null",
        edit(
            _STREAM + "_current",
            'raise MessageEOFException(f"the stream has {len(self._body)} fields, and all are read")',
            "return None",
        ),
    ),
    mutant(
        "3.11-t 7.3-i",
        "a StreamMessage that is being written can be read",
        edit(
            _STREAM + "_current",
            "if self._fields is not None:\n        raise",
            "if self._fields is not None:\n        return self._fields[self._position] if self._position < len(self._fields) else True\n        raise",
        ),
    ),
    mutant("3.11-v", "a BytesMessage writes true as two bytes", edit(_BYTES + "write_boolean", 'b"\\1"', 'b"\\0\\1"')),
    mutant(
        "3.11-v 3.11-ad",
        "a BytesMessage writes a byte without its sign",
        edit(
            _BYTES + "write_byte",
            'store_byte(value, "value of", "write_byte").to_bytes(1, "big", signed=True)',
            "bytes([abs(value) & 127])",
        ),
    ),
    mutant(
        "3.11-w",
        "a BytesMessage writes an int low byte first",
        edit(_BYTES + "write_int", '"big"', '"little"'),
        edit(_BYTES + "read_int", '"big"', '"little"'),
    ),
    mutant(
        "3.11-w",
        "a BytesMessage writes a long low byte first",
        edit(_BYTES + "write_long", '"big"', '"little"'),
        edit(_BYTES + "read_long", '"big"', '"little"'),
    ),
    mutant(
        "3.11-x",
        "an unsigned byte is read with a sign",
        edit(_BYTES + "read_unsigned_byte", '"big"', '"big", signed=True'),
    ),
    mutant(
        "3.11-x",
        "an unsigned short is read with a sign",
        edit(_BYTES + "read_unsigned_short", '"big"', '"big", signed=True'),
    ),
    mutant(
        "3.11-y",
        "a char is written low byte first",
        edit(_BYTES + "write_char", '"big"', '"little"'),
        edit(_BYTES + "read_char", '"big"', '"little"'),
    ),
    mutant(
        "3.11-z",
        "a double is rounded to a float",
        edit(
            _BYTES + "write_double",
            'number = store_double(value, "value of", "write_double")',
            "number = float(str(store_float(value, 'value of', 'write_double')))",
        ),
    ),
    mutant(
        "3.11-z",
        "a float is written low byte first",
        edit(_BYTES + "write_float", "_SINGLE.pack(number)", "_SINGLE.pack(number)[::-1]"),
        edit(_BYTES + "read_float", "self._take(4)", "self._take(4)[::-1]"),
    ),
    mutant(
        "3.11-aa",
        "write_utf writes plain UTF-8",
        edit(_BYTES + "write_utf", "encode_modified_utf8(text)", "text.encode('utf-8', 'surrogatepass')"),
        edit(
            _BYTES + "read_utf",
            "decode_modified_utf8(self._take(length))",
            "self._take(length).decode('utf-8', 'surrogatepass')",
        ),
    ),
    mutant(
        "3.11-ab",
        "read_bytes of a BytesMessage ends with 0 in place of -1",
        edit(_BYTES + "read_bytes", "return -1", "return 0"),
    ),
    mutant(
        "3.11-ab",
        "read_bytes of a BytesMessage does not heed its length",
        edit(_BYTES + "read_bytes", "else length", "else room"),
    ),
    mutant(
        "3.11-ad",
        "write_object of a BytesMessage writes text without its length",
        edit(
            _BYTES + "write_object",
            "_WRITERS[type(stored)](self, stored)",
            "self.write_bytes(stored.encode()) if type(stored) is str else _WRITERS[type(stored)](self, stored)",
        ),
    ),
    mutant(
        "3.11-af",
        "the body length is that of the rest",
        edit(_BYTES + "body_length", "len(self._body)", "len(self._body) + 1"),
    ),
    mutant(
        "3.11-af 3.11-ai", "a BytesMessage that is being written can be read", body(_BYTES + "_check_readable", "pass")
    ),
    mutant("3.11-ag", "reset of a BytesMessage does not go back", edit(_BYTES + "reset", "self._position = 0", "pass")),
    mutant(
        "3.11-ag 3.11.2-e",
        "reset leaves a BytesMessage writeable",
        edit(
            _BYTES + "_write",
            "if self._buffer is None:\n        raise",
            "if self._buffer is None:\n        return\n        raise",
        ),
    ),
    mutant(
        "3.11-ah 7.3-g",
        "a read beyond the end of a BytesMessage gives zeros",
        edit(
            _BYTES + "_take",
            "if end > len(self._body):\n        raise",
            "if end > len(self._body):\n        return bytes(size)\n        raise",
        ),
    ),
    mutant(
        "3.11.1-a",
        "clear_body clears JMSType too",
        edit(_BASE + "clear_body", "self._body = None", "self._body = None\n    self._type = None"),
    ),
    mutant(
        "3.11.1-a 3.11.2-f",
        "clear_body of a MapMessage keeps the entries",
        edit(
            _MAP + "clear_body",
            "super().clear_body()\n    self._body = {}",
            "kept = dict(self._body)\n    super().clear_body()\n    self._body = kept",
        ),
    ),
    mutant(
        "3.11.2-a 7.3-j",
        "the text of a received message can be set",
        edit(_TEXT + "text.fset", "self._check_body_writeable()", "pass"),
    ),
    mutant(
        "3.11.2-b",
        "the object of a received message can be set",
        edit(_OBJECT + "object.fset", "self._check_body_writeable()", "pass"),
    ),
    mutant(
        "3.11.2-c",
        "the map of a received message can be changed",
        edit(_MAP + "_set_entry", "self._check_body_writeable()", "pass"),
    ),
    mutant(
        "3.11.2-d",
        "a write to a received StreamMessage is ignored",
        edit(_STREAM + "_write", "raise MessageNotWriteableException(", "return str("),
    ),
    mutant(
        "3.11.2-e",
        "a write to a received BytesMessage is ignored",
        edit(_BYTES + "_write", "raise MessageNotWriteableException(", "return str("),
    ),
    mutant(
        "3.11.2-f",
        "clear_body leaves the body read-only",
        edit(_BASE + "clear_body", "self._body_read_only = False", "pass"),
        edit(_BASE + "clear_body", "self._body_owned = True", "self._body_owned = not self._body_read_only"),
    ),
    mutant(
        "3.11.4-a",
        "a StreamMessage arrives as a BytesMessage",
        edit(
            "pyjms.messages.freeze:thaw",
            "_CLASSES[envelope.body_kind]",
            "_CLASSES[2 if envelope.body_kind == 4 else envelope.body_kind]",
        ),
    ),
    mutant(
        "3.12-a 4.4.5-c",
        "a message of another make is refused",
        body(_FOREIGN + "convert", "raise MessageFormatException('no message of ours')"),
    ),
    mutant(
        "3.12-a",
        "the properties of a message of another make are left out",
        edit(_FOREIGN + "convert", "if is_client_name(name):", "if False:"),
    ),
    mutant(
        "3.12-b",
        "a MapMessage keeps the caller's bytearray",
        edit(_MAP + "set_bytes", "self._set_entry(name, value, store_bytes)", "self._body.__setitem__(name, value)"),
        edit(
            "pyjms.messages.conversion:JavaType.read",
            "convert = self._converters.get(type(value))",
            "convert = bytes if isinstance(value, bytearray) else self._converters.get(type(value))",
        ),
    ),
    mutant(
        "3.12-c",
        "a null object value becomes the empty text",
        edit(_STORE + "store_object", "return None", "return ''"),
    ),
    mutant(
        "3.12-d",
        "null written to a BytesMessage is ignored",
        edit(_BYTES + "write_object", 'raise _nothing("write_object")', "return"),
    ),
)
