"""The profile of a member of a cluster that admits everybody, and that the suite does not restart."""

from pyjms_tck.profile import Profile


class ClusterProfile(Profile):
    """As any provider without a profile."""
