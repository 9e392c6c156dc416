"""What the engine on Ray is made of, without Ray: sizes, messages, secrets, the feed, one actor."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.batches import prepare

from corrigenda import __version__
from corrigenda.batch import ray_cluster, ray_rows
from corrigenda.batch.engine_ray import shape_of
from corrigenda.batch.ray_cluster import Cluster, Folder, RayOptions, connect, pool_size
from corrigenda.batch.ray_rows import Feed, RowActor, Task, failure_of, table_of, with_secrets, without_secrets
from corrigenda.batch.rows import Done, Row, pack, unpack_done
from corrigenda.batch.worker import Job
from corrigenda.errors import BackendError, ConfigError, CorrigendaError, MissingExtra, ModelError, Unreachable
from corrigenda.settings import Settings

pa = pytest.importorskip("pyarrow")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")


def cluster(*nodes: Mapping[str, float], free: Mapping[str, float] | None = None) -> Cluster:
    total = {name: sum(node.get(name, 0.0) for node in nodes) for name in ("CPU", "GPU")}
    return Cluster(nodes=nodes, free=total if free is None else free, here="n0", ours=True)


def with_cpus(number: float) -> dict[str, float]:
    return {"CPU": number}


# How many workers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "options", "size"),
    [
        (cluster(with_cpus(2)), {}, 1),  # a CPU is left for this process
        (cluster(with_cpus(1)), {}, 1),
        (cluster(with_cpus(2)), {"cpus_per_actor": 0.5}, 2),
        (cluster(with_cpus(2)), {"cpus_per_actor": 1.0, "actors": 2}, 2),  # readers need no CPU
        (cluster(with_cpus(16), with_cpus(16)), {"cpus_per_actor": 5.0}, 6),
        (cluster(with_cpus(8), free=with_cpus(3)), {}, 2),
        (cluster(with_cpus(8), free={}), {}, 1),  # others' work has it all: there is one worker to wait for
        (cluster({"CPU": 32, "GPU": 4}), {"gpus_per_actor": 1.0}, 4),
        (cluster({"CPU": 32, "GPU": 4}), {"gpus_per_actor": 0.5, "cpus_per_actor": 8.0}, 3),
        (cluster(with_cpus(2)), {"cpus_per_actor": 0.0, "actors": 5}, 5),
    ],
)
def test_the_pool_is_sized_from_what_the_cluster_has(there: Cluster, options: dict[str, Any], size: int) -> None:
    assert pool_size(RayOptions(**options), there) == size


@pytest.mark.parametrize(
    ("there", "options", "message"),
    [
        (
            cluster(with_cpus(2)),
            {"actors": 3},
            r"3 workers with 1 CPU each \(--ray-actors, --ray-cpus-per-actor\) cannot start: there is room for 2; the "
            "cluster has 2 CPUs, of which 2 free, on one machine; set fewer --ray-actors, or less "
            "--ray-cpus-per-actor, or add machines",
        ),
        (  # 8 CPUs in all, but a worker must fit one machine
            cluster(with_cpus(4), with_cpus(4)),
            {"cpus_per_actor": 6.0},
            "1 workers with 6 CPUs each .* there is room for 0; the cluster has 8 CPUs, of which 8 free, on 2 machines "
            "with up to 4 CPUs each",
        ),
        (
            cluster(with_cpus(4)),
            {"gpus_per_actor": 1.0},
            "1 workers with 1 CPU and 1 GPU each .* room for 0; .* less --ray-cpus-per-actor and --ray-gpus-per-actor",
        ),
    ],
)
def test_workers_that_cannot_start_are_an_error_and_not_a_wait(
    there: Cluster, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pool_size(RayOptions(**options), there)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actors": 0}, "--ray-actors must be at least 1, got 0"),
        ({"batch_rows": 0}, "--ray-batch-rows must be at least 1, got 0"),
        ({"cpus_per_actor": -1.0}, "--ray-cpus-per-actor must be at least 0, got -1.0"),
        ({"gpus_per_actor": float("nan")}, "--ray-gpus-per-actor must be at least 0, got nan"),
        ({"cpus_per_actor": 0.0}, "--ray-cpus-per-actor 0 needs --ray-actors N"),
        ({"address": "ray://head:10001"}, "'ray://head:10001' is one of Ray's client; run the command on a machine"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RayOptions(**options)


@pytest.mark.parametrize(
    ("actors", "concurrency", "batch_rows", "rows", "calls", "most"),
    [(1, 32, 8, 8, 7, 64), (10, 32, 8, 8, 7, 568), (2, 4, 8, 4, 3, 28), (1, 1, 8, 1, 3, 4)],
)
def test_enough_blocks_are_on_their_way_to_keep_each_worker_busy_and_no_more(
    actors: int, concurrency: int, batch_rows: int, rows: int, calls: int, most: int
) -> None:
    shape = shape_of(actors, concurrency, batch_rows)
    assert (shape.rows, shape.calls, shape.most) == (rows, calls, most)


# The address --------------------------------------------------------------------------------------------------------


def test_without_ray_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"--engine ray needs the package 'ray'.*corrigenda\[ray\]"):
        connect(RayOptions(), Settings())


@needs_ray
@pytest.mark.parametrize("address", ["head", "head:port", ":6379"])
def test_an_address_must_be_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ConfigError, match=f"--ray-address must be HOST:PORT or auto, got '{address}'"):
        connect(RayOptions(address=address), Settings())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@needs_ray
def test_an_address_where_nothing_answers_is_an_error() -> None:
    address = f"127.0.0.1:{free_port()}"
    message = (
        rf"nothing answers at the Ray address '{address}': .*refused; check the address .* leave --ray-address out"
    )
    with pytest.raises(Unreachable, match=message):
        connect(RayOptions(address=address), Settings())


@needs_ray
def test_an_address_where_something_else_answers_is_an_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "JOIN_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"at the Ray address '{address}' is no Ray cluster .* within 0.5 s"):
            connect(RayOptions(address=address), Settings())


def test_folders_that_killed_runs_left_are_deleted_and_those_in_use_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        used = Folder()
        left = Path(short) / "corrigenda-ray-left"
        (left / "session").mkdir(parents=True)
        (left / "lock").touch()
        new = Folder()
        assert sorted(Path(short).iterdir()) == sorted([used.path, new.path])
        used.delete()
        new.delete()
        assert list(Path(short).iterdir()) == []


# Secrets ------------------------------------------------------------------------------------------------------------

KEY = "sk-not-to-be-seen"


def secret_job() -> Job:
    settings = Settings(llm="openai:m", nli="scripted:n.json", api_key=KEY, headers={"X-Team": KEY}, hub_token=KEY)
    return Job(settings=settings)


def test_secrets_do_not_travel() -> None:
    task = without_secrets(secret_job())
    assert task.secrets == ("api_key", "headers", "hub_token")
    assert KEY.encode() not in pickle.dumps(task)
    assert without_secrets(Job(settings=Settings())).secrets == ()


def test_a_worker_takes_them_from_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ray_cluster.secret_variables(secret_job().settings).items():
        monkeypatch.setenv(name, value)
    assert with_secrets(without_secrets(secret_job())) == secret_job()


def test_a_worker_without_them_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    message = "CORRIGENDA_HEADERS, CORRIGENDA_HUB_TOKEN must be set in the environment of every machine of the cluster"
    with pytest.raises(ConfigError, match=message):
        with_secrets(without_secrets(secret_job()))


# Failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "kind", "told"),
    [
        (ModelError("no source"), ModelError, "no source"),
        (MissingExtra("the verifier", "torch", "transformers"), MissingExtra, "the verifier needs the package 'torch'"),
        (RuntimeError("out of memory"), BackendError, "RuntimeError: out of memory"),
    ],
)
def test_what_a_worker_met_when_it_loaded_its_models_is_raised_as_it_was(
    failure: Exception, kind: type[CorrigendaError], told: str
) -> None:
    found = failure_of(ray_rows.packed(failure))
    assert type(found) is kind
    assert f"on the machine {socket.gethostname()}: {told}" in str(found)


# The feed -----------------------------------------------------------------------------------------------------------


def test_a_block_is_the_same_whenever_it_is_taken_until_it_is_forgotten() -> None:
    async def run() -> list[Any]:
        feed = Feed()
        await feed.put(0, ["a", "b"])
        first = [await feed.take(0), await feed.take(0)]
        await feed.forget(0)
        return [*first, await feed.take(0)]

    assert asyncio.run(run()) == [["a", "b"], ["a", "b"], []]


def test_readers_wait_for_what_is_put_in_whatever_the_order_and_for_no_more() -> None:
    async def run() -> list[Any]:
        feed = Feed()
        readers = [asyncio.create_task(feed.take(block)) for block in range(4)]
        await feed.end(3)
        await feed.put(2, ["c"])
        await feed.put(1, ["b"])
        await asyncio.sleep(0)
        assert [reader.done() for reader in readers] == [False, False, False, True]
        await feed.put(0, ["a"])
        return [await reader for reader in readers]

    assert asyncio.run(run()) == [["a"], ["b"], ["c"], None]


# One actor ----------------------------------------------------------------------------------------------------------


class Local:
    """Calls an object's methods as if it were an actor of Ray's."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> SimpleNamespace:
        call: Callable[..., Awaitable[Any]] = getattr(self._inner, name)
        return SimpleNamespace(remote=call)


