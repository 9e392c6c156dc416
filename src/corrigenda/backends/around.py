"""What every verifier that wraps another one shares: it is known by the inner one's name, limits and bounds."""

from __future__ import annotations

from collections.abc import Callable

from corrigenda.ports import Entailer
from corrigenda.types import Evidence


class AroundEntailer:
    """The part of an Entailer over another one that passes on what the inner one says of itself."""

    def __init__(self, inner: Entailer) -> None:
        """Wrap `inner`, which is not changed."""
        self._inner = inner
        self.bounds: tuple[float, float] | None = getattr(inner, "bounds", None)
        """Floor and ceiling for the policy `bounded`, where the inner verifier was calibrated with some."""
        self.batches: bool = getattr(inner, "batches", True)
        """Whether the inner verifier scores many pairs faster together than one by one."""

    @property
    def name(self) -> str:
        """The inner verifier's name."""
        return self._inner.name

    @property
    def warnings(self) -> tuple[str, ...]:
        """What users of the inner verifier should know."""
        return tuple(getattr(self._inner, "warnings", ()))

    @property
    def explain(self) -> Callable[[Evidence, str], str | None] | None:
        """The inner verifier's words for what decides a window; None where it has none."""
        return getattr(self._inner, "explain", None)

    @property
    def max_tokens(self) -> int:
        """The inner verifier's limit."""
        return self._inner.max_tokens

    def count_tokens(self, text: str) -> int:
        """Count with the inner verifier."""
        return self._inner.count_tokens(text)

    async def aclose(self) -> None:
        """Close the inner verifier."""
        await self._inner.aclose()
