"""Connecting to Ray, or starting it on this machine; and how many workers it has room for.

Nothing is asked of Ray that could wait for ever: an address is tried first (by a connection, then by a process that
can be killed), and a pool of workers is compared with what the cluster has before it is asked for.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corrigenda.errors import ConfigError, MissingExtra, Unreachable
from corrigenda.locks import try_lock
from corrigenda.settings import SECRETS, Settings

REACH_S = 10.0
"""Seconds for a connection to the cluster's address."""
JOIN_S = 60.0
"""Seconds for a first process to join the cluster; Ray's own attempts end after two minutes and more."""
STORE_BYTES = 256 << 20
"""Shared memory of a Ray that is started here. Rows are small, and few are on their way at a time."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing phones home
    "RAY_DATA_USAGE_DISABLED": "1",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # the core writes its warnings past Python, onto the terminal
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # its future behaviour, of which it warns otherwise
}
ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes a Ray that is started here listen on the loopback interface only, on Linux too; read when Ray is imported."""
_PREFIX, _LOCK = "corrigenda-ray-", "lock"
_SHORT = 40
"""Characters of a folder's path that leave room for the names of Ray's sockets, of which 107 fit."""


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """How a batch uses Ray. Raises ConfigError when a value is out of range."""

    address: str | None = None
    """`HOST:PORT` of a cluster that this machine belongs to, or `auto` for the one that runs here; None: Ray is started
    on this machine, and ended with the run."""
    actors: int | None = None
    """Workers, each with a set of models of its own; None: as many as there is room for."""
    cpus_per_actor: float = 1.0
    """CPUs that Ray sets aside for a worker."""
    gpus_per_actor: float = 0.0
    """GPUs that Ray sets aside for a worker."""
    batch_rows: int = 8
    """Rows that travel together; their outcomes do, too."""
    start_s: float = 300.0
    """Seconds that the workers' processes may take to start, models not included."""

    def __post_init__(self) -> None:
        """Check the values."""
        for name, value, low in (
            ("--ray-actors", self.actors, 1),
            ("--ray-batch-rows", self.batch_rows, 1),
            ("--ray-cpus-per-actor", self.cpus_per_actor, 0),
            ("--ray-gpus-per-actor", self.gpus_per_actor, 0),
        ):
            if value is not None and not (math.isfinite(value) and value >= low):
                raise ConfigError(f"{name} must be at least {low}, got {value!r}")
        if not self.cpus_per_actor and not self.gpus_per_actor and self.actors is None:
            raise ConfigError("--ray-cpus-per-actor 0 needs --ray-actors N: nothing else bounds the number of workers")
        if self.address is not None and self.address.startswith("ray://"):
            raise ConfigError(
                f"--ray-address {self.address!r} is one of Ray's client; run the command on a machine of the cluster, "
                "with --ray-address auto (or submit it with `ray job submit`)"
            )


def require_ray() -> None:
    """Raise MissingExtra when Ray or pyarrow is not installed. Imports neither."""
    for package in ("ray", "pyarrow"):
        if find_spec(package) is None:
            raise MissingExtra("--engine ray", package, "ray")


