"""Blocks of a sweep on a dask.distributed cluster.

A block depends on the inputs and its number alone, so that a worker that is lost costs time and changes no bit: its
blocks go to another one.
"""

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from drsim import __version__
from drsim.arrays import FloatArray
from drsim.errors import DrsimError, ParameterError
from drsim.inference.threads import n_cores
from drsim.planning.sweep import Runner, vector_of_block
from drsim.planning.sweep_cells import SweepInputs

__all__ = ["LOCAL", "on_client", "with_cluster"]

LOCAL = "local"
"""Address that starts a cluster on this machine."""
SECONDS_TO_CONNECT = 10
MOST_LOSSES = 3
"""Times that a block may be lost with all workers that held the inputs."""


def _distributed() -> ModuleType:
    # an extra, which says nothing of its types
    try:
        return import_module("distributed")
    except ImportError:
        raise DrsimError("--dask needs the package distributed; install drsim[dask]") from None


@contextmanager
def with_cluster(address: str) -> Iterator[Runner]:
    """A runner on a cluster.

    Parameters
    ----------
    address : str
        Of a scheduler, such as tcp://10.0.0.1:8786, or `local`: a process for each core of this machine.

    Yields
    ------
    callable
        For `run_sweep`.

    Raises
    ------
    DrsimError
        `distributed` is not installed, or workers have another version of drsim.
    ParameterError
        No scheduler answers there.
    """
    dask = _distributed()
    if address == LOCAL:
        with (
            dask.LocalCluster(n_workers=n_cores(), threads_per_worker=1, dashboard_address=":0") as cluster,
            dask.Client(cluster) as client,
        ):
            yield on_client(client)
        return
    _knock(address)
    with dask.Client(address, timeout=SECONDS_TO_CONNECT) as client:
        yield on_client(client)


def _knock(address: str) -> None:
    """See that something listens, before a client is made that would be hard to get rid of again."""
    try:
        place = urlsplit(address if "://" in address else f"tcp://{address}")
        if place.hostname is None or place.port is None:
            raise ValueError("it lacks a host or a port")
        with socket.create_connection((place.hostname, place.port), timeout=SECONDS_TO_CONNECT):
            return
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"--dask must be {LOCAL} or the address of a scheduler, such as tcp://10.0.0.1:8786, got {address!r}: "
            f"{error}"
        ) from None


def on_client(client: Any) -> Runner:
    """A runner on a cluster that somebody else started.

    Parameters
    ----------
    client : distributed.Client
        Connected; its workers have this version of drsim.

    Returns
    -------
    callable
        For `run_sweep`.

    Raises
    ------
    DrsimError
        On its first use: a worker has another version of drsim, or a block was lost over and over.
    """

    def run(inputs: SweepInputs, blocks: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        _check_versions(client)
        ahead = iter(blocks)
        shared = _share(client, inputs)
        # twice as many as threads: none waits, and no more blocks than these are held
        room = 2 * max(1, sum(client.nthreads().values()))
        pending: dict[Any, tuple[int, int]] = {}
        finished = _distributed().as_completed()

        def submit(block: int, losses: int) -> None:
            future = client.submit(vector_of_block, shared, block, pure=False)
            pending[future] = block, losses
            finished.add(future)

        for block in ahead:
            submit(block, 0)
            if len(pending) == room:
                break
        for future in finished:
            block, losses = pending.pop(future)
            found = _result(future)
            if found is None:
                if losses == MOST_LOSSES:
                    raise DrsimError(f"block {block} was lost {losses + 1} times; look at the cluster's workers")
                shared = _share(client, inputs)
                submit(block, losses + 1)
                continue
            yield block, found
            if (following := next(ahead, None)) is not None:
                submit(following, 0)

    return run


def _result(future: Any) -> FloatArray | None:
    """What came out; None where every worker that held the inputs is gone, be it while the result is fetched."""
    try:
        found: FloatArray = future.result()
    except CancelledError:
        return None
    return found


def _share(client: Any, inputs: SweepInputs) -> Any:
    """The inputs on every worker, so that one that is lost takes none of them along."""
    return client.scatter(inputs, broadcast=True, hash=False)


def _check_versions(client: Any) -> None:
    found = client.run(_version)
    if not found:
        raise DrsimError("--dask: the cluster has no workers; start some")
    others = sorted(set(found.values()) - {__version__})
    if others:
        raise DrsimError(f"--dask: workers have drsim {', '.join(others)}, here it is {__version__}; install that one")


def _version() -> str:
    return __version__
