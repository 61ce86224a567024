"""The catalogue of errors: each is documented with code that fails and code that does not."""

import ast
import builtins
import inspect
import re
import textwrap

import pytest

from functrans import errors

CLASSES = [
    value
    for _, value in sorted(vars(errors).items())
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning)
]


def sections(cls):
    """The docstring's title, and the code under each of its headings."""
    text = inspect.cleandoc(cls.__doc__)
    code = {
        heading: textwrap.dedent(body)
        for heading, body in re.findall(r"^(\w+)::\n\n((?: {4}.*\n?|\n)+)", text, re.MULTILINE)
    }
    return text.splitlines()[0], code


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_says_what_it_is_and_shows_code_that_fails_and_code_that_does_not(cls):
    assert "__doc__" in vars(cls), "its docstring is its own, not its parent's"
    title, code = sections(cls)
    assert title.endswith(".")
    assert list(code) == ["Fails", "Fix"]
    assert code["Fails"] != code["Fix"]
    for example in code.values():
        ast.parse(example)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not errors.FunctransError])
def test_an_error_is_also_the_builtin_that_users_expect(cls):
    assert issubclass(cls, errors.FunctransError)
    expected = {TypeError, ValueError, RuntimeError, NotImplementedError, AssertionError}
    expected |= {FloatingPointError}
    assert expected & set(cls.__mro__)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_can_be_raised_with_a_message_alone(cls):
    with pytest.raises(cls, match=r"^what happened$"):
        raise cls("what happened")


def test_no_error_means_something_else_to_the_interpreter():
    """A StopIteration or an IndexError would end a loop in silence; a KeyError mangles its text."""
    for cls in CLASSES:
        assert not issubclass(cls, (StopIteration, LookupError, OSError, ImportError, Warning))


def test_only_the_attribute_error_is_one():
    """``hasattr`` turns any AttributeError into False: it must be raised for attributes alone."""
    found = [cls for cls in CLASSES if issubclass(cls, AttributeError)]
    assert found == [errors.UnsupportedAttributeError]


def test_everything_is_public_and_shadows_no_builtin():
    assert sorted(errors.__all__) == sorted([cls.__name__ for cls in CLASSES])
    assert not set(errors.__all__) & set(vars(builtins))
