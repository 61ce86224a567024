"""Settings that every test shares."""

from hypothesis import settings

# No deadline: the first call of a compiled function takes as long as compiling it does.
settings.register_profile("functrans", deadline=None, print_blob=True)
settings.load_profile("functrans")
