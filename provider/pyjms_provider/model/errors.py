"""Errors of the model: a class for each failure that has a remedy of its own.

Errors of configuration stores are those of all stores (`pyjms_provider.stores.errors`).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.spi.errors import ProviderError


class ModelError(ProviderError):
    """Root of the errors of the model."""

    code = "PYJMS-MODEL"


class UnknownCategoryError(ModelError):
    """There is no such category or type, or not below this object."""

    code = "PYJMS-MODEL-CATEGORY"


class UnknownObjectError(ModelError):
    """There is no such object, or it has been deleted."""

    code = "PYJMS-MODEL-UNKNOWN"


class ObjectExistsError(ModelError):
    """There is an object of that name, or there can be one only."""

    code = "PYJMS-MODEL-EXISTS"


class ObjectInUseError(ModelError):
    """The object is in use, so this deletion or change is refused for now."""

    code = "PYJMS-MODEL-IN-USE"


class NotChangeableError(ModelError):
    """Objects of this category are observed, not configured; or this attribute cannot be changed any more."""

    code = "PYJMS-MODEL-FIXED"


class WrongStateError(ModelError):
    """The object's state does not allow that."""

    code = "PYJMS-MODEL-STATE"


class FailedOpeningError(ModelError):
    """The object could not be opened; it is ERRORED, and the cause says why."""

    code = "PYJMS-MODEL-OPENING"


class UnknownOperationError(ModelError):
    """The object has no such operation."""

    code = "PYJMS-MODEL-OPERATION"


class ConfigurationTimeoutError(ModelError):
    """A call of a configuration thread did not begin or end in time; it was withdrawn, or still runs."""

    code = "PYJMS-MODEL-TIMEOUT"


class BadVariableError(ModelError):
    """A text with variables cannot be understood."""

    code = "PYJMS-MODEL-VARIABLE"


class UnknownVariableError(BadVariableError):
    """The variable has no value."""


class CyclicVariableError(BadVariableError):
    """A variable's value leads back to itself."""


class LongVariableError(BadVariableError):
    """Variables lead to so many others that replacing them would take too long, or too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The problem of one attribute or argument."""

    name: str
    """The attribute, with the place within it: ``queue_patterns.0.pattern``; empty: several together."""
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


class _ProblemsError(ModelError):
    """Named values are wrong."""

    def __init__(self, where: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(f"{where}: {'; '.join(map(str, problems))}")
        self.where = where
        self.problems = problems


class InvalidAttributesError(_ProblemsError):
    """Attributes of an object are wrong; `where` names the object, `problems` lists what is wrong with each."""

    code = "PYJMS-MODEL-ATTRIBUTES"


class InvalidArgumentsError(_ProblemsError):
    """Arguments of an operation are wrong; `where` names the operation."""

    code = "PYJMS-MODEL-ARGUMENTS"
