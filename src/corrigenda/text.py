"""Text at offsets: anchoring claims, applying edits, fitting rewrites, and what the verifier reads (all pure)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from corrigenda.types import Sentence, SentenceKind, Span


def word_list(text: str) -> frozenset[str]:
    """Return the words of a list that is written as running text."""
    return frozenset(text.split())


_WIDE = r"\u3040-\u30ff\u3400-\u9fff"  # letters that are words of their own
_TOKEN = re.compile(rf"[{_WIDE}]|[^\W_{_WIDE}]+(?:[.,:'’/@&-][^\W_{_WIDE}]+)*")
_END_MARKS = ".!?…。！？"
_END = re.compile(r"""([.!?…。！？]+)(["”’'»)\]}」』）】*_`~]*(?:\s?\[\^?\d[\d\s,;–-]*\])*)$""")
_END_LENGTH = 120
_CLOSING = "\"”’'»)]}」』）】"
_ABBREVIATED = re.compile(r"(?:\b[^\W\d_]\.(?:[^\W\d_]\.)+|\b(?:etc|ecc|inc|ltd|co|corp|jr|sr|al)\.)$", re.IGNORECASE)
# `【3】`, `【4:0†source】`; in Chinese and Japanese such brackets hold text
WIDE_CITATION = r"【\d{1,4}(?::\d{1,4})?(?:\s?[,;–-]\s?\d{1,4}){0,5}(?:†[^\s】]{0,40})?】"
TAG = (
    r"</?(?:a|abbr|b|big|blockquote|br|center|cite|code|del|details|div|em|font|h[1-6]|hr|i|img|ins|kbd|li|mark|ol|p|"
    r"pre|q|ref|s|section|small|span|strike|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|wbr)"
    r"(?:\s{1,3}[A-Za-z-]{1,20}=(?:\"[^\"<>]{0,200}\"|'[^'<>]{0,200}'|[^\s\"'<>=]{1,200})){0,8}\s{0,3}/?>"
)
"""A tag of HTML. What else stands between `<` and `>` is text that a reader sees."""
_CITATION = re.compile(
    r"[ \t\u00a0]{0,3}"
    rf"(?:\[\^?\d{{1,4}}(?:\s?[,;–-]\s?\^?\d{{1,4}}){{0,5}}\](?!\()|{WIDE_CITATION}|\[citation needed\])(?=(\w)?)"
)
_LINK = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]"
    r"\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?(?:\s{1,3}\"[^\"\n]{0,300}\")?\)"
)
_EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3}|~~)(?=\S)([^*~\n]{1,400}?)(?<=\S)\1"
    r"|(?<!\w)(_{1,3})(?=\S)([^_\n]{1,400}?)(?<=\S)\3(?!\w)"
)
_INNER_STRONG = re.compile(r"(\*\*)(?=\S)([^*\n]{1,400}?)(?<=\S)\*\*")
_CODE = re.compile(r"(`{1,2})([^`\n]{1,300})\1")
_TAG = re.compile(TAG, re.IGNORECASE)
_AUTOLINK = re.compile(r"<(https?://[^<>\s]{1,2000})>")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|nbsp|apos|#\d{1,6});")
_QUOTE_MARK = re.compile(r"([\n\r])[ \t]{0,3}(?:>[ \t]?)+")
_INVISIBLE = re.compile("[\u200b\ufeff\u2060]")
_MARKER_BEFORE = re.compile(
    r"[\s>]*(?:(?:[-*+•‣◦▪●]|\d{1,3}[.)]|[A-Za-z]\)|\((?:\d{1,3}|[a-z])\)|\[\^?\d{1,3}\]:|#{1,6}|\|)\s*(?:\[[ xX]\])?)?"
)
_INLINE_SPACE = re.compile(r"[ \t\u00a0]*")
_BLANK_LINE_BEFORE = re.compile(r"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)$")
_BLANK_LINES = re.compile(r"(?:[ \t]*(?:\r\n|\n|\r))*")
_NEWLINE = re.compile("\r\n|[\n\r\u2028\u2029]")
_BRACKETS = {"“": "”", "«": "»", "„": "“", "「": "」", "『": "』", "（": "）", "(": ")"}

