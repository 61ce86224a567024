"""Free lists of a stream: what is kept is given out once, and there is a bound to it."""

import threading

from functrans.run.cuda.free_lists import ALL, LARGEST, PIECES, SIZES, FreeLists


def test_a_piece_is_given_out_once_and_for_its_own_size():
    lists = FreeLists()
    assert lists.keep(8, 100) == lists.keep(16, 100) == []
    assert lists.take(101) == 0
    assert {lists.take(100), lists.take(100)} == {8, 16}
    assert lists.take(100) == 0


def test_large_pieces_and_none_are_not_kept():
    lists = FreeLists()
    assert lists.keep(8, LARGEST + 1) == [8]
    assert lists.keep(8, 0) == [8]
    assert lists.keep(8, LARGEST) == []
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
    for number in range(3 * ALL // LARGEST):
        returned += lists.keep(number + 1, LARGEST - number % 20)
    rest = lists.clear()
    assert ALL // LARGEST - PIECES <= len(rest) <= ALL // LARGEST + 1
    assert sorted(returned + rest) == list(range(1, 3 * ALL // LARGEST + 1))


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
