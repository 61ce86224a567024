"""A pytest plugin for processes that wait for each other: one that fails ends them all."""

import faulthandler
import os
import sys

from mpi4py import MPI

LIMIT = 120


def pytest_configure(config):
    faulthandler.dump_traceback_later(LIMIT, exit=True)


def pytest_runtest_logreport(report):
    if report.failed:
        rank = MPI.COMM_WORLD.Get_rank()
        sys.stdout.write(f"\nprocess {rank}: {report.nodeid}\n{report.longreprtext}\n")
        sys.stdout.flush()
        MPI.COMM_WORLD.Abort(1)
        os._exit(1)
