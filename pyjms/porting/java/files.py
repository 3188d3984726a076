"""java.io: files, readers, writers and streams; System.out, System.err, System.in and System.exit."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NoReturn, Self, TypeVar

from pyjms.api.base import NoSuchElementException
from pyjms.errors import NumberFormatException
from pyjms.porting.java.errors import (
    EOFException,
    FileNotFoundException,
    InputMismatchException,
    IOException,
    NoSuchFileException,
)
from pyjms.porting.java.formats import format
from pyjms.porting.java.strings import charset_named, parse_double, parse_int, parse_long, text

__all__ = [
    "ByteArrayOutputStream",
    "File",
    "InputStream",
    "OutputStream",
    "PrintWriter",
    "Reader",
    "Scanner",
    "StringWriter",
    "Writer",
    "bytes_of_file",
    "error_line",
    "exit",
    "file_input",
    "file_output",
    "file_reader",
    "file_writer",
    "filled",
    "lines_of_file",
    "looked_up",
    "put_text",
    "read_byte",
    "read_fully",
    "read_line",
    "stack_trace_to",
    "standard_input",
    "temporary_file",
    "text_line",
    "write_file",
]

# Fields that a container of Java fills.

_UNKNOWN: Final = object()


class looked_up:  # noqa: N801  it is written like a function
    """A field with `@Resource`: its object is looked up when it is first read, and may be set like any other."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._found: Any = _UNKNOWN

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # A marker and not None, as a look-up may return None.
        if self._found is _UNKNOWN:
            self._found = self._find()
        return self._found


def filled(pattern: str, *values: str) -> str:
    """Return a logger's pattern with its values in place of ``{}`` or ``{0}``."""
    for place, value in enumerate(values):
        for hole in (f"{{{place}}}", "{}"):
            if hole in pattern:
                pattern = pattern.replace(hole, value, 1)
                break
    return pattern


_T = TypeVar("_T")


def text_line(value: object = "") -> None:
    """Write a value and a line end in one call, so that no other thread comes between: ``System.out.println``."""
    sys.stdout.write(f"{text(value)}\n")


def error_line(value: object = "") -> None:
    """Write the text of a value to the standard error: ``System.err.println``."""
    sys.stderr.write(f"{text(value)}\n")


def put_text(value: object) -> None:
    """Write a value without the end of a line: ``System.out.print``."""
    sys.stdout.write(text(value))
    # A prompt is shown at once, as by System.out; Python keeps an incomplete line in its buffer.
    sys.stdout.flush()


def read_line() -> str | None:
    """Return the next line of the standard input without its end; None at the end."""
    sys.stdout.flush()
    line = sys.stdin.readline()
    return line.removesuffix("\n").removesuffix("\r") if line else None


def read_byte() -> int:
    """Return the next byte of the standard input, or -1: ``System.in.read``."""
    sys.stdout.flush()
    letter = sys.stdin.read(1)
    return ord(letter) if letter else -1


class Scanner:
    """java.util.Scanner over lines: of the standard input, of a text, or of an object with `readLine`."""

    def __init__(self, source: Any = None) -> None:
        if hasattr(source, "reader"):
            source = source.reader()
        # A text is also read by lines, so that all three sources work alike.
        lines = iter(source.splitlines()) if isinstance(source, str) else None
        self._next_line: Callable[[], str | None] = (
            (lambda: next(lines, None)) if lines is not None else source.readLine if source is not None else read_line
        )
        self._close = getattr(source, "close", None)
        self._rest: str | None = None

    def _fill(self) -> bool:
        if self._rest is None:
            self._rest = self._next_line()
        return self._rest is not None

    def hasNextLine(self) -> bool:
        """Return whether there is another line."""
        return self._fill()

    def nextLine(self) -> str:
        """Return the rest of the line. Raises `NoSuchElementException` where there is none."""
        if not self._fill():
            raise NoSuchElementException("No line found")
        found, self._rest = self._rest, None
        return found or ""

    def hasNext(self) -> bool:
        """Return whether there is another word."""
        while self._fill():
            if self._rest and not self._rest.isspace():
                return True
            # An empty rest has no more words, and the next line is read.
            self._rest = None
        return False

    def next(self) -> str:
        """Return the next word. Raises `NoSuchElementException`."""
        if not self.hasNext():
            raise NoSuchElementException
        word, found = re.match(r"\s*(\S+)(.*)", self._rest or "", re.DOTALL).groups()  # type: ignore[union-attr]  # there is a word
        self._rest = found
        return str(word)

    def _peek(self) -> str:
        return (self._rest or "").split()[0] if self.hasNext() else ""

    def hasNextInt(self) -> bool:
        """Return whether the next word is an integer."""
        return re.fullmatch(r"[+-]?\d{1,10}", self._peek()) is not None

    def nextInt(self) -> int:
        """Return the next word as an integer. Raises `InputMismatchException`."""
        return self._number(parse_int)

    def nextLong(self) -> int:
        """Return the next word as a long."""
        return self._number(parse_long)

    def nextDouble(self) -> float:
        """Return the next word as a double."""
        return self._number(parse_double)

    def nextBoolean(self) -> bool:
        """Return the next word as a boolean."""
        word = self._peek()
        if word.lower() not in {"true", "false"}:
            raise InputMismatchException(f'For input string: "{word}"') if word else NoSuchElementException
        return self.next().lower() == "true"

    def _number(self, parse: Callable[[str], _T]) -> _T:
        if not self.hasNext():
            raise NoSuchElementException
        try:
            # The word is taken only if it is a number: after an InputMismatchException it must still be available.
            made = parse(self._peek())
        except NumberFormatException as error:
            raise InputMismatchException(error.getMessage()) from None
        self.next()
        return made

    def close(self) -> None:
        """Close the source."""
        if self._close is not None:
            self._close()


