"""What may go wrong in the model, a class for each failure that is remedied in its own way.

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
    """The object is in use, so it cannot be deleted or changed so now."""

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
    """A configuration thread did not come to the call in time; the call was withdrawn, or goes on by itself."""

    code = "PYJMS-MODEL-TIMEOUT"


class BadVariableError(ModelError):
    """A text with variables cannot be understood."""

    code = "PYJMS-MODEL-VARIABLE"


class UnknownVariableError(BadVariableError):
    """Nobody has given the variable a value."""


class CyclicVariableError(BadVariableError):
    """A variable's value leads back to itself."""


class LongVariableError(BadVariableError):
    """Variables lead to so many others that replacing them would take too long, or too much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with one attribute or argument."""

    name: str
    """Of the attribute, with the place within it: ``queue_patterns.0.pattern``; empty: of several together."""
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name else self.text


class _ProblemsError(ModelError):
    """Something is wrong with named values."""

    def __init__(self, where: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(f"{where}: {'; '.join(map(str, problems))}")
        self.where = where
        self.problems = problems


class InvalidAttributesError(_ProblemsError):
    """Attributes of an object are wrong; `where` names the object, `problems` says what is wrong with which."""

    code = "PYJMS-MODEL-ATTRIBUTES"


class InvalidArgumentsError(_ProblemsError):
    """Arguments of an operation are wrong; `where` names the operation."""

    code = "PYJMS-MODEL-ARGUMENTS"
