"""The primitives, one family a file: importing this package fills the registry.

Definitions are found wherever they lie in this folder. What is in folders named ``compiled`` is
loaded with the compiler: the longer ones of their `emit` rules.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from functrans.ir.primitive import registry


def _definitions(package: str) -> Iterator[str]:
    """The modules of a package and of those in it."""
    found = import_module(package)
    for module in iter_modules(found.__path__, f"{package}."):
        if not module.ispkg:
            yield module.name
        elif not module.name.endswith(".compiled"):
            yield from _definitions(module.name)


for _module in _definitions(__name__):
    import_module(_module)

BUILT_IN = frozenset(registry.values())
"""The primitives that this version of the library defines."""
