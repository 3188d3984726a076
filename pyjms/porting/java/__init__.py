"""What Java does and Python has no word for, for programs that ``pyjms port`` has written.

Such a program calls a function of these where Python's own operator or class would mean something else: numbers that
are cut to 32 bits, division that rounds towards zero, texts of numbers, casts that are checked. Whoever makes the program
Pythonic takes them out, one by one. Names that Java has are those of Java.
"""

from pyjms.porting.java import (
    dates,
    decimals,
    errors,
    files,
    formats,
    functions,
    numbers,
    objects,
    patterns,
    queues,
    streams,
    strings,
    threads,
)
from pyjms.porting.java.dates import *  # noqa: F403
from pyjms.porting.java.decimals import *  # noqa: F403
from pyjms.porting.java.errors import *  # noqa: F403
from pyjms.porting.java.files import *  # noqa: F403
from pyjms.porting.java.formats import *  # noqa: F403
from pyjms.porting.java.functions import *  # noqa: F403
from pyjms.porting.java.numbers import *  # noqa: F403
from pyjms.porting.java.objects import *  # noqa: F403
from pyjms.porting.java.patterns import *  # noqa: F403
from pyjms.porting.java.queues import *  # noqa: F403
from pyjms.porting.java.streams import *  # noqa: F403
from pyjms.porting.java.strings import *  # noqa: F403
from pyjms.porting.java.threads import *  # noqa: F403

__all__: list[str] = []
__all__ += dates.__all__
__all__ += decimals.__all__
__all__ += errors.__all__
__all__ += files.__all__
__all__ += formats.__all__
__all__ += functions.__all__
__all__ += numbers.__all__
__all__ += objects.__all__
__all__ += patterns.__all__
__all__ += queues.__all__
__all__ += streams.__all__
__all__ += strings.__all__
__all__ += threads.__all__
