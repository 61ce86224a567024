"""Suggestions for misspelt names."""

from functrans import spelling


def test_nearest():
    assert spelling.nearest("argsotr", ["argsort", "sort"]) == "argsort"
    assert spelling.nearest("argsotr", iter(["argmax"])) is None
    assert spelling.nearest("x", []) is None
