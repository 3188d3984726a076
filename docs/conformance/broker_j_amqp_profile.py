"""The profile of Broker-J over AMQP 1.0: `pyjms-tck run amqp://127.0.0.1:5672 --profile broker_j_amqp_profile.py`."""

from pyjms_tck.profile import Profile


class BrokerJProfile(Profile):
    """A broker of its own, which makes queues on demand, and whose queues hold delayed messages."""

    title = "Qpid Broker-J 9.2 over AMQP 1.0"
    user_name = "guest"
    password = "guest"  # noqa: S105 - what the tests configure it with
    wrong_credentials = ("guest", "wrong")
    unsupported = {  # noqa: RUF012 - a constant of the profile
        "3.8.1.1-n": "Broker-J compares no group of a message in a selector",
        "3.8.1.1-ag": "Broker-J refuses selectors with letters that are not ASCII, and others that the specification allows",
    }
    nothing_ms = 150  # it is on this machine
    parallel = 4  # most of the time is spent waiting
