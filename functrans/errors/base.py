"""The base of all exceptions of `functrans`."""


class FunctransError(Exception):
    """The base of every exception that `functrans` raises on purpose.

    Fails::

        grad(f)(x)                      # any of the errors below

    Fix::

        try: grad(f)(x)
        except FunctransError as error: print(error)    # which line, which argument, what to write
    """
