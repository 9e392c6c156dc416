import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from corrigenda import models
from corrigenda.errors import ModelError
from corrigenda.models import ModelInfo, PackageSource, partial
from tests.fake_hub import DATA, HUB, PART, FakeHub, fake_hub, model

TINY = model(HUB)
SHA = hashlib.sha256(DATA).hexdigest()
REQUEST = "/org/tiny/resolve/main/tiny.gguf"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as running:
        yield running


def pull(folder: Path, hub: FakeHub, **options: object) -> Path:
    return models.pull("tiny", cache_dir=folder, hub_url=hub.url, models=(TINY,), **options)  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_pull_fetches_the_file_and_later_ones_do_not(tmp_path: Path, hub: FakeHub) -> None:
    seen: list[tuple[int, int, str]] = []
    path = pull(tmp_path, hub, progress=lambda *what: seen.append(what))
    assert path == tmp_path / "tiny.gguf"
    assert path.read_bytes() == DATA
    assert names(tmp_path) == ["tiny.gguf", "tiny.gguf.lock", "tiny.gguf.ok"]
    assert seen[0] == (0, len(DATA), "downloading tiny (hub)")
    assert seen[-2:] == [
        (len(DATA), len(DATA), "checking the SHA-256 of tiny"),
        (len(DATA), len(DATA), "tiny is here"),
    ]
    assert pull(tmp_path, hub) == path
    assert models.path("tiny", tmp_path, models=(TINY,)) == path
    assert hub.requests == [(REQUEST, None, None)]


def test_the_list_tells_absent_partial_and_present(tmp_path: Path, hub: FakeHub) -> None:
    def info(state: str, size: int) -> list[ModelInfo]:
        return [ModelInfo(model=TINY, state=state, path=tmp_path / "tiny.gguf", bytes_here=size)]  # type: ignore[arg-type]

    assert models.list_models(tmp_path, models=(TINY,)) == info("absent", 0)
    (tmp_path / "tiny.gguf.part").write_bytes(DATA[:625])
    assert models.list_models(tmp_path, models=(TINY,)) == info("partial", 625)
    assert "partial, 25%" in models.describe(info("partial", 625)[0])
    pull(tmp_path, hub)
    assert models.list_models(tmp_path, models=(TINY,)) == info("present", 2500)
    assert models.describe(info("present", 2500)[0]) == (
        f"tiny  0 MB  Apache-2.0  present  {tmp_path / 'tiny.gguf'}  (tests)"
    )


def test_a_path_that_is_not_here_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is not at .*tiny\.gguf.*corrigenda models pull tiny"):
        models.path("tiny", tmp_path, models=(TINY,))
    with pytest.raises(ModelError, match=r"no embedded model is named 'huge'; there are tiny,"):
        models.path("huge", tmp_path, models=(TINY,))


def test_a_broken_connection_is_resumed(tmp_path: Path, hub: FakeHub) -> None:
    hub.cut_after = [700, 600]
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert [wanted for _, wanted, _ in hub.requests] == [None, "bytes=700-", "bytes=1300-"]


def test_a_chunked_answer_without_a_length_is_resumed_too(tmp_path: Path, hub: FakeHub) -> None:
    hub.chunked, hub.cut_after = True, [700]
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert [wanted for _, wanted, _ in hub.requests] == [None, "bytes=700-"]


def test_a_server_without_ranges_starts_over(tmp_path: Path, hub: FakeHub) -> None:
    hub.ranges, hub.cut_after = False, [700]
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert [wanted for _, wanted, _ in hub.requests] == [None, "bytes=700-"]


def test_a_connection_that_always_breaks_is_given_up_and_kept(tmp_path: Path, hub: FakeHub) -> None:
    hub.cut_after = [700, 0, 0, 0]
    with pytest.raises(ModelError, match=r"hub: the connection to 127\.0\.0\.1 broke"):
        pull(tmp_path, hub)
    assert (tmp_path / "tiny.gguf.part").read_bytes() == DATA[:700]


def test_ctrl_c_leaves_what_can_be_resumed(tmp_path: Path, hub: FakeHub) -> None:
    hub.delay_s = 0.005

    def interrupt(done: int, total: int, note: str) -> None:
        if done > 1200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(tmp_path, hub, progress=interrupt)
    kept = (tmp_path / "tiny.gguf.part").stat().st_size
    assert 1200 < kept < len(DATA)
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert hub.requests[-1][1] == f"bytes={kept}-"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"status": 404}, r"127\.0\.0\.1 answered with HTTP status 404 for tiny\.gguf"),
        ({"status": 401}, r"127\.0\.0\.1 answered with HTTP status 401"),
        ({"content_type": "text/html; charset=utf-8"}, r"answered with a web page instead of tiny\.gguf"),
        ({"data": DATA[:-1]}, r"offers 2499 bytes for tiny\.gguf, which has 2500"),
        ({"data": DATA + b"x", "chunked": True}, r"sends more than the 2500 bytes"),
    ],
)
def test_what_is_not_the_file_is_refused(
    tmp_path: Path, hub: FakeHub, settings: dict[str, object], reason: str
) -> None:
    for name, value in settings.items():
        setattr(hub, name, value)
    with pytest.raises(ModelError, match=rf"'tiny' could not be downloaded \(hub: .*{reason}.*CORRIGENDA_MODELS_DIR"):
        pull(tmp_path, hub)
    assert not (tmp_path / "tiny.gguf").exists()