# Words that say nothing about what a text is about: they never anchor the edge of a claim.
FUNCTION_WORDS = {
    "en": word_list(
        "a an the this that these those it its he she they his her their him them we our you your i my and or "
        "but nor so of in on at by to for from with as into than then is are was were be been being am has have "
        "had do does did will would can could may might shall should not no there here which who whom whose "
        "what when where while if also"
    ),
    "it": word_list(
        "il lo la i gli le un uno una di a da in con su per tra fra del dello della dei degli delle al allo "
        "alla ai agli alle dal dallo dalla dai dagli dalle nel nello nella nei negli nelle sul sullo sulla sui "
        "sugli sulle e ed o ma che chi cui non si ci è era sono erano fu furono essere stato stata stati state "
        "ha hanno aveva avevano avere questo questa questi queste quello quella lui lei egli ella esso essa "
        "loro suo sua suoi sue anche come quando dove mentre se più"
    ),
}
_ONLY_ENGLISH = word_list("the of and is was were it he she they that this with for to at by from has have an are")
_ONLY_ITALIAN = word_list(
    "il lo gli di che è e un una del della dei delle nel nella nei sono era fu con per non si da dal dalla al "
    "alla questo questa anche più ha sua suo cui l dell nell all"
)


def words_of(text: str) -> list[str]:
    """Return the words and numbers of a text, lower-cased; in Chinese and Japanese each character is one."""
    return [m.group().casefold() for m in _TOKEN.finditer(text)]


def content_words(text: str) -> list[str]:
    """Return the words of a text that carry content: all but the function words of English and Italian."""
    dropped = FUNCTION_WORDS["en"] | FUNCTION_WORDS["it"]
    return [w for w in words_of(text) if w not in dropped]


def same_word(left: str, right: str) -> bool:
    """Return whether two words are one but for an ending (`hill`, `hills`; `nasce`, `nascita` are not)."""
    if left == right:
        return True
    if left[:1].isdigit() or right[:1].isdigit():
        return False
    short, long = sorted((left, right), key=len)
    return len(short) >= 4 and long[: len(short) - 1] == short[:-1] and len(long) - len(short) <= 3


def anchor(claim_text: str, sentence: Sentence) -> Span:
    """Return where a claim, perhaps reworded, stands in its sentence.

    Its exact text if that occurs, else the tightest stretch that holds the words they share, else (too few are
    shared) the whole sentence. The span lies inside `sentence.span`.
    """
    wanted = claim_text.strip().rstrip(_END_MARKS)
    text = sentence.text
    start = sentence.span.start
    if not wanted or claim_text.strip() == text:
        return sentence.span
    exact = _find_whole(claim_text.strip(), text) or _find_whole(wanted, text)
    found = exact or _tightest(wanted, text)
    return Span(start + found[0], start + found[1]) if found else sentence.span


def _find_whole(wanted: str, text: str) -> tuple[int, int] | None:
    """Find `wanted` in `text` without cutting a word or a number at its ends; exact case goes first."""
    pattern = rf"(?<![^\W\u3040-\u9fff]){re.escape(wanted)}(?![^\W\u3040-\u9fff])(?![.,]\d)"
    found = re.search(pattern, text) or re.search(pattern, text, re.IGNORECASE)
    return found.span() if found else None


def _tightest(wanted: str, text: str) -> tuple[int, int] | None:
    """Find the shortest stretch of `text` that holds every content word that it shares with `wanted`."""
    needed = set(content_words(wanted))
    hits: list[tuple[str, int, int]] = []
    for match in _TOKEN.finditer(text):
        word = match.group().casefold()
        key = word if word in needed else next((n for n in needed if same_word(n, word)), None)
        if key is not None:
            hits.append((key, match.start(), match.end()))
    shared = {key for key, _, _ in hits}
    if not shared or 2 * len(shared) < len(needed):
        return None
    best: tuple[int, int] | None = None
    counts: dict[str, int] = {}
    first = 0
    for key, _, end in hits:
        counts[key] = counts.get(key, 0) + 1
        while len(counts) == len(shared):
            begin = hits[first][1]
            if best is None or end - begin < best[1] - best[0]:
                best = (begin, end)
            leaving = hits[first][0]
            counts[leaving] -= 1
            if not counts[leaving]:
                del counts[leaving]
            first += 1
    return best


