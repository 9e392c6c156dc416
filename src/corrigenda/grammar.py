"""A little grammar, enough to decide cheaply how many statements a sentence makes, and to split the plain cases.

Word lists and patterns, no parser: English and Italian; in other languages only marks such as `;` count. Where
the rules are unsure they say "compound" (a model may look) or "do not split" (the sentence stays one claim).
"""

from __future__ import annotations

import re

from corrigenda.text import content_words, word_list, words_of
from corrigenda.types import Span

_VERBS = {
    "en": word_list(
        "is are was were am be been has have had does do did can could will would may might must shall should "
        "became become becomes began begins begin won wins win wrote writes write made makes make took takes "
        "take got gets gave gives give went goes go came comes come led leads lead held holds hold kept keeps "
        "left leaves lost loses said says say saw sees found finds built builds grew grows grow fell falls fall "
        "rose rises flew flies drew draws spoke speaks spent sold sells bought buys met meets ran runs run sat "
        "sits stood stands stand lies lay covers contains contain consists includes include lives live dies "
        "works serves borders produces uses causes has means remains belongs boils melts orbits weighs measures "
        "flows hosts hosted knows thought taught fought sang swam broke chose ate drank drove wore threw caught "
        "brought sent put set hit cut shows plays"
    ),
    "it": word_list(
        "è é sono era erano fu furono sarà saranno ha hanno aveva avevano ebbe ebbero può possono deve devono "
        "va vanno viene vengono fa fanno fece fecero dà diede sta stanno stava nacque nacquero morì morirono "
        "visse vissero vinse vinsero scrisse scrissero divenne divennero diventa prese presero tenne mise "
        "misero disse dissero vide venne vennero perse persero nasce muore vive vince scrive diventa trova "
        "trovano conta contiene comprende produce confina ospita copre bolle orbita pesa misura scorre rimane "
        "appartiene significa usa serve lavora"
    ),
}
_PRONOUNS = {
    "en": "he|she|it|they|we|this|these",
    "it": "egli|ella|lui|lei|esso|essa|essi|esse|loro|questo|questa|questi|queste",
}
_AND = {"en": "and|but|while|whereas|yet|or|so|then", "it": "e|ed|ma|mentre|però|oppure|o|poi|quindi"}
_RELATIVE = {
    "en": re.compile(
        r",?\s(?:who|whom|whose|which|where)\s|,\s(?:when|because|since|although|after which)\s", re.IGNORECASE
    ),
    "it": re.compile(
        r",?\s(?:che|cui|(?:il|la) quale|(?:i|le) quali)\s|,\s(?:dove|quando|perché|poiché|sebbene|ove)\s",
        re.IGNORECASE,
    ),
}
_APPOSITION = {
    "en": re.compile(
        r",\s(?:the|a|an|its|his|her|their|one of|\w+ed (?:in|by|as|on|to|at)|known|born|built|made|\w+ing)\s[^,;]+"
    ),
    "it": re.compile(
        r",\s(?:il|lo|la|l['’]|i|gli|le|un|uno|una|\w+[aieo]t[oaie] (?:nel|nella|a|da|dal|dalla|in|come)|"
        r"nat[oa]|not[oa]|\w+(?:ando|endo))\s?[^,;]+"
    ),
}
_SCOPE = {
    "en": re.compile(
        r"\b(?:said|says|say|claim\w*|believ\w*|thought|thinks?|argu\w*|report\w*|suggest\w*|if|unless|whether|"
        r"although|though|because|either|neither|not only|both|that)\b",
        re.IGNORECASE,
    ),
    "it": re.compile(
        r"\b(?:disse|dice|dicono|sostien\w*|credeva\w*|pensa\w*|se|sebbene|benché|perché|sia|né|o|non solo|che)\b",
        re.IGNORECASE,
    ),
}
NUMBER_WORDS = word_list(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion "
    "dozen half twice first second third fourth fifth sixth seventh eighth ninth tenth "
    "due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette "
    "diciotto diciannove venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento mille mila milione "
    "milioni miliardo miliardi dozzina metà primo prima secondo seconda terzo terza quarto quarta quinto quinta"
)
"""Numbers in words, English and Italian."""
_NOT_ONLY_NUMBERS = word_list("one first second third half twice sei prima primo secondo seconda terzo terza metà due")
NEGATIONS = word_list(
    "not cannot never no none nobody nothing nowhere neither nor without hardly barely scarcely "
    "non mai nessun nessuno nessuna né senza niente nulla neanche nemmeno neppure"
)
"""Words that turn a statement round, English and Italian; `n't` at a word's end does too."""
_CONTRACTED = re.compile(r"\b(?:it|he|she|that|there|they|we|you|i)['’](?:s|re|m|ve|ll)\b", re.IGNORECASE)
_SUBJUNCTIVE = word_list("sia siano abbia abbiano fosse fossero avesse avessero venga faccia possa debba stia")
_NAME_AND_VERB = re.compile(r"(?:(?!I\b)[^\W\d_a-z][\w’'-]*\s+){1,6}([^\W\d_A-Z]\w*)\s")
_QUESTION_WORDS = {
    "en": "how|why|what|when|where|who|which",
    "it": "come|perché|cosa|che cosa|quando|dove|chi|quale|quali|quanto|quanti|quanta|quante",
}
_ASKS_FIRST = {
    "en": "is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must|if|whether|"
    "although|though|unless|did you",
    "it": "se|che|sebbene|benché",
}
_NOT_PAST = ("hundred", "sacred", "united", "naked", "rugged", "alfred", "shed", "sled")
_PARTICIPLE_FIRST = {
    "en": re.compile(r"\W*(?:\w+ed|built|born|known|made|found|set|held|led|written|won)\b(?!,)", re.IGNORECASE),
    "it": re.compile(r"\W*\w+(?:at|it|ut|nt|tt|st)[oaie]\b", re.IGNORECASE),
}
_WORD = re.compile(r"[^\W\d_]+")
_SUBJECT = re.compile(
    r"((?:(?:Dr|Mr|Mrs|Ms|Prof|Sir|St)\.?\s+)?[^\W\d_a-z][\w’'-]*\.?"
    r"(?:\s+(?:(?:de|da|di|von|van|der|del|della|of|the|le|la)\s+)?[^\W\d_a-z][\w’'-]*\.?){0,5})\s+(\w+)"
)
_NO_SUBJECT = word_list(
    "the a an it he she they we you i this that these those there here in on at by for from with after before "
    "when while during since as if although however but and so then to of its his her their our my your one "
    "some many most all each both another such today yes no not what which who where how why also"
)
_FRONT = {
    "en": re.compile(r"(?:In|On|At|By|During|After|Before|Since|From|Today|However|Also)\b"),
    "it": re.compile(r"(?:Nel|Nella|Nell|In|Il|A|Da|Dal|Dopo|Prima|Durante|Oggi|Inoltre)\b"),
}
_PARTS = re.compile(r"[^,;]+")


