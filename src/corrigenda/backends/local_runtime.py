"""llama.cpp in this process: checks a GGUF file, loads it, and runs one request at a time per slot.

`chat_local` puts the ChatModel port on top of this. Everything here is blocking and knows no event loop, so
that one model can serve several `asyncio.run` calls one after the other.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corrigenda.errors import BackendError, BadReply, ConfigError, MissingExtra, ModelError, RequestRefused

GGUF_MAGIC = b"GGUF"
SMALLEST_GGUF = 1024
"""Bytes; a header alone is longer than this, and llama.cpp reports nothing that would help on such a file."""
MEMORY_OVER_FILE = 1.2
"""Memory wanted per byte of model file: the weights once more in the layout the processor likes, and buffers."""
PROMPT_BATCH = 64
"""Tokens of a prompt that are read between two looks at the cancel flag. See docs/models.md for the measurement."""


def library() -> Any:
    """Import `xllamacpp`. Raises MissingExtra when it is absent, ConfigError when it cannot be loaded."""
    if find_spec("xllamacpp") is None:
        raise MissingExtra("the embedded chat model", "xllamacpp", "embedded")
    try:
        with _sleeping_threads():
            return import_module("xllamacpp")
    except ImportError as exc:
        remedy = "; install the system package libgomp1 (Debian, Ubuntu) or libgomp" if "libgomp" in str(exc) else ""
        raise ConfigError(f"the package 'xllamacpp' cannot be loaded: {exc}{remedy}") from exc


@contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Make OpenMP's threads sleep while they wait for each other, unless the user said otherwise.

    By default they spin, and as soon as another program wants the same cores each of the hundreds of barriers
    per token costs a time slice (measured: up to 75 times slower). OpenMP reads this while it is being loaded
    and offers no other way, so the variable is there for just that long.
    """
    name = "OMP_WAIT_POLICY"
    if name in os.environ or "GOMP_SPINCOUNT" in os.environ:
        yield
        return
    os.environ[name] = "PASSIVE"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def check_gguf(path: Path) -> None:
    """Raise ModelError when `path` is not a readable GGUF file or is too large for the free memory."""
    pull = "run `corrigenda models list` to see which models there are, or give the path of a GGUF file"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as exc:
        raise ModelError(f"model file {str(path)!r} cannot be read: {exc.strerror or exc}; {pull}") from exc
    if not head.startswith(GGUF_MAGIC):
        raise ModelError(f"{str(path)!r} is not a GGUF file: it begins with {head[:4]!r}, not {GGUF_MAGIC!r}; {pull}")
    if size < SMALLEST_GGUF:
        raise ModelError(f"model file {str(path)!r} is cut off: it has {size} bytes; fetch it again")
    free = available_memory()
    if free is not None and free < size * MEMORY_OVER_FILE:
        raise ModelError(
            f"too little memory for {str(path)!r}: {size * MEMORY_OVER_FILE / 1e9:.1f} GB are needed, "
            f"{free / 1e9:.1f} GB are free; close other programs or choose a smaller model"
        )


def available_memory() -> int | None:
    """Return the bytes of memory that can be had without swapping, or None where the system does not say.

    Linux: what the kernel calls available, or what is left below the control group's limit when that is less.
    """
    amounts = []
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                amounts.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError):
        return None
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / name).read_text("ascii").strip() for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        if limit != "max":
            # The page cache counts as used but is given back when it is needed.
            amounts.append(int(limit) - int(used) + int(stat.get("file", 0)))
    except (OSError, ValueError):
        pass  # no control groups, or version 1 of them: the first figure stands
    return min(amounts, default=None)


class Run:
    """One request while it is worked on. `cancel()` may be called from any thread and more than once."""

    def __init__(self) -> None:
        """Start uncancelled."""
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop at the next token or, while the prompt is read, at the end of its current batch."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()


class Slots:
    """Hands out slot numbers, each to one holder at a time, waiting holders in order of arrival.

    Threads and event loops may come and go: a waiter is a concurrent future.
    """

    def __init__(self, numbers: range) -> None:
        """Offer these slots, all free."""
        self._lock = threading.Lock()
        self._free = {number: "" for number in numbers}
        self._waiting: list[tuple[str, Future[int]]] = []

    def take(self, prompt: str) -> Future[int]:
        """Return a future for a slot; among several free ones, the one that read most of `prompt` already."""
        future: Future[int] = Future()
        with self._lock:
            if self._free:
                future.set_result(self._grant(prompt))
            else:
                self._waiting.append((prompt, future))
        return future

    def give_back(self, number: int, prompt: str) -> None:
        """Return a slot, which now holds `prompt`; the longest waiting holder gets it."""
        with self._lock:
            self._free[number] = prompt
            while self._waiting:
                wanted, future = self._waiting.pop(0)
                if future.set_running_or_notify_cancel():
                    future.set_result(self._grant(wanted))
                    return

    def _grant(self, prompt: str) -> int:
        """Take a slot for `prompt` out of the free ones, of which there is at least one."""
        number = max(self._free, key=lambda n: _shared(self._free[n], prompt))
        del self._free[number]
        return number