def test_a_wrong_hash_names_both_and_deletes_the_file(tmp_path: Path, hub: FakeHub) -> None:
    hub.data = DATA[:-1] + b"?"
    wrong = hashlib.sha256(hub.data).hexdigest()
    with pytest.raises(ModelError, match=rf"has the SHA-256 {wrong}, not {SHA}; it was deleted"):
        pull(tmp_path, hub)
    assert names(tmp_path) == ["tiny.gguf.lock"]


def test_no_message_shows_the_token_or_a_password(tmp_path: Path, hub: FakeHub) -> None:
    hub.status = 403
    address = hub.url.replace("http://", "http://user:hunter2@")
    with pytest.raises(ModelError) as caught:
        models.pull("tiny", cache_dir=tmp_path, hub_url=address, hub_token="hf_secret", models=(TINY,))
    assert "hunter2" not in str(caught.value)
    assert "hf_secret" not in str(caught.value)
    assert hub.requests[0][2] is not None


def test_the_token_is_sent(tmp_path: Path, hub: FakeHub) -> None:
    pull(tmp_path, hub, hub_token="hf_secret")
    assert hub.requests == [(REQUEST, None, "Bearer hf_secret")]


def test_the_token_does_not_go_where_a_hub_redirects_to(tmp_path: Path, hub: FakeHub) -> None:
    """Hubs redirect downloads to other machines, so redirects are followed; the token is for the hub alone."""
    asked: list[str | None] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization"))
            self.send_response(302)
            self.send_header("Location", f"{hub.url}/cdn?signature=1")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        path = models.pull("tiny", cache_dir=tmp_path, hub_url=url, hub_token="hf_secret", models=(TINY,))
        server.shutdown()
        thread.join()
    assert path.read_bytes() == DATA
    assert (asked, hub.requests) == (["Bearer hf_secret"], [("/cdn?signature=1", None, None)])


def test_a_closed_port_and_a_bad_address_are_reasons(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"hub: 127\.0\.0\.1 is not reachable"):
        models.pull("tiny", cache_dir=tmp_path, hub_url="http://127.0.0.1:9", models=(TINY,))
    with pytest.raises(ModelError, match=r"hub: the hub is not reachable \(.*protocol"):
        models.pull("tiny", cache_dir=tmp_path, hub_url="not an address", models=(TINY,))


def test_a_file_that_was_copied_here_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "tiny.gguf"
    target.write_bytes(DATA)
    assert models.path("tiny", tmp_path, models=(TINY,)) == target
    stat = target.stat()
    assert json.loads((tmp_path / "tiny.gguf.ok").read_text()) == {
        "size": 2500,
        "mtime_ns": stat.st_mtime_ns,
        "sha256": SHA,
    }
    monkeypatch.setattr("corrigenda.models.store.sha256_of", lambda path: pytest.fail("was read again"))
    assert models.path("tiny", tmp_path, models=(TINY,)) == target


def test_a_file_that_changed_is_checked_again(tmp_path: Path, hub: FakeHub) -> None:
    target = pull(tmp_path, hub)
    target.write_bytes(DATA[:-1] + b"?")
    os.utime(target, ns=(1, 1))
    with pytest.raises(ModelError, match=rf"has the SHA-256 [0-9a-f]{{64}}, tiny has {SHA}; move it away"):
        models.path("tiny", tmp_path, models=(TINY,))
    target.write_bytes(DATA[:9])
    with pytest.raises(ModelError, match=r"has 9 bytes, tiny has 2500"):
        models.path("tiny", tmp_path, models=(TINY,))


def test_verify_finds_what_the_marker_hides(tmp_path: Path, hub: FakeHub) -> None:
    target = pull(tmp_path, hub)
    stat = target.stat()
    target.write_bytes(DATA[:-1] + b"?")
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert models.path("tiny", tmp_path, models=(TINY,)) == target
    notes: list[str] = []
    assert pull(tmp_path, hub, verify=True, progress=lambda *what: notes.append(what[2])).read_bytes() == DATA
    assert (tmp_path / "tiny.gguf.bad").read_bytes() == DATA[:-1] + b"?"
    assert notes[0].startswith("the file that is here is not the model; it is kept as tiny.gguf.bad (")


