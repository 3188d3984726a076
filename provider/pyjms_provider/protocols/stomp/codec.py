"""The codec of STOMP: what takes a stream apart, and what writes frames."""

from pyjms_provider.protocols.stomp.decoder import FrameDecoder
from pyjms_provider.protocols.stomp.encoder import FRAME_END, LINE_END, encode, encode_head, shown_id
from pyjms_provider.protocols.stomp.limits import BEFORE_LOGIN, DEFAULT_LIMITS, Limits

__all__ = [
    "BEFORE_LOGIN",
    "DEFAULT_LIMITS",
    "FRAME_END",
    "LINE_END",
    "FrameDecoder",
    "Limits",
    "encode",
    "encode_head",
    "shown_id",
]