def apply_edits(answer: str, edits: Iterable[tuple[Span, str]]) -> str:
    """Return `answer` with the text at each span replaced; everything outside the spans stays as it is.

    The order of `edits` does not matter. Raises ValueError when a span is out of range or two of them overlap
    (two insertions at one place do, since their order would matter).
    """
    ordered = sorted(edits, key=lambda edit: edit[0])
    parts: list[str] = []
    position = 0
    previous: Span | None = None
    for span, text in ordered:
        if not 0 <= span.start <= span.end <= len(answer):
            raise ValueError(f"edit span {tuple(span)!r} is out of range for a text of {len(answer)} code points")
        if span.start < position or span == previous == Span(span.start, span.start):
            raise ValueError(f"edit spans {tuple(previous or ())!r} and {tuple(span)!r} overlap")
        parts += [answer[position : span.start], text]
        position, previous = span.end, span
    return "".join(parts) + answer[position:]


def removal_span(answer: str, sentence: Sentence, sentences: Sequence[Sentence]) -> Span:
    """Return what to delete so that `sentence` is gone and no gap, double space or empty list mark is left."""
    return removal_spans(answer, [sentence], sentences)[0]


def removal_spans(answer: str, targets: Sequence[Sentence], sentences: Sequence[Sentence]) -> tuple[Span, ...]:
    """Return what to delete so that all `targets` are gone; the spans are in order and do not overlap.

    Deleting several sentences one by one would delete the space between two neighbours twice; here neighbours
    on one line are deleted as one.
    """
    chosen = sorted({t.span for t in targets})
    kept = sorted(s.span for s in sentences if s.span not in set(chosen))
    groups: list[Span] = []
    for span in chosen:
        if groups and not any(Span(groups[-1].end, span.start).overlaps(k) for k in kept):
            between = answer[groups[-1].end : span.start]
            if not _NEWLINE.search(between) and not between.strip():
                groups[-1] = Span(groups[-1].start, span.end)
                continue
        groups.append(span)
    spans: list[Span] = []
    lines = False  # whether the last span is made of whole lines
    for group in groups:
        line = _line_of(answer, group)
        if line and lines and not answer[spans[-1].end : line.start].strip():
            spans[-1] = Span(spans[-1].start, line.end)
        else:
            spans.append(line or _with_space(answer, group))
        lines = line is not None
        spans[-1] = _without_gap(answer, spans[-1]) if lines else spans[-1]
    return tuple(spans)


def _line_of(answer: str, span: Span) -> Span | None:
    """Return the whole lines of a span, break included, if nothing but layout marks stands beside it there."""
    start = max(answer.rfind(c, 0, span.start) for c in "\n\r\u2028\u2029") + 1
    newline = _NEWLINE.search(answer, span.end)
    before, after = answer[start : span.start], answer[span.end : newline.start() if newline else len(answer)]
    beside = before[_MARKER_BEFORE.match(before).end() :] + after  # type: ignore[union-attr]
    return None if any(c.isalnum() for c in beside) else Span(start, newline.end() if newline else len(answer))


def _with_space(answer: str, span: Span) -> Span:
    """Widen a span by the space behind it, or before it where it ends its line."""
    behind = _INLINE_SPACE.match(answer, span.end).end()  # type: ignore[union-attr]
    if behind < len(answer) and not _NEWLINE.match(answer, behind):
        return Span(span.start, behind)
    before = answer[max(span.start - 200, 0) : span.start]
    return Span(span.start - len(before) + len(before.rstrip(" \t\u00a0")), span.end)


def _without_gap(answer: str, span: Span) -> Span:
    """Widen deleted lines by the blank lines that would double up, or by the break before the answer's last line."""
    start, end = span
    blank_before = not answer[:start].strip() or _BLANK_LINE_BEFORE.search(answer[max(start - 40, 0) : start])
    if blank_before:
        end = _BLANK_LINES.match(answer, end).end()  # type: ignore[union-attr]
    if not answer[end:].strip() and answer[:start].strip():
        kept = len(answer[:start].rstrip())
        closing = _NEWLINE.search(answer, kept)
        ends_with_break = end == len(answer) and _NEWLINE.search(answer[end - 1 : end]) is not None
        start = closing.end() if closing and ends_with_break else kept
    return Span(start, end)


