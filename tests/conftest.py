"""Settings that every test shares."""

import os

from hypothesis import settings

# What is tested is this code, and not what an earlier version of it left on the disk.
os.environ.setdefault("FUNCTRANS_CACHE", "0")
# Whatever is compiled in any test is verified after each pass.
os.environ.setdefault("FUNCTRANS_CHECK_PLANS", "1")

# No deadline: the first call of a compiled function takes as long as compiling it does.
settings.register_profile("functrans", deadline=None, print_blob=True)
settings.load_profile("functrans")
