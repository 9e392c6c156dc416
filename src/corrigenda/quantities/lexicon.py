"""The words that quantities are written with, one `Lexicon` per language: data, no logic.

Words are lower-case. Languages are kept apart because their words collide: "due" is a number in Italian and an
adjective in English, "a" an article in English and a preposition in Italian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _ordered(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(phrase.split()) for phrase in text.split(","))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """Everything about one language that finding and comparing quantities needs."""

    decimal: str
    """The decimal separator; the other of "." and "," separates thousands."""
    numerals: Mapping[str, int]
    """Number words below 100 (English) or below 1000 and joined into one word (Italian), "one" left out."""
    one: frozenset[str]
    """Words for one, which are numbers only before a scale or a unit."""
    scales: Mapping[str, int]
    ordinals: Mapping[str, int]
    ordinal_suffixes: frozenset[str]
    months: Mapping[str, int]
    month_abbreviations: Mapping[str, int]
    cues: Mapping[tuple[str, ...], str]
    """Words before a quantity: `least`, `more`, `most`, `less`, `exact`, `about`, `after`, `before`."""
    late_cues: Mapping[tuple[str, ...], str]
    """The same after it ("or more")."""
    spatial: frozenset[str]
    """Cues that are also prepositions of time or place ("over five years")."""
    to: frozenset[str]
    """Words between the ends of a range."""
    between: frozenset[str]
    both: frozenset[str]
    """What joins the ends after `between`."""
    start: frozenset[str]
    """What stands before a start and an end ("from 5 to 8"), which are two quantities, not a range."""
    of: frozenset[str]
    articles: frozenset[str]
    indefinite: frozenset[str]
    year_cues: frozenset[str]
    time_prepositions: frozenset[str]
    labels: frozenset[str]
    """Nouns whose number is a name ("room 12"), not a quantity."""
    function: frozenset[str]
    """Words that may stand capitalised before a number without making it a name."""
    negations: frozenset[str]
    hedges: frozenset[str]
    """Words after which a value or a negation no longer states a plain fact."""
    unsafe_subjects: frozenset[str]
    """First words that leave open who or what is meant, so that two statements may both be true."""
    conjunctions: frozenset[str]
    """Words that begin another clause."""
    copulas: frozenset[str]
    valued: frozenset[str]
    """Verbs whose object is the value itself ("costs", "weighs")."""
    magnitudes: frozenset[str]
    """Nouns whose "of" brings the value ("a population of 2 million")."""
    agents: frozenset[str]
    """Prepositions that name who did it, which leaves the statement before them as it is."""
    conditions: frozenset[str]
    """Prepositions whose quantity may say under which conditions the rest holds ("at 20 °C")."""
    once: frozenset[str]
    """Participles of what happens only once to a subject, so that two dates exclude each other; after "was" only."""
    once_active: frozenset[str]
    """The same for verbs that need no "was"."""
    singular: frozenset[str]
    """Forms of "to be" for a single subject."""
    recurring: frozenset[str]
    """Subjects that happen again and again, whatever the verb."""
    up: frozenset[str]
    down: frozenset[str]
    auxiliaries: frozenset[str]
    """Verbs that a plain negation stands beside."""
    support: frozenset[str]
    """Auxiliaries that only carry a negation ("did not approve")."""


_EN_MONTHS = _ordered("january february march april may june july august september october november december")
_IT_MONTHS = _ordered("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre")
_MONTHS = {name: i + 1 for names in (_EN_MONTHS, _IT_MONTHS) for i, name in enumerate(names)}

_EN_NUMERALS = {
    word: value
    for value, word in enumerate(
        _ordered(
            "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
            "sixteen seventeen eighteen nineteen"
        ),
        start=2,
    )
} | {w: 10 * v for v, w in enumerate(_ordered("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)}

_IT_UNITS = ("", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove")
_IT_TEENS = _ordered("dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove")
_IT_TENS = ("", "", "venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta")


def _italian_below_100(value: int) -> str:
    tens, unit = divmod(value, 10)
    if tens == 1:
        return _IT_TEENS[unit]
    stem = _IT_TENS[tens]
    return (stem[:-1] if stem and unit in (1, 8) else stem) + _IT_UNITS[unit]


def _italian_numerals() -> dict[str, int]:
    """Every joined number word from 2 to 999, with and without the accent of a final "tré"."""
    found: dict[str, int] = {}
    for value in range(2, 1000):
        hundreds, rest = divmod(value, 100)
        head = ("" if hundreds < 2 else _IT_UNITS[hundreds]) + ("cento" if hundreds else "")
        word = head + _italian_below_100(rest)
        found[word] = value
        if word.endswith("tre") and word != "tre":
            found[word[:-1] + "é"] = value
    return found


def _cues(**phrases: str) -> dict[tuple[str, ...], str]:
    return {phrase: meaning for meaning, text in phrases.items() for phrase in _phrases(text)}


ENGLISH = Lexicon(
    decimal=".",
    numerals=_EN_NUMERALS,
    one=_words("a an one"),
    scales={
        "hundred": 100,
        "thousand": 1000,
        "million": 10**6,
        "millions": 10**6,
        "billion": 10**9,
        "billions": 10**9,
        "trillion": 10**12,
        "trillions": 10**12,
        "bn": 10**9,
        "mn": 10**6,
        "dozen": 12,
    },
    ordinals={
        word: value
        for value, word in enumerate(
            _ordered("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"), start=1
        )
    },
    ordinal_suffixes=_words("st nd rd th"),
    months=_MONTHS,
    month_abbreviations={name[:3]: i + 1 for i, name in enumerate(_EN_MONTHS)} | {"sept": 9},
    cues=_cues(
        least="at least,no less than,no fewer than,not less than,not fewer than,a minimum of,minimum of",
        more="more than,over,above,greater than,exceeding,upwards of,in excess of",
        most="at most,up to,no more than,not more than,a maximum of,maximum of",
        less="fewer than,less than,under,below",
        exact="exactly,precisely",
        about="about,around,approximately,approx,roughly,some,almost,nearly,circa,c,ca,close to,~,≈,an estimated",
        after="after",
        before="before,prior to",
    ),
    late_cues=_cues(least="or more,or over,and over", most="or less,or fewer", about="or so,approximately"),
    spatial=_words("over above under below around about some c"),
    to=_words("to"),
    between=_words("between"),
    both=_words("and"),
    start=_words("from"),
    of=_words("of"),
    articles=_words("the a an"),
    indefinite=_words("a an"),
    year_cues=_words("in since until till before after during by from of circa early late mid to and between"),
    time_prepositions=_words("in on"),
    labels=_words(
        "member room flight route bus train line page chapter section article paragraph number no "
        "nr version level type "
        "phase stage category grade class group season episode volume part act scene day week highway interstate "
        "district zone gate platform track ward unit block step figure table model mark user customer order patient "
        "ticket invoice case lot sector house apartment floor player team item id station channel area code game "
        "round match lap verse act appendix rank tier top formula year age aged question option employee student"
    ),
    function=_words(
        "in on at of by from to with within for and or but the a an about around over under exactly only just nearly "
        "almost approximately roughly some all more less fewer than least most up its his her "
        "their is was are were has "
        "had have as between since until after before during precisely these those another both "
        "every each minus about "
        "that there which who when while where if because no not circa"
    ),
    negations=_words("not never no nobody none nothing neither nor cannot without"),
    hedges=_words(
        "may might can could should would will must shall probably possibly perhaps likely reportedly allegedly "
        "estimated estimate estimates expected planned predicted projected claimed claims believed thought rumored "
        "rumoured said says suggests suggested if unless whether except excluding besides apart only until but some "
        "any all every most many few several often sometimes usually always typically generally "
        "either half both nobody "
        "everyone everybody almost hardly barely scarcely than another other others each ago more "
        "less instead rather "
        "because seems appears seemed appeared hoped wanted tried attempted per"
    ),
    unsafe_subjects=_words(
        "a an one some another there he she it they we you i this that these those his her its their my our your "
        "someone somebody such certain other"
    ),
    conjunctions=_words("and but which who while whereas although though"),
    copulas=_words("is was are were"),
    valued=_words("equals equalled totals totalled totaled numbered costs cost weighs weighed measures measured"),
    conditions=_words("at within with in among above below beyond on per against for"),
    magnitudes=_words(
        "population length height depth area weight mass width speed capacity elevation budget value price cost age "
        "total distance diameter temperature circumference density salary"
    ),
    agents=_words("by"),
    once=_words(
        "born founded established released published opened built completed invented discovered formed created "
        "inaugurated launched signed ratified assassinated killed executed abolished dissolved constructed erected "
        "held"
    ),
    once_active=_words("died premiered debuted ended began place happened occurred erupted sank"),
    singular=_words("was is"),
    recurring=_words(
        "festival championship championships tournament election elections olympics games cup race final finals "
        "ceremony awards award season series conference congress edition fair event events meetings matches match "
        "game eruption earthquake flood concert tour"
    ),
    up=_words("rose rise rises risen rising increased increase increases increasing grew grow grows grown climbed"),
    down=_words("fell fall falls fallen falling decreased decrease decreases decreasing dropped declined shrank"),
    auxiliaries=_words("is was are were has had have do does did"),
    support=_words("do does did"),
)

ITALIAN = Lexicon(
    decimal=",",
    numerals=_italian_numerals(),
    one=_words("un uno una"),
    scales={
        "mila": 1000,
        "milione": 10**6,
        "milioni": 10**6,
        "mln": 10**6,
        "miliardo": 10**9,
        "miliardi": 10**9,
        "mld": 10**9,
        "bilione": 10**12,
        "bilioni": 10**12,
        "dozzina": 12,
        "dozzine": 12,
    },
    ordinals={
        stem + ending: value
        for value, stem in enumerate(
            _ordered("prim second terz quart quint sest settim ottav non decim undicesim dodicesim"), start=1
        )
        for ending in "oaie"
        if stem + ending != "none"
    },
    ordinal_suffixes=_words("º ª °"),
    months=_MONTHS,
    month_abbreviations={name[:3]: i + 1 for i, name in enumerate(_IT_MONTHS)} | {"sett": 9},
    cues=_cues(
        least="almeno,non meno di,minimo,un minimo di,come minimo",
        more="più di,oltre,sopra,più del,più dei,oltre i,oltre il,oltre le",
        most="al massimo,fino a,non più di,un massimo di,non oltre",
        less="meno di,sotto,meno del,meno dei",
        exact="esattamente,precisamente",
        about="circa,quasi,all incirca,intorno a,intorno al,approssimativamente,pressappoco,~,≈,verso il",
        after="dopo il,dopo",
        before="prima del,prima di,prima dell",
    ),
    late_cues=_cues(least="o più,e oltre", most="o meno", about="circa"),
    spatial=_words("sopra sotto oltre intorno"),
    to=_words("a al ai"),
    between=_words("tra fra"),
    both=_words("e"),
    start=_words("da dal dai"),
    of=_words("di"),
    articles=_words("il lo la i gli le l un uno una"),
    indefinite=_words("un uno una"),
    year_cues=_words("nel nell dal dall del dell al fino dopo prima il e tra fra anno circa inizio fine"),
    time_prepositions=_words("nel nell il l in"),
    labels=_words(
        "socio membro stanza camera volo linea autobus treno pagina capitolo sezione articolo paragrafo numero n nr "
        "versione livello tipo fase categoria grado classe gruppo stagione episodio volume parte atto scena giorno "
        "settimana autostrada statale distretto zona binario reparto unità blocco figura tabella modello utente "
        "cliente ordine paziente fattura caso lotto settore casa appartamento piano giocatore squadra canale codice "
        "partita turno giro verso allegato anni ore domanda opzione dipendente studente"
    ),
    function=_words(
        "in a di da con su per tra fra e o ma il lo la i gli le un uno una circa oltre almeno esattamente quasi solo "
        "soltanto più meno al nel nell del dell dal dall sono erano è era ha ha hanno aveva fino dopo prima questi "
        "quei tutti altri altre meno che c non dei degli delle ai agli alle i sui sulle"
    ),
    negations=_words("non mai nessuno nessuna nessun niente nulla né senza"),
    hedges=_words(
        "può possono potrebbe potrebbero dovrebbe dovrebbero deve forse probabilmente "
        "presumibilmente stimato stimati "
        "stima stime previsto prevista pianificato presunto secondo se salvo tranne eccetto "
        "esclusi escluso oltre solo "
        "soltanto finché ma alcuni alcune qualche tutti tutte ogni molti molte pochi poche spesso "
        "talvolta sempre "
        "generalmente entrambi quasi altro altra altri altre ciascuno fa più meno invece perché sembra pare voleva "
        "sarebbe sarebbero avrebbe avrebbero"
    ),
    unsafe_subjects=_words(
        "un uno una alcuni alcune c ci lui lei esso essa essi loro questo questa questi queste quello quella suo sua "
        "qualcuno certi certe altri altro"
    ),
    conjunctions=_words("e ma che mentre sebbene benché"),
    copulas=_words("è era sono erano fu furono"),
    valued=_words("costa costava costano pesa pesava misura misurava conta vale valeva"),
    conditions=_words("a al alla ai entro con in tra fra su contro per nel nelle nei"),
    magnitudes=_words(
        "popolazione lunghezza altezza profondità superficie peso massa larghezza velocità capacità quota budget "
        "valore prezzo costo età totale distanza diametro temperatura circonferenza densità stipendio"
    ),
    agents=_words("da dal dalla dai dalle dall"),
    once=_words(
        "nato nata morto morta fondato fondata uscito uscita pubblicato pubblicata aperto aperta costruito costruita "
        "completato completata inventato inventata scoperto scoperta formato creato creata inaugurato inaugurata "
        "lanciato lanciata firmato firmata ratificato ratificata assassinato assassinata ucciso uccisa terminato "
        "terminata finito finita svolto svolta tenuto tenuta avvenuto avvenuta"
    ),
    once_active=_words("nacque morì finì cominciò iniziò luogo avvenne"),
    singular=_words("è era fu"),
    recurring=_words(
        "festival campionato campionati torneo elezione elezioni olimpiadi giochi coppa gara finale finali cerimonia "
        "premio premi stagione serie conferenza congresso edizione fiera evento eventi riunioni partite partita "
        "eruzione terremoto alluvione concerto tour"
    ),
    up=_words("aumentò aumentato aumentata aumentati aumentate aumenta cresciuto cresciuta crebbe salì salito salita"),
    down=_words("diminuì diminuito diminuita diminuiti diminuite calò calato calata calati scese sceso scesa"),
    auxiliaries=_words("è era sono erano fu furono ha hanno aveva avevano"),
    support=frozenset(),
)


def lexicon_for(language: str) -> Lexicon:
    """Return the lexicon of a language tag ("it", "it-IT"); English for every other tag."""
    return ITALIAN if language.lower().startswith("it") else ENGLISH
