"""Threefry-2x32 with 20 rounds against the known answers of the Random123 library."""

import numpy as np
import pytest

from functrans import jit
from functrans.ops.random.threefry import folded_threefry, threefry

KNOWN_ANSWERS = [
    # key, counter, words
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("key", "counter", "words"), KNOWN_ANSWERS)
def test_known_answers(key, counter, words, compiled):
    cipher = jit(threefry) if compiled else threefry
    block = cipher(*(np.uint32(word) for word in (*key, *counter)))
    assert (int(block) >> 32, int(block) & 0xFFFFFFFF) == words
    assert block.dtype == np.uint64
    folded = jit(folded_threefry) if compiled else folded_threefry
    word = folded(*(np.uint32(word) for word in (*key, *counter)))
    assert (word, word.dtype) == (words[0] ^ words[1], np.uint32)


def test_many_counters_at_once():
    counters = np.arange(300, dtype=np.uint32)
    blocks = threefry(np.uint32(1), np.uint32(2), np.uint32(0), counters)
    one_by_one = [threefry(np.uint32(1), np.uint32(2), np.uint32(0), c) for c in counters]
    np.testing.assert_array_equal(blocks, one_by_one)
    compiled = jit(lambda c: threefry(np.uint32(1), np.uint32(2), np.uint32(0), c))(counters)
    np.testing.assert_array_equal(compiled, blocks)
    folded = jit(lambda c: folded_threefry(np.uint32(1), np.uint32(2), np.uint32(0), c))(counters)
    np.testing.assert_array_equal(folded, (blocks >> 32) ^ (blocks & 0xFFFFFFFF))