def exit(code: int) -> NoReturn:
    """End the process at once, from any thread: ``System.exit``."""
    sys.stdout.flush()
    sys.stderr.flush()
    # `sys.exit` raises in one thread only; Java ends the process whatever other threads do.
    os._exit(code & 0xFF)


@contextmanager
def _io_errors(name: object = None) -> Iterator[None]:
    try:
        yield
    except IOException:
        raise
    except OSError as error:
        reason = f"{name} ({error.strerror})" if name is not None else str(error.strerror or error)
        # While opening, Java reports any reason as FileNotFoundException, even a missing permission.
        kind = FileNotFoundException if name is not None else IOException
        raise kind(reason) from error
    except ValueError as error:  # Python's error for a closed file
        raise IOException("Stream closed") from error


class _Closeable:
    """Objects that ``with`` closes."""

    def close(self) -> None:
        """Close it; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Reader(_Closeable):
    """java.io.Reader, with the lines of a BufferedReader."""

    def __init__(self, source: IO[str]) -> None:
        self._source = source

    def readLine(self) -> str | None:
        """Return the next line without its end; None at the end."""
        if self._source is sys.stdin:
            sys.stdout.flush()
        with _io_errors():
            line = self._source.readline()
        return line.removesuffix("\n").removesuffix("\r") if line else None

    def read(self) -> int:
        """Return the next character as a number, or -1."""
        if self._source is sys.stdin:
            sys.stdout.flush()
        with _io_errors():
            letter = self._source.read(1)
        return ord(letter) if letter else -1

    def readInto(self, target: list[str]) -> int:
        """Fill an array of characters, and return their number, or -1."""
        with _io_errors():
            found = self._source.read(len(target))
        target[: len(found)] = list(found)
        return len(found) or -1

    def ready(self) -> bool:
        """Return whether there is more to read."""
        # A terminal or pipe cannot be asked without waiting for it.
        if not self._source.seekable():
            return True
        place = self._source.tell()
        more = bool(self._source.read(1))
        self._source.seek(place)
        return more

    def lines(self) -> list[str]:
        """Return all remaining lines."""
        return list(iter(self.readLine, None))

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._source is not sys.stdin:
            self._source.close()


class InputStream(_Closeable):
    """java.io.InputStream."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def read(self) -> int:
        """Return the next byte as a number, or -1."""
        with _io_errors():
            found = self._source.read(1)
        return found[0] if found else -1

    def readInto(self, target: bytearray, start: int = 0, count: int | None = None) -> int:
        """Fill an array of bytes, and return their number, or -1."""
        wanted = len(target) - start if count is None else count
        with _io_errors():
            found = self._source.read(wanted)
        target[start : start + len(found)] = found
        # An empty target gets 0 and not the end of the stream.
        return len(found) if found or not wanted else -1

    def readAllBytes(self) -> bytes:
        """Return all remaining bytes."""
        with _io_errors():
            return self._source.read()

    def available(self) -> int:
        """Return the number of remaining bytes."""
        place = self._source.tell()
        end = self._source.seek(0, os.SEEK_END)
        self._source.seek(place)
        return end - place

    def reader(self, charset: str = "UTF-8") -> Reader:
        """Return a reader of its text."""
        return Reader(io.TextIOWrapper(self._source, charset_named(charset), "replace", newline=None))

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._source.close()

    @staticmethod
    def of(value: bytes | bytearray) -> InputStream:
        """Return a stream of the bytes of an array."""
        return InputStream(io.BytesIO(bytes(value)))