def _known(language: str) -> str:
    code = language.split("-", maxsplit=1)[0].casefold()
    return code if code in _VERBS else "en"


def _is_verb(word: str, code: str) -> bool:
    if word in _VERBS[code]:
        return True
    if code == "it":
        return len(word) > 3 and word.endswith(("ò", "ì", "arono", "irono", "erono", "avano", "evano"))
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed") and word not in _NOT_PAST


def has_verb(text: str, language: str) -> bool:
    """Return whether a finite verb can be seen in `text`."""
    code = _known(language)
    words = _WORD.findall(text)
    # `in May 1990`, `Will Smith`: capital letters tell the month and the name from the verbs
    return any(_is_verb(w.casefold(), code) for i, w in enumerate(words) if not i or w not in ("May", "Will"))


def is_fragment(text: str, language: str) -> bool:
    """Return whether a text has no subject and verb of its own: `Capital of Norway`, `Founded in 1040`."""
    opening = _PARTICIPLE_FIRST[_known(language)].match(text)
    return not has_verb(text[opening.end() :] if opening else text, language)


def is_statement(text: str, language: str) -> bool:
    """Return whether a heading or a fragment is a statement: it has a verb and asks nothing."""
    code = _known(language)
    question = re.match(rf"\W*(?:{_QUESTION_WORDS[code]})\b", text, re.IGNORECASE)
    return question is None and has_verb(text, language)


