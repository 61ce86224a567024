"""Patterns of products: entries are counted without their duplicates."""

import numpy as np
import pytest
import scipy.sparse as sp

from functrans.ops import dependence


def test_entries_are_counted_without_duplicates(monkeypatch):
    monkeypatch.setattr(dependence, "MOST_ENTRIES", 20)
    monkeypatch.setattr(dependence, "BLOCK_ENTRIES", 7)
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(100):
        m, n, w = rng.integers(0, 10, 3)
        own, pattern = (sp.csr_array(rng.random(shape) < 0.4) for shape in ((m, n), (n, w)))
        wanted = own.toarray().astype(int) @ pattern.toarray() > 0
        if wanted.sum() > 20:
            with pytest.raises(dependence.TooDense):
                dependence.product(own, pattern)
        else:
            found = dependence.product(own, pattern)
            np.testing.assert_array_equal(found.toarray(), wanted)
            passed += (own.toarray().astype(int) @ pattern.toarray()).sum() > 20
    assert passed > 5  # with duplicates, these have too many
