"""Java's loggers, which are Python's. The table is like that of `pyjms.porting.library`; `pyjms.porting.loggers` has the calls."""

from __future__ import annotations

from typing import Final

__all__ = ["LOGGERS", "LOGGING"]

LOGGERS: Final = (
    "java.util.logging.Logger",
    "org.slf4j.Logger",
    "org.apache.log4j.Logger",
    "org.apache.logging.log4j.Logger",
    "org.apache.commons.logging.Log",
)

_MEMBERS = r"""
class %s
  String getName() = $0.name @known
  void setLevel(java.util.logging.Level) = $0.setLevel($1)
  void setLevel(org.apache.log4j.Level) = $0.setLevel($1)
  boolean isLoggable(java.util.logging.Level) = $0.isEnabledFor($1)
  boolean isEnabledFor(org.apache.log4j.Level)
  boolean isTraceEnabled() = $0.isEnabledFor(logging.DEBUG)
  boolean isDebugEnabled() = $0.isEnabledFor(logging.DEBUG)
  boolean isInfoEnabled() = $0.isEnabledFor(logging.INFO)
  boolean isWarnEnabled() = $0.isEnabledFor(logging.WARNING)
  boolean isErrorEnabled() = $0.isEnabledFor(logging.ERROR)
"""
_LEVEL = r"""
class %s
  %s OFF = logging.CRITICAL
  %s FATAL = logging.CRITICAL
  %s SEVERE = logging.ERROR
  %s ERROR = logging.ERROR
  %s WARNING = logging.WARNING
  %s WARN = logging.WARNING
  %s INFO = logging.INFO
  %s CONFIG = logging.INFO
  %s FINE = logging.DEBUG
  %s FINER = logging.DEBUG
  %s FINEST = logging.DEBUG
  %s DEBUG = logging.DEBUG
  %s TRACE = logging.DEBUG
  %s ALL = logging.DEBUG
"""

LOGGING: Final = (
    "".join(_MEMBERS % name for name in LOGGERS)
    + "".join(
        _LEVEL.replace("%s", name)
        for name in ("java.util.logging.Level", "org.apache.log4j.Level", "org.apache.logging.log4j.Level")
    )
    + r"""
class org.slf4j.LoggerFactory
class org.apache.logging.log4j.LogManager
class org.apache.commons.logging.LogFactory
class org.apache.log4j.BasicConfigurator
  static void configure() = logging.basicConfig(level=logging.DEBUG)
"""
)
