"""Free lists of a stream: what is kept is given out once, and there is a bound to it."""

import sys
import threading

import pytest

from functrans.run.cuda.free_lists import ALL, LARGEST, PIECES, SIZES, FreeLists


def test_a_piece_is_given_out_once_and_for_its_own_size():
    lists = FreeLists()
    assert not lists.keep(8, 100)
    assert not lists.keep(16, 100)
    assert lists.take(101) == 0
    assert {lists.take(100), lists.take(100)} == {8, 16}
    assert lists.take(100) == 0


def test_large_pieces_and_none_are_not_kept():
    lists = FreeLists()
    assert list(lists.keep(8, LARGEST + 1)) == [8]
    assert list(lists.keep(8, 0)) == [8]
    assert not lists.keep(8, LARGEST)
    assert lists.clear() == [8]
    assert lists.clear() == []


def test_there_is_a_bound_to_pieces_and_sizes():
    lists = FreeLists()
    kept, returned = [], []
    for number in range(1, 4 * PIECES):
        returned += lists.keep(number, 1)
        kept.append(number)
    assert len(returned) == len(kept) - PIECES
    for size in range(2, 3 * SIZES):
        returned += lists.keep(1000 * size, size)
        kept.append(1000 * size)
    rest = lists.clear()
    assert len(rest) <= SIZES
    assert sorted(returned + rest) == kept  # each of them once


def test_there_is_a_bound_to_all_bytes():
    lists, returned = FreeLists(), []
    sizes = {number + 1: LARGEST - number // 2 % 20 for number in range(6 * ALL // LARGEST)}
    for address, nbytes in sizes.items():
        returned += lists.keep(address, nbytes)
    rest = lists.clear()
    assert ALL - 2 * LARGEST < sum(map(sizes.get, rest)) <= ALL
    assert sorted(returned + rest) == list(sizes)


def test_threads_get_different_pieces():
    lists, taken = FreeLists(), []

    def work(first):
        mine = []
        for number in range(2000):
            lists.keep(first + number, number % 40 + 1)
            got = lists.take(number % 7 + 1)
            if got:
                mine.append(got)
        taken.append(mine)

    threads = [threading.Thread(target=work, args=(1 + 10_000 * each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    every = [one for mine in taken for one in mine]
    assert len(every) == len(set(every)) > 0


@pytest.mark.dear
def test_no_piece_is_lost_while_lists_come_and_go():
    """Threads keep pieces of more sizes than there are lists, and take some again."""
    lists, count, gone = FreeLists(), 20_000, []

    def work(first):
        mine = []
        for number in range(first, first + count):
            mine += lists.keep(number, number % (SIZES + 9) + 1)
            mine += filter(None, [lists.take(number % 5 + 1)])
        gone.append(mine)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(1 + count * each,)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    every = sorted([*lists.clear(), *(one for mine in gone for one in mine)])
    assert every == list(range(1, 4 * count + 1))
