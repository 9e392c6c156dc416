"""Hidden reasoning in what a model writes, and the characters that no text may hold. Pure.

Models put their reasoning between tags, and servers leave the tags in. Some chat templates put the opening tag
into the prompt, so that a reply begins inside the block and only the closing tag is in it.
"""

from __future__ import annotations

import re

THINK_TAGS = ("think", "thinking", "reasoning")
"""Names of the tags that enclose reasoning; matched without regard to case."""

_OPEN = re.compile(rf"(?<!`)<({'|'.join(THINK_TAGS)})>", re.IGNORECASE)
_OPEN_TAGS = tuple(f"<{tag}>" for tag in THINK_TAGS)
_CLOSE = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in THINK_TAGS}
# A closing tag at the end of a line is one whose opening tag is missing; in the middle of a line it is somebody
# writing about tags. Where more text may come, only the line break shows that the line has ended.
_ORPHAN = re.compile(rf"</(?:{'|'.join(THINK_TAGS)})>[ \t]*[\r\n]", re.IGNORECASE)
_LAST_ORPHAN = re.compile(rf"</(?:{'|'.join(THINK_TAGS)})>[ \t]*(?:[\r\n]|\Z)", re.IGNORECASE)
_LOOK_BACK = 200
"""Characters that are searched again for a tag that was cut in two; more white space than this follows none."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def well_formed(text: str) -> str:
    """Return `text` with surrogate pairs joined to the characters they mean, and lone ones replaced by U+FFFD.

    JSON can hold both; neither can be written as UTF-8.
    """
    if _SURROGATE.search(text) is None:
        return text
    joined = _SURROGATE_PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _SURROGATE.sub("\ufffd", joined)


class ThinkFilter:
    """Removes reasoning blocks from text that arrives in pieces; a tag or a surrogate pair may be cut anywhere.

    Where an opening tag is missing, what stands before the closing one can be known for reasoning only when that
    comes. With `held`, nothing is given out before it has come, or an opening tag, or the end; then the results
    of `feed` and `finish` concatenate to what `visible_text` makes of the whole text. Otherwise text is given
    out as it comes, and `leaked` says when that was a mistake.

    An opening tag right after a backtick is text (somebody writes about tags). Blocks do not nest.
    """

    def __init__(self, *, held: bool = False) -> None:
        """Start outside any block or, with `held`, perhaps inside one."""
        self._pending = ""
        self._half = ""  # the first half of a surrogate pair
        self._before = ""  # the last character that left `_pending`: was it a backtick?
        self._tag: str | None = None
        self._after_block = False
        self._held = held
        self._searched = 0  # characters of a held text that hold no whole tag
        self._watched: str | None = ""  # the end of what was given out, as long as a tag may prove it reasoning
        self.orphaned = False
        """Whether a closing tag came whose opening tag is missing."""
        self.leaked = False
        """Whether reasoning was given out as text, because its opening tag is missing."""

    @property
    def inside(self) -> bool:
        """Whether a block is open now; after `finish`, whether the text ended inside one."""
        return self._tag is not None

    def release(self) -> None:
        """Hold back no longer: it has become known that the text does not begin inside a block."""
        self._held = False

    def feed(self, piece: str) -> str:
        """Take the next piece; return what is known to be visible, possibly the empty string."""
        piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        self._pending += well_formed(piece)
        return "" if self._held and not self._decide(final=False) else self._advance(final=False)

    def finish(self) -> str:
        """Return the rest that was held back. An open block and all after it is dropped."""
        self._pending += well_formed(self._half)
        self._half = ""
        if self._held:
            self._decide(final=True)
        visible = self._advance(final=True)
        self._pending = ""
        return visible

    def _decide(self, *, final: bool) -> bool:
        """Return whether it is known by now if the text began inside a block; if it did, drop that block."""
        start = max(0, self._searched - _LOOK_BACK)
        orphan = (_LAST_ORPHAN if final else _ORPHAN).search(self._pending, start)
        opening = _OPEN.search(self._pending, start)
        self._searched = len(self._pending)
        if orphan is None and opening is None and not final:
            return False
        if orphan is not None and (opening is None or orphan.start() < opening.start()):
            self._drop(orphan.end())
            self.orphaned, self._watched, self._after_block = True, None, True
        self._held = False
        return True

    def _advance(self, *, final: bool) -> str:
        """Consume as much of the pending text as can be decided."""
        visible: list[str] = []
        while True:
            if self._tag is not None:
                closing = _CLOSE[self._tag].search(self._pending)
                if closing is None:
                    # Only a closing tag that is cut off by the end of the piece is still of interest.
                    self._pending = self._pending[-(len(self._tag) + 2) :]
                    return "".join(visible)
                self._drop(closing.end())
                self._tag, self._after_block = None, True
            if self._after_block and not self._skip_newlines(final=final):
                return "".join(visible)
            opening = _OPEN.search(self._before + self._pending)
            if opening is None:
                visible.append(self._take(len(self._pending) if final else self._undecided()))
                self._watch(visible[-1], _LAST_ORPHAN if final else _ORPHAN)
                return "".join(visible)
            visible.append(self._take(opening.start() - len(self._before)))
            self._watch(visible[-1], _ORPHAN)
            self._watched = None
            self._tag = opening.group(1).lower()
            self._drop(len(self._tag) + 2)

    def _watch(self, text: str, orphan: re.Pattern[str]) -> None:
        """Look whether what is given out ends a block that was never opened."""
        if self._watched is None:
            return
        self._watched += text
        if orphan.search(self._watched):
            self.orphaned = self.leaked = True
        self._watched = None if self.leaked else self._watched[-_LOOK_BACK:]

    def _take(self, end: int) -> str:
        taken, self._pending = self._pending[:end], self._pending[end:]
        self._before = taken[-1:] or self._before
        return taken

    def _drop(self, end: int) -> None:
        self._pending = self._pending[end:]
        self._before = ""

    def _skip_newlines(self, *, final: bool) -> bool:
        """Remove the white space after a block up to its last newline; False while it may go on."""
        white = len(self._pending) - len(self._pending.lstrip())
        if white == len(self._pending) and not final:
            return False
        last = max(self._pending.rfind("\n", 0, white), self._pending.rfind("\r", 0, white))
        self._drop(last + 1)
        self._after_block = False
        return True

    def _undecided(self) -> int:
        """Return where a tail begins that may become an opening tag, or the length."""
        start = self._pending.rfind("<")
        tail = self._pending[start:].lower()
        if start >= 0 and any(tag.startswith(tail) for tag in _OPEN_TAGS):
            return start
        return len(self._pending)


def visible_text(content: str | None) -> tuple[str, bool]:
    """Return what a person would see of a reply, and whether it ended inside a reasoning block.

    Closed blocks are removed together with the newlines after them; from an unclosed one on, everything is
    dropped. None gives the empty string. A block whose opening tag is missing is removed where its closing
    tag ends a line. Lone surrogates become U+FFFD.
    """
    if not content:
        return "", False
    think = ThinkFilter(held=True)
    text = think.feed(content) + think.finish()
    return text, think.inside
