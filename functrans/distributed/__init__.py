"""One function on many processes: arrays in shards, and messages between them.

`shard_map` runs a function on the parts of arrays. Its collectives (`functrans.lax.psum` and
others) pass messages by MPI, ``pip install "functrans[mpi]"``, or are simulated in one process.
`chunked_map` processes more data than fit into memory.
"""

from typing import TYPE_CHECKING

from functrans.lazily import homes as _homes
from functrans.lazily import namespace as _namespace

if TYPE_CHECKING:
    from functrans.distributed.chunks import chunked_map
    from functrans.distributed.mesh import Mesh, P, PartitionSpec
    from functrans.distributed.shards import shard_map

__all__ = ["Mesh", "P", "PartitionSpec", "chunked_map", "shard_map"]

__getattr__, __dir__ = _namespace(
    __name__,
    _homes(
        {
            "functrans.distributed.chunks": "chunked_map",
            "functrans.distributed.mesh": "Mesh P PartitionSpec",
            "functrans.distributed.shards": "shard_map",
        }
    ),
)
