"""The commands that pyjms clients and the pyjms broker have beyond a protocol, and their answers, as data: every protocol carries them in its
own way.
"""
