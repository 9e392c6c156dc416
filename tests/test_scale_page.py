"""The numbers of docs/scale.md are what benchmarks/scale.py makes of what is kept; and what it makes of some."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import scale
from benchmarks.scale_numbers import numbers

KIND = {
    "rows_per_s": [90.0, 100.0, 120.0],
    "calls": 1.0,
    "prompt_tokens": 100.0,
    "completion_tokens": 20.0,
    "pairs": 4.0,
    "seconds": 2.0,
    "state_bytes": 1000.0,
    "output_bytes": 4000.0,
}
OWN: dict[str, Any] = {
    "made": "2026-01-02",
    "machine": {"processor": "a chip", "cores": 2},
    "result": {
        "rows": 3000,
        "kinds": {"given": KIND | {"calls": 0.0}, "recalled": KIND, "asked": KIND | {"calls": 2.0}},
        "driver": {"taken_per_s": [2000.0], "written_per_s": [900.0]},
    },
}
PEERS = {"result": {"shapes": {"small": {"pairs": 48, "cpu_s": {"onnx": [4.8], "onnx-int8": [2.4]}}}}}
RAY = [{"model": "no waiting", "way": "Ray, 1 worker", "rows_per_s": [80.0]}]


def cells(text: str) -> dict[str, list[str]]:
    """Return the tables' rows by what stands first in them."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {first: rest for first, *rest in rows}


def test_the_page_is_what_the_kept_results_say() -> None:
    assert scale.PAGE.read_text("utf-8") == scale.written(), "write the page again: python -m benchmarks.scale --write"


def test_a_hundred_million_are_one_multiplied() -> None:
    found = cells(numbers(OWN, {"nli_peers": PEERS, "batch": {"result": {"ray": RAY}}}))
    assert found["rows/s of one process, models aside"] == ["100 (90 to 120)"] * 3
    assert found["calls, millions"] == ["0", "100", "200"]
    assert found["tokens, billions"] == ["12.0"] * 3
    assert found["dollars for tokens"] == ["2,700"] * 3  # 10 billion at 0.15 and 2 billion at 0.60 a million
    assert found["pairs, millions"] == ["400"] * 3
    assert found["core hours of the batch itself"] == ["278"] * 3  # 100 million over 100 a second
    assert found["core hours of the verifier, small"] == ["11,111"] * 3  # 400 million over 10 a second
    assert found["core hours of the verifier, small int8"] == ["5,556"] * 3
    assert found["core hours of the verifier, large"] == ["79,012"] * 3  # 24·1024² of work for 6·768²
    assert found["machines to be done in 24 h, small"] == ["30"] * 3  # 474.5 cores, 16 each
    assert found["dollars for them, small"] == ["461"] * 3
    assert found["rows a second to be done in 24 h"] == ["1,157"] * 3
    assert found["rows in flight for that"] == ["2,315"] * 3
    assert found["calls a minute"] == ["0", "69,444", "138,889"]
    assert found["hours of one driver, were it alone"] == ["45"] * 3  # 14 to take them in, 31 to write them out
    assert found["GB of state"] == ["100"] * 3


def test_what_saturates_first_stands_first() -> None:
    text = numbers(OWN, {"nli_peers": PEERS})
    assert (
        "- asked and checked: a machine's cores, verifier large (5.6), a machine's cores, verifier large int8 (11.2), "
        "a machine's cores, verifier small (40.0), a machine's cores, verifier small int8 (80.0), the provider's "
        "requests (250), one driver (621), a machine's cores, batch alone (1,600), its tokens (20,833)." in text
    )


def test_what_is_not_measured_is_said_to_be_so() -> None:
    assert numbers(None, {}) == "*Not measured yet: `python -m benchmarks.scale`.*"
    text = numbers(OWN, {})
    assert "- Ray: not measured yet (`make bench`)." in text
    assert "- Verifiers: not measured yet (`make bench`)." in text
    assert "**extrapolated**" in text


def test_numbers_take_the_place_between_the_marks_and_nothing_else() -> None:
    text = f"above\n{scale.BEGIN}old\n{scale.END}below\n"
    assert scale.page(text, "new") == f"above\n{scale.BEGIN}\nnew\n\n{scale.END}below\n"
    with pytest.raises(ValueError, match="has no <!-- numbers"):
        scale.page("nothing is marked here", "new")