def test_a_damaged_chunk_is_fetched_again(tmp_path: Path, hub: FakeHub) -> None:
    recorded = [hashlib.sha256(DATA[i * PART : (i + 1) * PART]).hexdigest() for i in range(2)]
    both = model()  # its packages set the size of a chunk
    (tmp_path / "tiny.gguf.part.json").write_text(json.dumps({"chunk": PART, "sha256": recorded}))
    (tmp_path / "tiny.gguf.part").write_bytes(DATA[:1500] + bytes(500) + DATA[2000:2200])
    path = models.pull("tiny", cache_dir=tmp_path, hub_url=hub.url, models=(both,))
    assert path.read_bytes() == DATA
    assert hub.requests == [(REQUEST, "bytes=1000-", None)]


def test_a_complete_download_that_was_never_moved_needs_no_source(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "tiny.gguf.part").write_bytes(DATA)
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert hub.requests == []


def test_a_disk_too_small_is_told_before_anything_is_fetched(
    tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=2499)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ModelError, match=r"is full: 2500 bytes are needed, 2499 are free; .*is kept"):
        pull(tmp_path, hub)
    assert hub.requests == []


def test_a_disk_that_fills_up_keeps_what_is_there(
    tmp_path: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated: the writer's own call to the system fails, as it does on a full disk."""
    write, written = partial.write_all, [0]

    def fill_up(file: object, data: memoryview) -> None:
        if written[0] + len(data) > 1500:
            raise OSError(errno.ENOSPC, "No space left on device")
        written[0] += len(data)
        write(file, data)  # type: ignore[arg-type]

    monkeypatch.setattr(partial, "write_all", fill_up)
    with pytest.raises(ModelError, match=r"is full: \d+ bytes are needed, \d+ are free"):
        pull(tmp_path, hub)
    kept = (tmp_path / "tiny.gguf.part").read_bytes()
    assert 0 < len(kept) <= 1500
    assert DATA.startswith(kept)
    monkeypatch.setattr(partial, "write_all", write)
    assert pull(tmp_path, hub).read_bytes() == DATA
    assert hub.requests[-1][1] == f"bytes={len(kept)}-"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"the models folder .* cannot be written: .*CORRIGENDA_MODELS_DIR"):
        pull(tmp_path / "file" / "models", hub)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_without_write_permission(tmp_path: Path, hub: FakeHub) -> None:
    folder = tmp_path / "models"
    folder.mkdir(mode=0o555)
    with pytest.raises(ModelError, match=r"cannot be written: Permission denied"):
        pull(folder, hub)


def test_a_lock_file_left_behind_is_no_lock(tmp_path: Path, hub: FakeHub) -> None:
    (tmp_path / "tiny.gguf.lock").write_text("12345")
    assert pull(tmp_path, hub).read_bytes() == DATA


def test_two_processes_download_once(tmp_path: Path, hub: FakeHub) -> None:
    hub.delay_s = 0.04
    script = (
        "import sys; from fake_hub import HUB, model; from corrigenda import models; notes = []\n"
        "models.pull('tiny', cache_dir=sys.argv[1], hub_url=sys.argv[2], models=(model(HUB),),\n"
        "            progress=lambda done, total, note: notes.append(note))\n"
        "print(any(note.startswith('waiting for another process') for note in notes))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), hub.url]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    assert [process.returncode for process in started] == [0, 0]
    assert len(hub.requests) == 1
    assert said == ["False", "True"]


def test_resolve_takes_names_and_paths(tmp_path: Path, hub: FakeHub) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF")
    assert models.resolve(str(file)) == file
    assert models.resolve(f"local:{file}") == file
    with pytest.raises(ModelError, match=r"there is no model file at '/no/such\.gguf'"):
        models.resolve("local:/no/such.gguf")
    with pytest.raises(ModelError, match="models pull tiny"):
        models.resolve("local:tiny", cache_dir=tmp_path, download=False, models=(TINY,))
    pulled = models.resolve("local:tiny", cache_dir=tmp_path, hub_url=hub.url, models=(TINY,))
    assert pulled == tmp_path / "tiny.gguf"
    assert models.resolve("tiny", cache_dir=tmp_path, download=False, models=(TINY,)) == pulled
    with pytest.raises(ModelError, match=r"qwen2\.5-coder-1\.5b-instruct.* is not at"):
        models.resolve("local:", cache_dir=tmp_path, download=False)


def test_the_entries_are_consistent() -> None:
    assert models.DEFAULT == "qwen2.5-coder-1.5b-instruct"
    assert [(m.name, m.size, m.licence) for m in models.MODELS] == [
        ("qwen2.5-coder-1.5b-instruct", 1_117_320_768, "Apache-2.0"),
        ("qwen2.5-coder-0.5b-instruct", 491_400_064, "Apache-2.0"),
    ]
    for entry in models.MODELS:
        for source in entry.sources:
            if isinstance(source, PackageSource):
                last = entry.size - (source.parts - 1) * source.part_size
                assert 0 < last <= source.part_size
        assert models.default_dir() / entry.file == next(
            info.path for info in models.list_models() if info.model is entry
        )
