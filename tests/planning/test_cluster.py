import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from planning.sweeps import inputs

from drsim import __version__
from drsim.errors import DrsimError, ParameterError
from drsim.planning import cluster as clusters
from drsim.planning.cluster import on_client, with_cluster
from drsim.planning.sweep import Progress, run_sweep, with_threads
from drsim.planning.sweep_cells import SweepInputs

distributed: Any = pytest.importorskip("distributed", reason="the extra dask is not installed; CI has it")
WAIT = 60.0


@pytest.fixture
def client() -> Iterator[Any]:
    """A cluster of two processes."""
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp") as cluster,
        distributed.Client(cluster) as connected,
    ):
        # sockets of a killed worker are closed by the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        yield connected


def result_of(asked: SweepInputs, **how: Any) -> tuple[bytes, bytes, int]:
    with run_sweep(asked, **how) as sweep:
        rows = b"".join(rows.tobytes() for _, rows in sweep.blocks())
        return rows, sweep.winner.gain_corrected.tobytes(), sweep.winner.cell


@pytest.mark.parametrize("n_killed", [1, 2])
def test_killed_workers_change_no_bit(n_killed: int, client: Any) -> None:
    # forty blocks, so that workers are killed with most of them still to come; with both of them the inputs are lost
    asked = inputs(50, timing="window", threshold="0.02:0.98:0.01", budget="1:2", cooldown="0:1", cells_at_once=408)
    assert asked.n_blocks == 40
    serial = result_of(asked, runner=with_threads(1))
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.n_done * 4 > progress.n_cells and not killed:
            killed.extend(list(client.run(os.getpid).values())[:n_killed])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    assert result_of(asked, runner=on_client(client), progress=kill) == serial
    assert len(killed) == n_killed
    # the nannies start others in their place
    until = time.monotonic() + WAIT
    while len(found := client.run(os.getpid)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert set(killed).isdisjoint(found.values())


def test_a_running_cluster_is_found_by_its_address_and_its_version_checked(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = inputs(3, timing="window", cells_at_once=10)
    with with_cluster(client.scheduler.address) as runner:
        assert result_of(asked, runner=runner) == result_of(asked)
    monkeypatch.setattr(clusters, "__version__", "9.9.9")
    with pytest.raises(DrsimError, match=f"workers have drsim {__version__}, here it is 9.9.9"):
        result_of(inputs(2), runner=on_client(client))


def test_an_address_without_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "SECONDS_TO_CONNECT", 1)
    for address in ("tcp://127.0.0.1:1", "127.0.0.1:1", "nowhere", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "[:1", ""):
        with (
            pytest.raises(ParameterError, match="--dask must be local or the address of a scheduler"),
            with_cluster(address),
        ):
            pass


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(DrsimError, match=r"--dask needs the package distributed; install drsim\[dask\]"),
        with_cluster("local"),
    ):
        pass
