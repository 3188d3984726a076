"""The profile of Artemis over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile artemis_amqp_profile.py`."""

from pyjms_tck.profile import Profile


class ArtemisProfile(Profile):
    """A broker of its own, as `artemis create` makes it, which lets in everybody."""

    title = "ActiveMQ Artemis 2.40 over AMQP 1.0"
    user_name = "guest"
    password = "guest"  # noqa: S105 - what the tests create it with
    unsupported = {  # noqa: RUF012 - a constant of the profile
        "3.8.1.1-ag": "Artemis refuses selectors with letters that are not ASCII, and others that the specification allows",
        "4.4.3-f": "Artemis makes a queue for a message to a temporary destination whose connection is gone",
        "6.6-a": "Artemis makes a topic for a message to a temporary one whose connection is gone",
        "20.2-n": "Artemis keeps no note whether a durable subscription is shared: without a consumer it serves one of either kind",
    }
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
