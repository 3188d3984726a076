"""The profile of Artemis over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile artemis_amqp_profile.py`."""

from pyjms_tck.profile import Profile


class ArtemisProfile(Profile):
    """A broker of its own, as `artemis create` makes it, with the user ``admin``."""

    title = "ActiveMQ Artemis 2.40 over AMQP 1.0"
    user_name = "admin"
    password = "admin"  # noqa: S105 - what the tests create it with
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