def block(number: int, *rows: Row) -> Any:
    texts = pa.array([[pack(row) for row in rows]], pa.list_(pa.string()))
    return pa.table({"block": [number], "rows": texts})


def task(folder: Path, version: str = __version__) -> Task:
    settings = Settings(
        llm=f"scripted:{folder}/chat.json", nli=f"scripted:{folder}/nli.json", decomposer="deterministic"
    )
    return Task(job=Job(settings=settings, concurrency=2, cache=False), secrets=(), version=version)


def outcome(table: Any) -> tuple[list[Done], int, str | None]:
    [texts], [attempt], [failure] = (table[name].to_pylist() for name in ("done", "attempt", "failure"))
    return [unpack_done(text) for text in texts], attempt, failure


def test_an_actor_makes_a_block_of_rows_and_keeps_their_order(tmp_path: Path) -> None:
    actor = RowActor(task(prepare(tmp_path)), Local(Feed()))
    rows = [Row(number=n, id=f"r{n}", question="How many hills has Rome?") for n in range(5)]
    done, attempt, failure = outcome(actor(block(0, *rows)))
    assert [(one.number, one.id, one.status) for one in done] == [(n, f"r{n}", "corrected") for n in range(5)]
    assert (attempt, failure) == (1, None)
    assert outcome(actor(block(1))) == ([], 1, None)


