"""The engine on Ray, on a real Ray of this machine: what it makes, what it survives, what it says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.batches import MODELS, batch, lines, many, prepare, started, timeless, write_lines
from tests.fake_openai import FakeOpenAI
from tests.scripted import ASKED

from corrigenda.batch.engine import Stop
from corrigenda.batch.engine_ray import RayEngine
from corrigenda.batch.ray_cluster import RayOptions, connect, disconnect
from corrigenda.batch.rows import Done, Row
from corrigenda.batch.worker import Job
from corrigenda.errors import ConfigError
from corrigenda.settings import Settings

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="Ray is tested where there is /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),  # of itself, about itself
]

TWO = RayOptions(actors=2, cpus_per_actor=0.5, batch_rows=4)
SLOW = [{**rule, "first_token_s": 0.1} for rule in ASKED]
Hook = Callable[[int, Stop], None]


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    """One Ray for all tests in this process; the engine takes one that is there."""
    cluster = connect(RayOptions(), Settings())
    yield
    disconnect(cluster)


def job(folder: Path, **settings: Any) -> Job:
    base = {"llm": f"scripted:{folder}/chat.json", "nli": f"scripted:{folder}/nli.json", "decomposer": "deterministic"}
    return Job(settings=Settings(**(base | settings)), concurrency=8, cache=False)


def asked(count: int) -> Iterator[Row]:
    return (Row(number=n, id=f"r{n}", question="How many hills has Rome?") for n in range(count))


def ran(made: Job, rows: Iterator[Row], hook: Hook = lambda _, __: None, options: RayOptions = TWO) -> list[Done]:
    """Return what comes of the rows, in order; `hook` is told after each how many there are."""

    async def run() -> list[Done]:
        stop, ended = Stop(), []
        async with aclosing(RayEngine(made, options).run(rows, stop)) as found:
            async for done in found:
                ended.append(done)
                hook(len(ended), stop)
        return sorted(ended, key=lambda done: done.number)

    return asyncio.run(run())


def processes(name: str) -> list[int]:
    """Return the processes of that name that this process's Ray has, the newest first.

    They are children of its raylet, which is our child. Older ones may be those of the test before, on their way out.
    """
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    begun: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text().rpartition(")")[2].split()
                names[int(path.name)] = (path / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:  # it has just ended
                continue
            parents[int(path.name)], begun[int(path.name)] = int(stat[1]), int(stat[19])
    found = [pid for pid in parents if name in names[pid] and parents.get(parents[pid]) == os.getpid()]
    return sorted(found, key=begun.__getitem__, reverse=True)


def killing(name: str, after: int) -> Hook:
    killed: list[int] = []

    def hook(count: int, _: Stop) -> None:
        if count >= after and not killed:
            killed.append(processes(name)[0])
            os.kill(killed[0], signal.SIGKILL)

    return hook


def test_five_hundred_rows_give_the_reports_of_the_engine_in_this_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepare(tmp_path, many(500)))
    models = [f"scripted:{tmp_path}/{part.removeprefix('scripted:')}" if ":" in part else part for part in MODELS]
    common = ("in.jsonl", *models, "--no-cache")
    assert batch(capsys, common[0], "local.jsonl", *common[1:])[0] == 0
    ray = ("--engine", "ray", "--ray-actors", "2", "--ray-cpus-per-actor", "0.5", "--json")
    code, out, err = batch(capsys, common[0], "ray.jsonl", *common[1:], *ray)
    summary = json.loads(out)
    assert (code, summary["rows"]["done"], summary["complete"]) == (0, 500, True)
    assert timeless(lines(tmp_path / "ray.jsonl")) == timeless(lines(tmp_path / "local.jsonl"))
    assert "ray" not in err.replace("ray.jsonl", "").lower()


def test_a_worker_that_is_killed_loses_no_row_and_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran(job(prepare(tmp_path, chat=SLOW)), asked(120), killing("ray::MapWorker", after=20))
    assert [(done.id, done.status) for done in found] == [(f"r{n}", "corrected") for n in range(120)]
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "corrigenda: a worker's process or machine was lost; the rows that it had are made again\n",
    )


def test_a_reader_that_is_killed_loses_no_row(tmp_path: Path) -> None:
    found = ran(job(prepare(tmp_path, chat=SLOW)), asked(120), killing("ray::MapBatches(blocks)", after=20))
    assert [(done.id, done.status) for done in found] == [(f"r{n}", "corrected") for n in range(120)]


def test_rows_on_their_way_are_finished_when_it_is_stopped_gently(tmp_path: Path) -> None:
    taken: Counter[str] = Counter()

    def counted() -> Iterator[Row]:
        for row in asked(10_000):
            taken["rows"] += 1
            yield row

    found = ran(job(prepare(tmp_path)), counted(), lambda count, stop: stop.gently("enough") if count == 10 else None)
    assert len(found) == taken["rows"]
    assert 10 <= len(found) < 100
    assert {done.status for done in found} == {"corrected"}


def test_it_ends_at_once_when_that_is_wanted(tmp_path: Path) -> None:
    slow = [{**rule, "first_token_s": 60.0} if rule["stage"] == "generate" else rule for rule in ASKED]
    quick = Row(number=0, id="quick", answer="Rome has 5 hills.", question="How many hills has Rome?")
    rows = iter([quick, *(replace(row, number=row.number + 1) for row in asked(50))])
    one = RayOptions(actors=1, cpus_per_actor=0.5, batch_rows=1)
    found = ran(job(prepare(tmp_path, chat=slow)), rows, lambda _, stop: stop.now("interrupted"), one)
    assert [done.id for done in found] == ["quick"]


def test_models_that_cannot_be_had_end_the_run_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"on the machine .*: scripted:.*/nli.json: the file cannot be read"):
        ran(job(tmp_path), asked(20))


def test_more_workers_than_fit_are_an_error_before_anything_waits(tmp_path: Path) -> None:
    there = len(os.sched_getaffinity(0))
    with pytest.raises(ConfigError, match=f"{there + 1} workers with 1 CPU each .* there is room for "):
        ran(job(prepare(tmp_path)), asked(20), options=RayOptions(actors=there + 1))


def test_a_run_that_is_interrupted_goes_on_with_a_ray_of_its_own_and_leaves_nothing(
    tmp_path: Path, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own: the whole command, its signals, its key, its Ray from the start to the end."""
    short = tempfile.mkdtemp(prefix="t", dir="/tmp")
    monkeypatch.setenv("TMPDIR", short)
    prepare(tmp_path)
    rows = [{"id": f"r{n}", "question": f"Question {n}?", "answer": "Rome has seven hills."} for n in range(300)]
    write_lines(tmp_path / "in.jsonl", rows)
    (tmp_path / "c.toml").write_text(f'base_url = "{server.base_url}"\napi_key = "sk-of-the-file"\n', "utf-8")
    models = ("--config", "c.toml", "--llm", "openai:m", "--nli", f"scripted:{tmp_path}/nli.json", "--no-cache")
    command = (
        "in.jsonl",
        "out.jsonl",
        *models,
        "--decomposer",
        "deterministic",
        "--engine",
        "ray",
        "--concurrency",
        "4",
    )

    first = started(tmp_path, *command)
    assert server.asked.wait(300)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate()
    assert first.returncode == 130, err
    assert 0 < len(lines(tmp_path / "out.jsonl")) < 300
    assert "stopping: the rows in flight are finished" in err
    assert re.search(r"raylet|core_worker|streaming_executor|WARNING|Warning", out + err) is None

    second = started(tmp_path, *command)
    out, err = second.communicate()
    assert second.returncode == 0, err
    assert [row["id"] for row in lines(tmp_path / "out.jsonl")] == [row["id"] for row in rows]
    assert len(server.received) == 300  # one recall each: none was asked twice
    assert {request.headers["authorization"] for request in server.received} == {"Bearer sk-of-the-file"}
    assert list(Path(short).iterdir()) == []
    shutil.rmtree(short)
