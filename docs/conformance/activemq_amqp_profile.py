"""The profile of ActiveMQ Classic over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile activemq_amqp_profile.py`."""

from pyjms_tck.profile import Profile


class ActiveMqProfile(Profile):
    """A broker of its own, as its package configures it, with its scheduler, which delays messages."""

    title = "ActiveMQ Classic 5.18 over AMQP 1.0"
    _maps = (
        "Classic sends characters above U+FFFF in maps as bytes that are no UTF-8, so that the message cannot be read"
    )
    unsupported = {  # noqa: RUF012 - a constant of the profile
        "3.4.3-e": "Classic gives each message an id, also where its sender wants none",
        "3.8.1.1-ag": "Classic refuses selectors with letters that are not ASCII, and others that the specification allows",
        "20.3-e": "Classic counts the delay of a message that is sent in a transaction from the commit",
        "3.11-f": _maps,
        "3.11-g": _maps,
        "3.11.3-r": _maps,
        "3.11.3-w": _maps,
    }
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
