"""Warnings that the results of a program may not be what its author expects."""


class UnseenStateWarning(RuntimeWarning):
    """A compiled function may not notice all changes of the objects that it reads.

    It is given once for a function, at the first call: an object written in C hides its state, or
    the function reaches more objects than are checked. Pass what changes as an argument; if
    nothing changes, filter the warning.
    """


class SwallowedErrorWarning(RuntimeWarning):
    """A traced function caught the error that a traced value cannot become a plain one.

    The ``except`` clause was meant for bad input, but its result is now that of the function:
    ``try: return log(x)``, ``except Exception: return 0.0`` is 0 for all x. If the clause is right
    for traced values, filter the warning.
    """


class RecompilationWarning(RuntimeWarning):
    """A compiled function has been traced and compiled again and again."""
