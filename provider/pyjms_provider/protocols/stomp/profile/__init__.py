"""The pyjms profile: any JMS message as a frame, without loss, readable by those who do not know it.

One header, ``JMS_pyjms``, says what plain headers cannot: the kind of body, JMSMessageID, the types of properties.
docs/reference/stomp.md specifies it.
"""

from pyjms_provider.protocols.stomp.profile.properties import WireProperties
from pyjms_provider.protocols.stomp.profile.reading import from_frame
from pyjms_provider.protocols.stomp.profile.writing import expanded, to_frame

__all__ = ["WireProperties", "expanded", "from_frame", "to_frame"]
