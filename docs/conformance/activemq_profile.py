"""The profile of ActiveMQ Classic over STOMP: `pyjms-tck run stomp://127.0.0.1:61613 --profile activemq_profile.py`."""

from pyjms_tck.profile import Profile


class ActiveMqProfile(Profile):
    """A broker of its own, as its package configures it, with its scheduler, which delays messages."""

    title = "ActiveMQ Classic 5.17 over STOMP"
    unsupported = {  # noqa: RUF012 - a constant of the profile
        "20.3-e": "Classic counts the delay of a message that is sent in a transaction from the commit",
    }
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
