"""What goes wrong when administered objects are looked up by name (JMS 1.1 §2.3); `pyjms.jndi` does the looking up."""

from __future__ import annotations

from pyjms.api.throwable import CheckedThrowable


class NamingException(CheckedThrowable, Exception):
    """javax.naming.NamingException: the environment cannot be read, or does not say what it should.

    As in Java it is not a `JMSException`: it comes before there is any provider to speak of.
    """


class NameNotFoundException(NamingException, LookupError):
    """javax.naming.NameNotFoundException: nothing has the name that was looked up."""
