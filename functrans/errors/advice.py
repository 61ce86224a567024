"""Warnings of which something follows for a program's results."""


class UnseenStateWarning(RuntimeWarning):
    """A compiled function may not see all that changes in what it reads from outside.

    It is given at the first call, once for a function: an object that is written in C keeps its
    state to itself, or the function reaches more objects than are looked at. Pass what changes as
    an argument; if nothing changes, filter the warning.
    """


class SwallowedErrorWarning(RuntimeWarning):
    """A traced function caught the error that a traced value cannot become a plain one.

    The ``except`` clause was meant for bad input, but its result is now that of the function:
    ``try: return log(x)``, ``except Exception: return 0.0`` is 0 for all x. If the clause is right
    for traced values, filter the warning.
    """


class RecompilationWarning(RuntimeWarning):
    """A compiled function has been traced and compiled again and again."""
