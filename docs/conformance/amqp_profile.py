"""The profile of the pyjms broker over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile amqp_profile.py`."""

from pyjms_tck.profile import Profile


class AmqpProfile(Profile):
    """A broker in memory, which admits everybody."""

    title = "the pyjms broker over AMQP 1.0"
    nothing_ms = 150  # it is on this machine
