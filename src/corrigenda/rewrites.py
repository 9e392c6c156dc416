"""What a rewritten sentence may not do, whatever the verifier says of it. Pure.

The verifier reads the rewrite without its markup and judges what it states. It does not see a link's target, and
it does not miss a statement that is gone; so these are checked by rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from corrigenda.text import content_words, same_word, words_of

_FOREIGN = re.compile(
    r"<[a-zA-Z/!?]"  # HTML
    r"|\]\(|!\["  # Markdown links and images
    r"|https?:|www\.|javascript:|data:"
    r"|```|~~~"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069\ufeff]"  # control and direction characters
)
_KEPT = 0.8
"""Share of a supported claim's content words that must stand in the rewrite (it may be put a little differently)."""


def foreign_markup(before: str, after: str) -> str | None:
    """Return the first piece of markup, address or control character in `after` that `before` has less of."""
    own = _FOREIGN.findall(before)
    for piece in _FOREIGN.findall(after):
        if piece not in own:
            return str(piece)
        own.remove(piece)
    return None


def lost_claim(kept: Sequence[str], before: str, rewrite: str) -> str | None:
    """Return the first of the statements `kept` of the sentence `before` that `rewrite` no longer makes, else None.

    Judged by words: every number of such a statement must still be there, and most of its other content words.
    Words that the sentence itself did not have (a subject put in for a pronoun) are not looked for.
    """
    there, said = words_of(rewrite), words_of(before)
    for statement in kept:
        words = [w for w in content_words(statement) if any(same_word(w, other) for other in said)]
        missing = [w for w in words if not any(same_word(w, other) for other in there)]
        numbers = [w for w in missing if any(c.isdigit() for c in w)]
        if numbers or len(missing) > (1 - _KEPT) * len(words):
            return statement
    return None
