"""Units of measure: for each way of writing one, its dimension, canonical unit and exact factor.

A table, rather than a library of units, because what is needed is small (some forty units), must be exact
(`Fraction`), must know Italian and English words, and must refuse what is ambiguous instead of guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: `value * factor + offset` is the value in the canonical unit."""

    dimension: str
    canonical: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


PERCENT = Unit("percent", "%")
FAHRENHEIT = Unit("temperature", "°C", Fraction(5, 9), Fraction(-160, 9))
CELSIUS = Unit("temperature", "°C")

_PREFIXES = {
    "n": Fraction(1, 10**9), "µ": Fraction(1, 10**6), "μ": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "c": Fraction(1, 100), "d": Fraction(1, 10), "": Fraction(1), "h": Fraction(100), "k": Fraction(1000),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
}  # fmt: skip

_PREFIX_NAMES = {
    "n": ("nano",), "µ": ("micro",), "m": ("milli",), "c": ("centi",), "d": ("deci",), "": ("",),
    "h": ("hecto", "etto"), "k": ("kilo", "chilo"), "M": ("mega",), "G": ("giga",), "T": ("tera",), "P": ("peta",),
}  # fmt: skip

# symbol, dimension, canonical unit, factor of the bare unit, allowed prefixes, the names of the bare unit
_SI: tuple[tuple[str, str, str, Fraction, str, str], ...] = (
    ("m", "length", "m", Fraction(1), "nµmcdk", "metre metres meter meters metro metri"),
    ("g", "mass", "kg", Fraction(1, 1000), "µmk", "gram grams gramme grammes grammo grammi"),
    ("t", "mass", "kg", Fraction(1000), "kMG", "tonne tonnes tonnellata tonnellate"),
    ("L", "volume", "L", Fraction(1), "mcdh", "litre litres liter liters litro litri"),
    ("l", "volume", "L", Fraction(1), "mcdh", ""),
    ("W", "power", "W", Fraction(1), "mkMGT", "watt watts"),
    ("Wh", "energy", "J", Fraction(3600), "kMGT", "watt-hour watt-hours"),
    ("J", "energy", "J", Fraction(1), "kMGT", "joule joules"),
    ("cal", "energy", "J", Fraction(523, 125), "k", ""),
    ("V", "voltage", "V", Fraction(1), "mkM", "volt volts"),
    ("A", "current", "A", Fraction(1), "µmk", "ampere amperes amp amps"),
    ("Hz", "frequency", "Hz", Fraction(1), "kMGT", "hertz"),
    ("Pa", "pressure", "Pa", Fraction(1), "hkMG", "pascal pascals"),
    ("bar", "pressure", "Pa", Fraction(10**5), "m", "bar bars"),
    ("N", "force", "N", Fraction(1), "kM", "newton newtons"),
    ("B", "data", "B", Fraction(1), "kMGTP", "byte bytes"),
    ("bit", "data", "B", Fraction(1, 8), "kMG", "bit bits"),
    ("s", "duration", "s", Fraction(1), "nµm", "second seconds secondo secondi"),
)