def has_finite_verb(text: str, language: str) -> bool:
    """Return whether a finite verb can be seen in `text`, contractions (`it's`) and subjunctives included."""
    subjunctive = _SUBJUNCTIVE & set(words_of(text))
    return has_verb(text, language) or bool(subjunctive) or _CONTRACTED.search(text) is not None


def has_predicate(text: str, language: str) -> bool:
    """Return whether something is said of something: also by a name and a verb that is in no list."""
    found = _NAME_AND_VERB.match(text)
    return has_finite_verb(text, language) or (found is not None and bool(content_words(found.group(1))))


def asks(text: str, language: str) -> bool:
    """Return whether a clause opens like a question, an indirect question or a condition."""
    code = _known(language)
    opening = rf"\W*(?:{_QUESTION_WORDS[code]}|{_ASKS_FIRST[code]})(?!\w)"
    return re.match(opening, text, re.IGNORECASE) is not None


def has_number(text: str) -> bool:
    """Return whether a number stands in a text, in digits or in words."""
    return re.search(r"\d", text) is not None or bool(set(words_of(text)) & NUMBER_WORDS - _NOT_ONLY_NUMBERS)


def negations(text: str) -> int:
    """Return how many words of a text turn a statement round (`not`, `never`, `isn't`, `senza`)."""
    return sum(word in NEGATIONS or word.replace("’", "'").endswith("n't") for word in words_of(text))


def is_compound(sentence: str, language: str = "en") -> bool:
    """Return whether a sentence may make more than one statement.

    Clauses joined by a semicolon or a conjunction, relative clauses, appositions, and lists of three or more.
    Cheap, and sure only in one direction: a sentence that is not compound makes one plain statement.
    """
    code = _known(language)
    text = " ".join(sentence.split())[:2000]
    if re.search(r"[;；]\s?\S|[^\s，]{4,}，[^\s，]{4,}", text.rstrip(" .!?;")):
        return True
    opening = _PARTICIPLE_FIRST[code].match(text)
    if opening is not None and re.match(r"[^,]*,\s", text[opening.end() :]) and has_verb(text[opening.end() :], code):
        return True
    if _RELATIVE[code].search(text) or _has_apposition(text, code):
        return True
    return _joins_predicates(text, code) or _is_list(text, code)


def _has_apposition(text: str, code: str) -> bool:
    found = _APPOSITION[code].search(text)
    if found is None or not has_verb(text[: found.start()] + " " + text[found.end() :], code):
        return False
    # A phrase of time or place at the front makes no second statement: `In 1990, the town was ...`
    return has_verb(text[: found.start()], code) or _FRONT[code].match(text) is None


def _joins_predicates(text: str, code: str) -> bool:
    """Return whether a conjunction is followed, within a few words, by a second finite verb."""
    for match in re.finditer(rf",?\s(?:{_AND[code]})\s", text, re.IGNORECASE):
        if not has_verb(text[: match.start()], code):
            continue
        following = _WORD.findall(re.split(r"[,;:.]", text[match.end() :])[0].casefold())[:6]
        if any(_is_verb(word, code) for word in following):
            return True
    return False