def fit_rewrite(original: str, rewrite: str) -> str:
    """Return a rewrite fitted into the original's place: its end mark, its first letter's case, one line."""
    fitted = " ".join(line.strip() for line in rewrite.splitlines() if line.strip())
    if not fitted:
        return fitted
    return _first_letter(original.strip(), _end_mark(original.strip(), _open_marks(original.strip(), fitted)))


def _end_mark(original: str, rewrite: str) -> str:
    """Give the rewrite the end mark that the original had, or take a full stop away that it had not."""
    wanted, had = _END.search(original[-_END_LENGTH:]), _END.search(rewrite[-_END_LENGTH:])
    if wanted and not had:
        bare = rewrite.rstrip(",;:")
        inside = bare.rstrip(_CLOSING) if wanted.group(2) else bare  # `It is old.”`: the mark stands inside
        return inside.rstrip(",;:") + wanted.group(1) + bare[len(inside) :]
    while had and not wanted and had.group(1) in (".", "。"):
        cut = max(len(rewrite) - _END_LENGTH, 0) + had.start()
        if _ABBREVIATED.search(rewrite[max(cut - 12, 0) : cut + 1]):
            break
        rewrite = rewrite[:cut].rstrip() + had.group(2)
        had = _END.search(rewrite[-_END_LENGTH:])
    return rewrite


def _open_marks(original: str, rewrite: str) -> str:
    """Keep a quotation mark or bracket at an end of the original whose partner stands in another sentence."""
    for opening, closing in _BRACKETS.items():
        if original.startswith(opening) and closing not in original and not rewrite.startswith(opening):
            rewrite = opening + rewrite
        if original.endswith(closing) and opening not in original and not rewrite.endswith(closing):
            rewrite = rewrite + closing
    return rewrite


def _first_letter(original: str, rewrite: str) -> str:
    """Give the first letter the original's case where both begin with the same kind of word."""
    old, new = re.search(r"\w+", original), re.search(r"\w+", rewrite)
    if not old or not new:
        return rewrite
    was, now, place = old.group(), new.group(), new.start()
    if was[0].isupper() and now[0].islower() and now[1:] == now[1:].lower():
        return rewrite[:place] + now[0].upper() + rewrite[place + 1 :]
    common = now.casefold() in FUNCTION_WORDS["en"] | FUNCTION_WORDS["it"] and now != "I"
    if was[0].islower() and now[0].isupper() and (common or now.casefold() == was.casefold()):
        return rewrite[:place] + now[0].lower() + rewrite[place + 1 :]
    return rewrite


def hypothesis_text(text: str) -> str:
    """Return what the verifier reads: the text without markdown and citation marks, on one line, no words glued."""
    plain = _QUOTE_MARK.sub(r"\1", text)
    plain = _CITATION.sub(lambda m: " " if m.group(1) else "", plain)
    plain = _LINK.sub(r"\1", plain)
    plain = _AUTOLINK.sub(r"\1", plain)
    plain = _CODE.sub(r"\2", plain)
    plain = _TAG.sub(" ", plain)
    for _ in range(3):  # emphasis inside emphasis
        plain = _EMPHASIS.sub(lambda m: m.group(2) or m.group(4), plain)
        plain = _INNER_STRONG.sub(r"\2", plain)
    plain = _ENTITY.sub(lambda m: html.unescape(m.group()), plain)
    plain = _INVISIBLE.sub("", plain)
    return " ".join(plain.split())


def detect_language(text: str) -> str:
    """Return `it` where Italian function words outnumber English ones, otherwise `en`."""
    words = re.findall(r"[^\W\d_]+", text[:5000].casefold())
    italian = sum(w in _ONLY_ITALIAN for w in words)
    english = sum(w in _ONLY_ENGLISH for w in words)
    return "it" if italian > english else "en"


def is_row(sentence: Sentence) -> bool:
    """Return whether a sentence is a row or a head of a table."""
    return sentence.kind is SentenceKind.TABLE_ROW or (sentence.kind is SentenceKind.HEADING and "|" in sentence.text)