class PrefixSlots(Slots):
    """Slots for requests that come one after the other, each kept for one beginning.

    The beginning is the first message: the text up to a NUL; requests of a single message have none and share a slot.
    The longest common beginning, by which `Slots` chooses, would send a request to the slot of another kind of
    request as soon as both begin with the same letters, and what that slot holds would be lost.
    """

    def __init__(self, numbers: range) -> None:
        """Offer these slots, all unused."""
        super().__init__(numbers[:1])
        self._numbers = list(numbers)
        self._slot_of: dict[str, int] = {}

    def _grant(self, prompt: str) -> int:
        self._free.clear()  # the one permit, under whatever number it came back
        first, several, _ = prompt.partition("\0")
        beginning = first if several else ""
        number = self._slot_of.pop(beginning, None)
        if number is None and len(self._slot_of) < len(self._numbers):
            number = self._numbers[len(self._slot_of)]
        elif number is None:
            number = self._slot_of.pop(next(iter(self._slot_of)))  # the one that was longest unused
        self._slot_of[beginning] = number
        return number


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Runtime:
    """A loaded model. Blocking; `run` is safe from several threads at once, each with a slot of its own."""

    def __init__(self, path: Path, *, n_ctx: int, threads: int, slots: int, exact: bool) -> None:
        """Load the file; `n_ctx` tokens of context for each of `slots`. Raises ModelError, MissingExtra."""
        module = library()
        check_gguf(path)
        self._key = secrets.token_hex(16)
        params = module.CommonParams()
        params.model.path = str(path)
        params.n_ctx = n_ctx * slots
        params.n_parallel = slots
        params.n_batch = params.n_ubatch = PROMPT_BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        if exact:
            # Both choose between routines that round differently by how many tokens are read together: a
            # log-probability moved by up to 0.08 with it.
            params.no_extra_bufts = True
            params.flash_attn_type = module.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.fit_params = False  # it would shrink the context in silence
        params.warmup = False  # the first request does the same work, and is wanted
        params.verbosity = -1  # llama.cpp writes to stderr by itself; failures come back as errors
        params.cache_ram_mib = 0  # slots are assigned here, so that nothing needs to be kept beside them
        # The library always listens on a free port of this machine. Nobody but this object gets in, and only
        # to count tokens.
        params.api_keys = [self._key]
        params.hostnames = ["127.0.0.1"]
        params.cors_origins = ""
        params.endpoint_slots = params.ui = False
        params.n_threads_http = 1
        try:
            self._server: Any = module.Server(params)
        except (RuntimeError, MemoryError) as exc:
            raise ModelError(
                f"llama.cpp cannot load {str(path)!r} ({path.stat().st_size} bytes): the file is cut off or damaged, "
                f"of a kind it does not know, or memory for {n_ctx * slots} tokens of context is lacking; check the "
                f"file with `corrigenda models pull --verify`, or fetch it again"
            ) from exc
        self._address = str(self._server.listening_address).removeprefix("http://")

    def run(self, body: Mapping[str, Any], run: Run, on_chunk: Callable[[dict[str, Any]], None]) -> None:
        """Work on one request; blocks until it is done or cancelled. `on_chunk` gets each streamed piece.

        Raises RequestRefused for a request that llama.cpp does not take (too long, an unknown schema),
        BackendError for anything that goes wrong later.
        """
        server = self._server
        if server is None:
            raise BackendError("the embedded chat model was closed")
        failed: list[Mapping[str, Any]] = []

        def callback(chunk: dict[str, Any]) -> bool:
            # An exception would be swallowed by the library; whatever goes wrong must end the run.
            if run.cancelled:
                return True
            if "choices" not in chunk:
                failed.append(chunk)
                return True
            try:
                on_chunk(chunk)
            except RuntimeError:
                return True  # the event loop that wanted it is gone
            return run.cancelled

        request = {**body, "stream": True, "return_progress": True, "stream_options": {"include_usage": True}}
        try:
            server.handle_chat_completions(request, callback)
        except (ValueError, RuntimeError) as exc:
            raise RequestRefused(f"the embedded chat model does not take the request: {exc}", 400) from exc
        if failed:
            raise _error_of(failed[0])

    def count_tokens(self, text: str) -> int | None:
        """Return the number of tokens in `text` as llama.cpp counts them, or None when it does not answer."""
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/tokenize", json.dumps({"content": text}), headers)
            return len(json.loads(connection.getresponse().read())["tokens"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return None
        finally:
            connection.close()

    def close(self) -> None:
        """Unload the model; waits until llama.cpp's own thread has ended."""
        self._server = None


def _error_of(chunk: Mapping[str, Any]) -> BackendError:
    """Translate an error object of llama.cpp's."""
    error = chunk.get("error", chunk)
    error = error if isinstance(error, Mapping) else {"message": error}
    if error.get("type") == "exceed_context_size_error":
        return RequestRefused(
            f"the request has {error.get('n_prompt_tokens')} tokens, more than the {error.get('n_ctx')} tokens of "
            f"context that the embedded chat model has; shorten the text or raise n_ctx",
            400,
        )
    message, code = str(error.get("message", chunk)), error.get("code")
    if isinstance(code, int) and 400 <= code < 500:
        return RequestRefused(f"the embedded chat model does not take the request: {message}", code)
    return BadReply(f"the embedded chat model failed: {message}")