def _is_list(text: str, code: str) -> bool:
    """Return whether a predicate lists three things or more: `is hot, dry and dusty`."""
    verb = next((m.end() for m in _WORD.finditer(text.casefold()) if _is_verb(m.group(), code)), None)
    if verb is None:
        return False
    rest = re.sub(r"(?<=\d),(?=\d)", "", text[verb:])
    parts = [p for p in _PARTS.findall(rest) if p.strip()]
    return len(parts) >= 2 and re.search(rf"\s(?:{_AND[code]})\s", parts[-1] if len(parts) > 1 else "") is not None


def split_clauses(text: str, language: str = "en") -> tuple[Span, ...]:
    """Return the spans (in `text`) of clauses that are statements of their own beyond doubt, or the whole.

    Splits at `; ` between two full clauses and before `and he`, `but it` and the like with a verb behind; never
    inside brackets or quotations, and not where a word such as `said` or `if` may govern both clauses.
    """
    code = _known(language)
    pronoun = rf"(?:{_PRONOUNS[code]})"
    joint = re.compile(rf";\s+|,\s+(?:{'and|but' if code == 'en' else 'e|ed|ma'})\s+(?={pronoun}\s+\w+)")
    spans: list[Span] = []
    begin = 0
    for match in joint.finditer(text):
        left, right = text[begin : match.start()], text[match.end() :]
        if _SCOPE[code].search(left) or not _balanced(left) or not has_verb(left, code):
            continue
        if not _opens_clause(right, code, pronoun, semicolon=match.group().startswith(";")):
            continue
        spans.append(Span(begin, match.start()))
        begin = match.end()
    return (*spans, Span(begin, len(text)))


def _opens_clause(right: str, code: str, pronoun: str, *, semicolon: bool) -> bool:
    """Return whether `right` opens with a subject and its verb."""
    clause = re.split(r"[;,]", right)[0]
    words = _WORD.findall(clause.casefold())
    if not semicolon:
        return len(words) > 2 and _is_verb(words[1], code)
    determiners = "the|a|an|its|his|her|their|il|lo|la|l['’]|i|gli|le|un|una"
    opens = re.match(rf"(?i:(?:{pronoun}|{determiners})\b)|[^\W\d_a-z]", clause)
    return opens is not None and len(words) > 2 and has_verb(clause, code) and not _is_verb(words[0], code)


def _balanced(text: str) -> bool:
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "“”", "«»")) and text.count('"') % 2 == 0


def subject_of(text: str, language: str = "en", *, defined: bool = False) -> str | None:
    """Return the name that a sentence opens with as its subject, if it plainly does (`Ada Lovelace was ...`).

    With `defined`, only where the sentence says what the subject is (`Rome is the capital ...`): then `it` in
    the next sentence can only mean that.
    """
    found = _SUBJECT.match(text)
    if found is None:
        return None
    name, verb = found.groups()
    code = _known(language)
    if name.split()[0].casefold() in _NO_SUBJECT or not _is_verb(verb.casefold(), code):
        return None
    if defined and not re.match(r"(?:is|was)\s+(?:a|an|the)\s", text[found.start(2) :]):
        return None
    return name


def name_subject(text: str, before: list[str], language: str = "en") -> str:
    """Return `text` with an opening `He`, `She` or `It` replaced by the name that it can only mean, if any.

    `before` are the texts of the sentences before it, in order. English only: Italian leaves such subjects out.
    """
    if _known(language) != "en":
        return text
    opening = re.match(r"(He|She|It)\s+(\w+)", text)
    if opening is None or not _is_verb(opening.group(2).casefold(), "en"):
        return text
    for previous in reversed(before[-3:]):
        thing = opening.group(1) == "It"
        name = subject_of(previous, defined=thing)
        # One capital word at a sentence's start may be any noun; two make a person's name.
        if name and (thing or " " in name):
            return name + text[len(opening.group(1)) :]
        if not previous.startswith(opening.group(1) + " "):
            break
    return text
