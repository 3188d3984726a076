"""What goes wrong when administered objects are looked up by name (JMS 1.1 §2.3); `pyjms.jndi` does the looking up."""

from __future__ import annotations

from pyjms.api.names import JavaNames

__all__ = ["NameNotFoundException", "NamingException"]


class NamingException(Exception, JavaNames, declares=True):
    """javax.naming.NamingException: the environment cannot be read, or does not say what it should.

    As in Java it is not a `JMSException`: it comes before there is any provider to speak of.
    """

    @property
    def message(self) -> str | None:
        """The reason given, or None."""
        return str(self.args[0]) if self.args else None


class NameNotFoundException(NamingException, LookupError):
    """javax.naming.NameNotFoundException: nothing has the name that was looked up."""