class _StandardInput(InputStream):
    """System.in: Python's ``sys.stdin``."""

    def __init__(self) -> None:
        # An empty source: all reading methods are replaced, and `close` must not close `sys.stdin`.
        super().__init__(io.BytesIO())

    def read(self) -> int:
        """Return the next byte, or -1."""
        return read_byte()

    def reader(self, charset: str = "UTF-8") -> Reader:
        """Return a reader of its text."""
        return Reader(sys.stdin)

    def available(self) -> int:
        """Return 0: the number is unknown."""
        return 0


def standard_input() -> InputStream:
    """Return System.in."""
    return _StandardInput()


class OutputStream(_Closeable):
    """java.io.OutputStream."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target

    def write(self, value: int | bytes | bytearray, start: int = 0, count: int | None = None) -> None:
        """Write a byte, or those of an array."""
        # `write(int)` writes the lowest eight bits.
        data = bytes([value & 0xFF]) if isinstance(value, int) else bytes(value)
        with _io_errors():
            self._target.write(data[start : len(data) if count is None else start + count])

    def flush(self) -> None:
        """Flush written data to the system."""
        with _io_errors():
            self._target.flush()

    def writer(self, charset: str = "UTF-8") -> Writer:
        """Return a writer of text to it."""
        # `newline=""` keeps line ends as they are written, on any system.
        return Writer(io.TextIOWrapper(self._target, charset_named(charset), "replace", newline=""))

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._target.close()


class ByteArrayOutputStream(OutputStream):
    """java.io.ByteArrayOutputStream."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes)

    def toByteArray(self) -> bytearray:
        """Return the written bytes."""
        return bytearray(self._bytes.getvalue())

    def toString(self, charset: str = "UTF-8") -> str:
        """Return the written bytes as a text."""
        return self._bytes.getvalue().decode(charset_named(charset), "replace")

    def size(self) -> int:
        """Return how many bytes were written."""
        return len(self._bytes.getvalue())

    def reset(self) -> None:
        """Discard the written bytes."""
        self._bytes.seek(0)
        self._bytes.truncate()

    def close(self) -> None:
        """Do nothing: the written data remain."""


class Writer(_Closeable):
    """java.io.Writer, with the lines of a BufferedWriter."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def write(self, value: str | int) -> None:
        """Write a text, or the character of a number."""
        with _io_errors():
            self._target.write(chr(value & 0xFFFF) if isinstance(value, int) else value)

    def append(self, value: str) -> Self:
        """Write a text."""
        self.write(value)
        return self

    def newLine(self) -> None:
        """Write the end of a line."""
        self.write("\n")

    def flush(self) -> None:
        """Flush written data to the system."""
        with _io_errors():
            self._target.flush()

    def close(self) -> None:
        """Close it; a second time does nothing, and the program's standard output stays open."""
        # Java's programs close System.out through the writer around it; in Python later output would raise.
        if self._target is sys.stdout or self._target is sys.stderr:
            self._target.flush()
        else:
            self._target.close()


class PrintWriter(Writer):
    """java.io.PrintWriter, and PrintStream: over a writer, a stream or one of Python's files."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)

    def print(self, value: object = "") -> None:
        """Write the text of a value."""
        self._put(text(value))

    def println(self, value: object = "") -> None:
        """Write the text of a value, and the end of the line."""
        self._put(f"{text(value)}\n")

    def printf(self, pattern: str, *values: object) -> Self:
        """Write values formatted by a pattern."""
        self._put(format(pattern, *values))
        return self

    def write(self, value: str | int) -> None:
        """Write a text, or the character of a number."""
        self._put(chr(value & 0xFFFF) if isinstance(value, int) else value)

    def _put(self, value: str) -> None:
        # A PrintWriter may wrap a stream of bytes or a writer.
        self._target.write(value.encode() if isinstance(self._target, OutputStream) else value)


class StringWriter(Writer):
    """java.io.StringWriter."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        super().__init__(self._text)

    def toString(self) -> str:
        """Return the written text."""
        return self._text.getvalue()

    def close(self) -> None:
        """Do nothing: the written data remain."""