_WORDS: tuple[tuple[str, str, str, Fraction], ...] = (
    ("inch inches pollice pollici", "length", "m", Fraction(254, 10000)),
    ("foot feet ft piede piedi", "length", "m", Fraction(3048, 10000)),
    ("yard yards yd iarda iarde", "length", "m", Fraction(9144, 10000)),
    ("mile miles mi miglio miglia", "length", "m", Fraction(1609344, 1000)),
    ("pound pounds lb lbs libbra libbre", "mass", "kg", Fraction(45359237, 10**8)),
    ("ounce ounces oz oncia once", "mass", "kg", Fraction(28349523125, 10**12)),
    ("quintale quintali", "mass", "kg", Fraction(100)),
    ("etto etti", "mass", "kg", Fraction(1, 10)),
    ("acre acres acro acri", "area", "m²", Fraction(40468564224, 10**7)),
    ("hectare hectares ettaro ettari", "area", "m²", Fraction(10**4)),
    ("minute minutes min minuto minuti", "duration", "s", Fraction(60)),
    ("hour hours h ora ore", "duration", "s", Fraction(3600)),
    ("day days giorno giorni", "duration", "s", Fraction(86400)),
    ("week weeks settimana settimane", "duration", "s", Fraction(604800)),
    ("month months mese mesi", "months", "month", Fraction(1)),
    ("year years anno anni", "months", "month", Fraction(12)),
    ("decade decades decennio decenni", "months", "month", Fraction(120)),
    ("century centuries secolo secoli", "months", "month", Fraction(1200)),
    ("mph", "speed", "m/s", Fraction(44704, 10**5)),
    ("kph kmh", "speed", "m/s", Fraction(5, 18)),
    ("kcal kilocalorie kilocalories chilocalorie", "energy", "J", Fraction(4184)),
    ("% percent percento", "percent", "%", Fraction(1)),
    ("€ euro euros eur", "money:EUR", "EUR", Fraction(1)),
    ("$ dollar dollars usd dollaro dollari", "money:USD", "USD", Fraction(1)),
    ("£ gbp sterlina sterline", "money:GBP", "GBP", Fraction(1)),
    ("¥ yen jpy", "money:JPY", "JPY", Fraction(1)),
    ("chf", "money:CHF", "CHF", Fraction(1)),
)

_PHRASES: tuple[tuple[str, Unit], ...] = (
    ("per cent,per cento", PERCENT),
    ("percentage point,percentage points,punto percentuale,punti percentuali", Unit("percentage-points", "pp")),
    ("° c,degrees celsius,degree celsius,gradi celsius,degrees centigrade,gradi centigradi,° celsius", CELSIUS),
    ("° f,degrees fahrenheit,degree fahrenheit,gradi fahrenheit,° fahrenheit", FAHRENHEIT),
    ("km / h,kilometres per hour,kilometers per hour,km per hour,chilometri all ora,km all ora,chilometri orari",
     Unit("speed", "m/s", Fraction(5, 18))),
    ("m / s,metres per second,meters per second,metri al secondo", Unit("speed", "m/s")),
    ("miles per hour,miglia all ora,miglia orarie", Unit("speed", "m/s", Fraction(44704, 10**5))),
    ("km²,km 2,square kilometres,square kilometers,square km,chilometri quadrati",
     Unit("area", "m²", Fraction(10**6))),
    ("m²,m 2,square metres,square meters,metri quadrati,metri quadri", Unit("area", "m²")),
    ("square miles,square mile,miglia quadrate", Unit("area", "m²", Fraction(1609344, 1000) ** 2)),
    ("square feet,square foot,sq ft,piedi quadrati", Unit("area", "m²", Fraction(3048, 10000) ** 2)),
    ("m³,m 3,cubic metres,cubic meters,metri cubi", Unit("volume", "L", Fraction(1000))),
    ("pounds sterling,lire sterline", Unit("money:GBP", "GBP")),
    ("us dollars,us $", Unit("money:USD", "USD")),
)  # fmt: skip


def _symbols() -> dict[str, Unit]:
    found = {"K": Unit("temperature", "°C", Fraction(1), Fraction(-27315, 100))}
    for symbol, dimension, canonical, factor, prefixes, _ in _SI:
        for prefix in ("", *prefixes, *("μ" if "µ" in prefixes else "")):
            found[prefix + symbol] = Unit(dimension, canonical, factor * _PREFIXES[prefix])
    # One letter that is far more often an article, a name or an initial than a unit.
    for letter in "ABN":
        del found[letter]
    return found


def _word_table() -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    for _, dimension, canonical, factor, prefixes, names in _SI:
        for name in names.split():
            for prefix in ("", *prefixes):
                for prefix_name in _PREFIX_NAMES[prefix]:
                    found[prefix_name + name] = Unit(dimension, canonical, factor * _PREFIXES[prefix])
    for words, dimension, canonical, factor in _WORDS:
        for word in words.split():
            found[word] = Unit(dimension, canonical, factor)
    return found


SYMBOLS = _symbols()
"""Unit symbols, whose letter case counts: mW is not MW."""
WORDS = _word_table()
"""Unit words and symbols whose case does not count, in lower case."""
PHRASES = {tuple(phrase.split()): unit for text, unit in _PHRASES for phrase in text.split(",")}
"""Units of two or three tokens, in lower case."""