class Folder:
    """A new folder for a Ray that is started here, and the lock by which later runs see that it is in use."""

    def __init__(self) -> None:
        """Make it, near the root, since paths of sockets must be short; delete those that killed runs have left."""
        base = Path(tempfile.gettempdir())
        if len(str(base)) > _SHORT:
            base = Path("/tmp")  # noqa: S108  # `mkdtemp` makes a folder that is this user's alone
        for lock in base.glob(f"{_PREFIX}*/{_LOCK}"):
            with suppress(OSError), lock.open("rb") as file:
                if try_lock(file):
                    shutil.rmtree(lock.parent, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._lock = (self.path / _LOCK).open("wb")
        try_lock(self._lock)

    def delete(self) -> None:
        """Delete it with all that is in it."""
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Ray that this process is connected to."""

    nodes: tuple[Mapping[str, float], ...]
    """What each machine has in all (`CPU`, `GPU`)."""
    free: Mapping[str, float]
    """What is free in the whole cluster."""
    here: str
    """The id of this machine."""
    ours: bool
    """Whether it was started here, and is ended here."""
    folder: Folder | None = None
    """Where it keeps its files, if it was started here."""

    def room(self, cpus: float, gpus: float) -> int:
        """Return how many workers fit into the cluster when it is empty: each must fit one machine."""
        return sum(_fits(node, cpus, gpus) for node in self.nodes)

    def described(self) -> str:
        """Return what there is, in words."""
        total = {name: sum(node.get(name, 0.0) for node in self.nodes) for name in ("CPU", "GPU")}
        parts = [
            f"{_counted(total[name], name)}, of which {self.free.get(name, 0.0):g} free"
            for name in ("CPU", "GPU")
            if total[name] or name == "CPU"
        ]
        most = max((node.get("CPU", 0.0) for node in self.nodes), default=0.0)
        many = f"{len(self.nodes)} machines with up to {_counted(most, 'CPU')} each"
        return f"{' and '.join(parts)}, on {many if len(self.nodes) > 1 else 'one machine'}"


def _fits(has: Mapping[str, float], cpus: float, gpus: float) -> int:
    asked = (("CPU", cpus), ("GPU", gpus))
    return min((math.floor(has.get(name, 0.0) / need + 1e-9) for name, need in asked if need), default=1)


def _counted(number: float, name: str) -> str:
    return f"{number:g} {name}{'' if number == 1 else 's'}"


def needs(options: RayOptions) -> str:
    """Return what a worker asks for, in words."""
    cpus, gpus = options.cpus_per_actor, options.gpus_per_actor
    return _counted(cpus, "CPU") + (f" and {_counted(gpus, 'GPU')}" if gpus else "")


def pool_size(options: RayOptions, cluster: Cluster) -> int:
    """Return how many workers there will be. Raises ConfigError when they cannot start."""
    cpus, gpus = options.cpus_per_actor, options.gpus_per_actor
    room = cluster.room(cpus, gpus) if cpus or gpus else (options.actors or 1)
    asked = options.actors or 1
    if asked > room:
        remedy = "set fewer --ray-actors, or less --ray-cpus-per-actor" + (" and --ray-gpus-per-actor" if gpus else "")
        raise ConfigError(
            f"{asked} workers with {needs(options)} each (--ray-actors, --ray-cpus-per-actor) cannot start: there is "
            f"room for {room}; the cluster has {cluster.described()}; {remedy}, or add machines"
        )
    if options.actors is not None:
        return options.actors
    free = dict(cluster.free)
    if sum(node.get("CPU", 0.0) for node in cluster.nodes) >= 1.0 + cpus:
        free["CPU"] = free.get("CPU", 0.0) - 1.0  # for this process: it reads the input and writes the state
    return max(1, min(room, _fits(free, cpus, gpus)))


def connect(options: RayOptions, settings: Settings) -> Cluster:
    """Connect to the cluster, or start one here. Blocks for a bounded time.

    Raises MissingExtra when Ray is not installed, Unreachable when there is no cluster at the address, and ConfigError
    when this process is connected to another one already.
    """
    require_ray()
    os.environ.update(QUIET if options.address else QUIET | ALONE)  # for good: Ray reads some again and again

    import ray  # noqa: PLC0415  # optional, and slow to import

    _silence()
    if ray.is_initialized():
        return _cluster(ours=False)
    common: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    if options.address is not None:
        _reach(options.address)
        with _without_greeting():
            ray.init(address=options.address, **common)
        return _cluster(ours=True)
    folder = Folder()
    try:
        with _environment(secret_variables(settings)), _without_greeting():
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                _temp_dir=str(folder.path),
                _node_ip_address="127.0.0.1",
                **common,
            )
        return _cluster(ours=True, folder=folder)
    except BaseException as exc:
        ray.shutdown()
        folder.delete()
        if isinstance(exc, Exception):
            raise Unreachable(f"Ray does not start on this machine: {_line(exc)}; try `ray start --head`") from exc
        raise


def _silence() -> None:
    """Keep what Ray prints about lost workers from standard output, where it would spoil what is written there.

    There is no setting for it; where the name below has gone, its lines come through.
    """
    import ray._private.worker as internal  # noqa: PLC0415  # as above

    if hasattr(internal, "_worker_logs_enabled"):
        internal._worker_logs_enabled = False


def disconnect(cluster: Cluster) -> None:
    """End what `connect` began. Blocks for some seconds."""
    import ray  # noqa: PLC0415  # as above

    if cluster.ours:
        ray.shutdown()
    if cluster.folder is not None:
        cluster.folder.delete()


def _cluster(*, ours: bool, folder: Folder | None = None) -> Cluster:
    import ray  # noqa: PLC0415  # as above

    alive = [node for node in ray.nodes() if node["Alive"]]
    return Cluster(
        nodes=tuple({name: float(value) for name, value in node["Resources"].items()} for node in alive),
        free={name: float(value) for name, value in ray.available_resources().items()},
        here=ray.get_runtime_context().get_node_id(),
        ours=ours,
        folder=folder,
    )


def _reach(address: str) -> None:
    """Raise Unreachable when nothing that speaks Ray answers at an address. Takes `REACH_S` + `JOIN_S` at most."""
    remedy = "check the address (the head's, `HOST:6379` as a rule), or leave --ray-address out to work on this machine"
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"--ray-address must be HOST:PORT or auto, got {address!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
        except (OSError, OverflowError) as exc:
            raise Unreachable(f"nothing answers at the Ray address {address!r}: {_line(exc)}; {remedy}") from exc
    code = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False); ray.shutdown()"
    try:
        subprocess.run(  # noqa: S603  # our own interpreter; the address is an argument, not code
            [sys.executable, "-c", code, address],
            check=True,
            timeout=JOIN_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except subprocess.TimeoutExpired as exc:
        raise Unreachable(
            f"what answers at the Ray address {address!r} is no Ray cluster that lets this process join within "
            f"{JOIN_S:g} s; {remedy}"
        ) from exc
    except subprocess.CalledProcessError as exc:
        told = exc.stderr.decode("utf-8", "replace")
        if "AuthenticationError" in told:
            raise Unreachable(
                f"the Ray cluster at {address!r} wants its token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN where "
                "~/.ray/auth_token does not hold it (`ray get-auth-token` on the head shows it)"
            ) from exc
        last = told.strip().splitlines()[-1:]
        raise Unreachable(f"the Ray cluster at {address!r} cannot be joined: {' '.join(last)[:300]}; {remedy}") from exc


def secret_variables(settings: Settings) -> dict[str, str]:
    """Return the secrets as variables, for the processes of a Ray that is started here: they inherit them."""
    found = {}
    for name in SECRETS:
        value = getattr(settings, name)
        if value:
            text = "\n".join(f"{k}: {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
            found[f"CORRIGENDA_{name.upper()}"] = text
    return found


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for what is started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _without_greeting() -> Iterator[None]:
    """Keep from the terminal that Ray's core was told to be quiet, which it says there, past Python's `sys.stderr`.

    Whatever else comes meanwhile is written at the end.
    """
    try:
        terminal = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as came:
        os.dup2(came.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            came.seek(0)
            rest = b"".join(line for line in came if b"RAY_BACKEND_LOG_LEVEL" not in line)
            with suppress(OSError):
                os.write(2, rest)


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:300] or type(exc).__name__