class File:
    """java.io.File, and java.nio.file.Path."""

    def __init__(self, parent: str | File, name: str | None = None) -> None:
        path: str = os.fspath(parent)
        if name is not None:
            path = f"{path}/{name}"
        # java.io.File takes several slashes for one and drops the last.
        while "//" in path:
            path = path.replace("//", "/")
        self._path = path[:-1] if len(path) > 1 and path.endswith("/") else path

    def __fspath__(self) -> str:
        return self._path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def toString(self) -> str:
        """Return the path as it was given."""
        return self._path

    def getPath(self) -> str:
        """Return the path as it was given."""
        return self._path

    def getAbsolutePath(self) -> str:
        """Return the path from the root on."""
        return self._path if self._path.startswith("/") else f"{os.getcwd()}/{self._path}"

    def getName(self) -> str:
        """Return the last part of the path."""
        return self._path.rpartition("/")[2]

    def getParent(self) -> str | None:
        """Return the path without its last part, or None."""
        before, slash, name = self._path.rpartition("/")
        return before or (slash if slash and name else None)

    def exists(self) -> bool:
        """Return whether there is such a file or folder."""
        return os.path.exists(self._path)

    def isFile(self) -> bool:
        """Return whether it is a file."""
        return os.path.isfile(self._path)

    def isDirectory(self) -> bool:
        """Return whether it is a folder."""
        return os.path.isdir(self._path)

    def canRead(self) -> bool:
        """Return whether this process may read it."""
        return os.access(self._path, os.R_OK)

    def length(self) -> int:
        """Return how many bytes it has, 0 where there is none."""
        return os.path.getsize(self._path) if self.exists() else 0

    def delete(self) -> bool:
        """Delete it, and return whether that was possible."""
        # Java's `delete` also removes an empty folder, and reports errors by its result.
        return _is_done(lambda: os.rmdir(self._path) if self.isDirectory() else os.remove(self._path))

    def mkdir(self) -> bool:
        """Make the folder, and return whether that was possible."""
        return _is_done(lambda: os.mkdir(self._path))

    def mkdirs(self) -> bool:
        """Make the folder, and its parents."""
        return _is_done(lambda: os.makedirs(self._path))

    def createNewFile(self) -> bool:
        """Make an empty file, unless there is one, and return whether it was made."""
        if self.exists():
            return False
        with _io_errors(), open(self._path, "xb"):
            return True

    def listFiles(self) -> list[File] | None:
        """Return the entries of the folder, in alphabetical order; None if it is no folder."""
        # Sorted: Java promises no order, and the system's differs from machine to machine.
        return [File(self, name) for name in sorted(os.listdir(self._path))] if self.isDirectory() else None

    def list(self) -> Any:
        """Return the names of the entries of the folder, in alphabetical order; None if it is no folder."""
        return sorted(os.listdir(self._path)) if self.isDirectory() else None


def _is_done(work: Callable[[], object]) -> bool:
    try:
        work()
    except OSError:
        return False
    return True


def file_input(path: str | File) -> InputStream:
    """Return a stream of a file's bytes: ``FileInputStream``."""
    with _io_errors(os.fspath(path)):
        return InputStream(open(path, "rb"))


def file_output(path: str | File, append: bool = False) -> OutputStream:
    """Return a stream that writes to a file: ``FileOutputStream``."""
    with _io_errors(os.fspath(path)):
        return OutputStream(open(path, "ab" if append else "wb"))


def file_reader(path: str | File, charset: str = "UTF-8") -> Reader:
    """Return a reader of a file: ``FileReader``."""
    with _io_errors(os.fspath(path)):
        return Reader(open(path, encoding=charset_named(charset), errors="replace"))


def file_writer(path: str | File, append: bool = False) -> Writer:
    """Return a writer to a file: ``FileWriter``."""
    with _io_errors(os.fspath(path)):
        return Writer(open(path, "a" if append else "w", encoding="utf-8", errors="replace", newline=""))


def bytes_of_file(path: str | File) -> bytearray:
    """Return a file's bytes: ``Files.readAllBytes``."""
    try:
        with open(path, "rb") as file:
            return bytearray(file.read())
    except FileNotFoundError as error:
        raise NoSuchFileException(os.fspath(path)) from error


def lines_of_file(path: str | File) -> list[str]:
    """Return a file's lines: ``Files.readAllLines``."""
    return bytes_of_file(path).decode("utf-8", "replace").splitlines()


def write_file(path: str | File, data: bytes | bytearray) -> None:
    """Write a file: ``Files.write``."""
    with _io_errors(os.fspath(path)), open(path, "wb") as file:
        file.write(data)


def temporary_file(prefix: str, suffix: str | None) -> File:
    """Return a new, empty file in the folder for temporary files."""
    # Java's default suffix is ".tmp"; the file exists when the name is returned.
    handle, name = tempfile.mkstemp(suffix or ".tmp", prefix)
    os.close(handle)
    return File(name)


def stack_trace_to(error: BaseException, target: Any) -> None:
    """Write an exception's Python traceback to a writer or stream: ``printStackTrace(target)``."""
    import traceback

    lines = "".join(traceback.format_exception(error))
    if isinstance(target, PrintWriter):
        target.print(lines)
    else:
        target.write(lines)


def read_fully(stream: InputStream, target: bytearray) -> None:
    """Fill an array of bytes. Raises `EOFException`."""
    if stream.readInto(target) < len(target):
        raise EOFException
