"""Java's behaviour that Python lacks, for programs that ``pyjms port`` has written.

Such a program calls a function of these where Python's own operator or class would mean something else: numbers that
are cut to 32 bits, division that rounds towards zero, texts of numbers, casts that are checked. They can be removed one
by one to make the program Pythonic. Names of Java are unchanged.
"""

from pyjms.porting.java import collections, errors, files, formats, numbers, objects, strings, threads
from pyjms.porting.java.collections import *  # noqa: F403
from pyjms.porting.java.errors import *  # noqa: F403
from pyjms.porting.java.files import *  # noqa: F403
from pyjms.porting.java.formats import *  # noqa: F403
from pyjms.porting.java.numbers import *  # noqa: F403
from pyjms.porting.java.objects import *  # noqa: F403
from pyjms.porting.java.strings import *  # noqa: F403
from pyjms.porting.java.threads import *  # noqa: F403

# The modules' lists are needed: without them Java's Iterator would be hidden by that of collections.abc.
__all__ = [
    name
    for module in (collections, errors, files, formats, numbers, objects, strings, threads)
    for name in module.__all__
]