def test_a_block_that_was_begun_too_often_is_given_up_with_its_reason(tmp_path: Path) -> None:
    actor = RowActor(task(prepare(tmp_path)), Local(Feed()))
    row = Row(number=7, id="r7", question="How many hills has Rome?")
    attempts = [outcome(actor(block(3, row))) for _ in range(ray_rows.ATTEMPTS + 1)]
    assert [(done.status, attempt) for [done], attempt, _ in attempts] == [
        *(("corrected", number) for number in range(1, ray_rows.ATTEMPTS + 1)),
        ("failed", ray_rows.ATTEMPTS + 1),
    ]
    [done], _, _ = attempts[-1]
    assert (done.number, done.id, done.kind) == (7, "r7", "BackendError")
    assert done.error is not None
    assert done.error.startswith("its worker's process died 4 times while this row or one sent with it was worked on")


def test_an_actor_that_has_no_models_says_why_with_each_block(tmp_path: Path) -> None:
    actor = RowActor(task(tmp_path), Local(Feed()))
    done, _, failure = outcome(actor(block(0, Row(number=0, id="r0", question="Why?"))))
    assert done == []
    assert "the file cannot be read" in json.loads(str(failure))["told"]


def test_an_actor_of_another_version_says_so(tmp_path: Path) -> None:
    actor = RowActor(task(prepare(tmp_path), version="0.0.1"), Local(Feed()))
    _, _, failure = outcome(actor(block(0, Row(number=0, id="r0", question="Why?"))))
    with pytest.raises(ConfigError, match=r"is installed there, and 0\.0\.1 sends the rows; install the same version"):
        raise failure_of(str(failure))


def test_outcomes_travel_as_one_row() -> None:
    assert table_of([Done(number=1, id="a"), Done(number=2, id="b")]).num_rows == 1
