import asyncio
import itertools
from collections.abc import Callable, Sequence

import pytest

from corrigenda.errors import BackendError, Unreachable
from corrigenda.stages.entail import (
    EMPTY_CLAIM,
    NO_REFERENCE,
    Scored,
    ScoredClaim,
    WindowCache,
    score_claims,
    score_texts,
)
from corrigenda.types import AtomicClaim, Entailment, Evidence, Pair, PairFailure, Reference, Span

Judge = Callable[[str, str], Entailment | PairFailure]


def probs(entailment: float, neutral: float, contradiction: float) -> Entailment:
    return Entailment(entailment=entailment, neutral=neutral, contradiction=contradiction)


YES, NO, UNKNOWN = probs(0.98, 0.01, 0.01), probs(0.01, 0.01, 0.98), probs(0.01, 0.98, 0.01)


class Verifier:
    """Counts words as tokens, judges by a function, and keeps every call."""

    name = "stub"

    def __init__(self, judge: Judge = lambda premise, hypothesis: UNKNOWN, max_tokens: int = 1000) -> None:
        self.judge = judge
        self.max_tokens = max_tokens
        self.calls: list[list[Pair]] = []
        self.counted = 0

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(pair.premise, pair.hypothesis) for call in self.calls for pair in call]

    def count_tokens(self, text: str) -> int:
        self.counted += 1
        return len(text.split())

    async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
        self.calls.append(list(pairs))
        return [self.judge(pair.premise, pair.hypothesis) for pair in pairs]

    async def aclose(self) -> None:
        return None


def claim(text: str, *, checkable: bool = True, reason: str | None = None) -> AtomicClaim:
    return AtomicClaim(text=text, span=None, sentence=0, checkable=checkable, reason=reason)


def ref(*texts: str) -> list[Reference]:
    return [Reference(text=text, source="context") for text in texts]


def score(verifier: Verifier, references: Sequence[Reference] | None, *texts: str) -> list[Scored]:
    return asyncio.run(score_texts(texts, references, verifier, language="en"))


def test_the_reference_is_the_premise_and_the_claim_the_hypothesis() -> None:
    premise = "Ada and Max both teach in Bern and sing in a choir."

    def judge(given: str, hypothesis: str) -> Entailment:
        return YES if "both teach in Bern" in given and hypothesis == "Ada teaches in Bern." else UNKNOWN

    verifier = Verifier(judge)
    atomic = claim("Ada teaches in Bern.")
    evidence = Evidence(reference=0, span=Span(0, len(premise)), text=premise, scores=YES)
    assert asyncio.run(score_claims([atomic], ref(premise), verifier, language="en")) == [
        ScoredClaim(claim=atomic, scores=YES, evidence=evidence)
    ]
    assert verifier.pairs == [(premise, "Ada teaches in Bern.")]


@pytest.mark.parametrize("windows", [2, 3, 5])
def test_each_claim_meets_each_window_once_in_one_call(windows: int) -> None:
    # Six of 26 tokens are kept for the claim; four sentences of 5 words fill the rest, and later windows repeat one.
    count = 4 + 3 * (windows - 1)
    text = " ".join(f"Item {i} weighs {i} kilograms." for i in range(count))
    verifier = Verifier(max_tokens=26)
    claims = ["Item nine is heavy.", "Nothing weighs much.", "Two more words"]
    score(verifier, ref(text), *claims)
    assert len(verifier.calls) == 1
    for hypothesis in claims:
        premises = [premise for premise, sent in verifier.pairs if sent == hypothesis]
        assert (len(premises), len(set(premises))) == (windows, windows)
        assert all(premise in text for premise in premises)


def test_pairs_with_the_same_premise_stand_together() -> None:
    verifier = Verifier()
    score(verifier, ref("First text.", "Second text."), "A claim.", "B claim.")
    assert verifier.pairs == [
        ("First text.", "A claim."),
        ("First text.", "B claim."),
        ("Second text.", "A claim."),
        ("Second text.", "B claim."),
    ]


def test_evidence_in_two_sentences_is_read_together() -> None:
    reference = "The Orlo tower was designed by Ina Vel. It has a copper roof. Ina Vel grew up in Split."

    def judge(premise: str, hypothesis: str) -> Entailment:
        return YES if "designed by Ina Vel" in premise and "grew up in Split" in premise else UNKNOWN

    (found,) = score(Verifier(judge), ref(reference), "The Orlo tower was designed by someone from Split.")
    assert found.signed == 0.98


def by_window(table: dict[str, Entailment | PairFailure]) -> Judge:
    return lambda premise, hypothesis: table[premise]


@pytest.mark.parametrize(
    ("scores", "signed"),
    [
        ([UNKNOWN, YES, UNKNOWN], 0.98),
        ([UNKNOWN, NO, probs(0.02, 0.97, 0.01)], -0.98),
        ([probs(0.02, 0.96, 0.02), UNKNOWN, probs(0.03, 0.95, 0.02)], 0.0),
        ([probs(0.6, 0.3, 0.1), NO, UNKNOWN], -0.98),
        ([probs(0.1, 0.2, 0.7), YES], 0.98),
        ([YES, NO], 0.98),
        ([probs(0.4, 0.35, 0.25), UNKNOWN], 0.4),
    ],
)
def test_the_most_confident_window_that_is_not_neutral_decides(scores: list[Entailment], signed: float) -> None:
    for order in itertools.permutations(scores):
        for extra in (0, 20):
            windows = [*order, *[UNKNOWN] * extra]
            texts = [f"Passage {i}." for i in range(len(windows))]
            verifier = Verifier(by_window(dict(zip(texts, windows, strict=True))))
            (found,) = score(verifier, ref(*texts), "A claim.")
            assert found.signed == signed


def test_among_neutral_windows_the_most_confident_is_the_evidence() -> None:
    sure = probs(0.0, 1.0, 0.0)
    verifier = Verifier(by_window({"Vague.": UNKNOWN, "Silent.": sure}))
    assert score(verifier, ref("Vague.", "Silent."), "A claim.") == [
        Scored(scores=sure, evidence=Evidence(reference=1, span=Span(0, 7), text="Silent.", scores=sure))
    ]


def test_the_best_opposite_window_is_kept_beside_the_evidence() -> None:
    weak, strong = probs(0.7, 0.2, 0.1), probs(0.8, 0.1, 0.1)
    verifier = Verifier(by_window({"Weak yes.": weak, "No.": NO, "Strong yes.": strong}))
    assert score(verifier, ref("Weak yes.", "No.", "Strong yes."), "A claim.") == [
        Scored(
            scores=NO,
            evidence=Evidence(reference=1, span=Span(0, 3), text="No.", scores=NO),
            counter_evidence=Evidence(reference=2, span=Span(0, 11), text="Strong yes.", scores=strong),
        )
    ]


def test_ties_go_to_the_earlier_reference() -> None:
    verifier = Verifier(by_window({"Later said.": YES, "Said.": YES}))
    (found,) = score(verifier, ref("Later said.", "Said."), "A claim.")
    assert found.evidence == Evidence(reference=0, span=Span(0, 11), text="Later said.", scores=YES)


def test_the_window_is_found_in_the_reference_as_given() -> None:
    text = "\n  Zinc melts at 420 degrees. \n"
    (found,) = score(Verifier(lambda p, h: YES), ref("Other.", text), "Zinc melts.")
    assert found.evidence is not None
    assert found.counter_evidence is None
    (found,) = score(Verifier(lambda p, h: YES if "Zinc" in p else UNKNOWN), ref("Other.", text), "Zinc melts.")
    assert found.evidence == Evidence(reference=1, span=Span(3, 29), text="Zinc melts at 420 degrees.", scores=YES)


@pytest.mark.parametrize(
    "references",
    [None, [], ref(""), ref("   \n"), ref("", " \t", "\u200b")],
    ids="ABCDE",
)
def test_without_a_reference_nothing_is_sent(references: list[Reference] | None) -> None:
    verifier = Verifier()
    claims = [claim("Rain is wet."), claim("Is it?", checkable=False, reason="a question"), claim(" ")]
    assert asyncio.run(score_claims(claims, references, verifier, language="en")) == [
        ScoredClaim(claim=claims[0], reason=NO_REFERENCE),
        ScoredClaim(claim=claims[1], reason="a question"),
        ScoredClaim(claim=claims[2], reason=NO_REFERENCE),
    ]
    assert verifier.calls == []


def test_blank_references_keep_the_numbers_of_the_others() -> None:
    verifier = Verifier(lambda p, h: YES)
    (found,) = score(verifier, ref(" ", "Salt dissolves.", ""), "Salt dissolves in water.")
    assert verifier.pairs == [("Salt dissolves.", "Salt dissolves in water.")]
    assert found.evidence is not None
    assert found.evidence.reference == 1


def test_blank_and_uncheckable_claims_are_not_sent() -> None:
    verifier = Verifier()
    claims = [claim("\u200b "), claim("Lovely!", checkable=False), claim("Tin is soft.")]
    found = asyncio.run(score_claims(claims, ref("Tin bends."), verifier, language="en"))
    assert [item.reason for item in found] == [EMPTY_CLAIM, "not checkable", None]
    assert [item.scores for item in found] == [None, None, UNKNOWN]
    assert verifier.pairs == [("Tin bends.", "Tin is soft.")]


def test_no_claims_make_no_call() -> None:
    verifier = Verifier()
    assert score(verifier, ref("A text.")) == []
    assert score(verifier, ref("A text."), "", " ") == [Scored(reason=EMPTY_CLAIM)] * 2
    assert verifier.calls == []


def test_equal_pairs_are_scored_once() -> None:
    verifier = Verifier(lambda p, h: YES)
    found = score(verifier, ref("Owls hunt.", "Owls hunt."), "Owls hunt at night.", "Owls hunt at night.")
    assert verifier.pairs == [("Owls hunt.", "Owls hunt at night.")]
    assert found[0] == found[1]
    assert found[0].signed == 0.98


def test_texts_reach_the_verifier_letter_for_letter() -> None:
    verifier = Verifier()
    score(verifier, ref("The lamp draws 5 mW."), "The lamp draws 5 MW.", "The lamp draws 5 mW.")
    assert verifier.pairs == [
        ("The lamp draws 5 mW.", "The lamp draws 5 MW."),
        ("The lamp draws 5 mW.", "The lamp draws 5 mW."),
    ]


def test_a_failing_window_leaves_the_decision_to_the_others() -> None:
    verifier = Verifier(by_window({"Broken.": PairFailure(reason="NaN"), "Fine.": YES}))
    (found,) = score(verifier, ref("Broken.", "Fine."), "A claim.")
    assert (found.scores, found.failure) == (YES, None)
    assert found.reason == "1 of 2 windows could not be scored: NaN"


def test_a_claim_fails_when_all_its_windows_do_and_no_other_claim_with_it() -> None:
    def judge(premise: str, hypothesis: str) -> Entailment | PairFailure:
        return PairFailure(reason=f"no logits for {premise}") if hypothesis == "Bad." else NO

    found = score(Verifier(judge), ref("One.", "Two."), "Bad.", "Good.")
    assert found[0] == Scored(failure="no logits for One.; no logits for Two.")
    assert found[1].signed == -0.98


def test_a_claim_that_is_longer_than_the_window_fails_with_both_numbers() -> None:
    verifier = Verifier(max_tokens=16)
    long = " ".join(["word"] * 17)
    reference = "A short reference with enough words in it. And another sentence, to be cut. " * 2
    found = score(verifier, ref(reference), long, "Short claim.")
    assert found[0].failure is not None
    assert "the claim has 17 tokens" in found[0].failure
    assert "reads 16 tokens" in found[0].failure
    assert found[0].scores is None
    assert found[1].scores == UNKNOWN
    assert {hypothesis for _, hypothesis in verifier.pairs} == {"Short claim."}


def test_a_long_claim_passes_where_the_whole_reference_fits_beside_it() -> None:
    verifier = Verifier(max_tokens=16)
    long = " ".join(["word"] * 15)
    (found,) = score(verifier, ref("Tiny", "This one is far too long to stand beside it."), long)
    assert verifier.pairs == [("Tiny", long)]
    assert found.scores == UNKNOWN
    assert found.reason is not None
    assert found.reason.startswith("1 of 2 windows could not be scored: the claim has 15 tokens")


@pytest.mark.parametrize("claim_words", [1, 3, 4, 9, 16, 20, 28])
def test_every_pair_fits_the_verifier(claim_words: int) -> None:
    verifier = Verifier(max_tokens=32)
    text = " ".join(f"Stone {i} is grey and {'very ' * (i % 9)}old." for i in range(40))
    score(verifier, ref(text, "x " * 200), " ".join(["c"] * claim_words))
    assert verifier.pairs
    assert all(len(f"{premise} {sent}".split()) <= 32 for premise, sent in verifier.pairs)


def test_the_windows_of_a_claim_do_not_depend_on_the_other_claims() -> None:
    text = " ".join(f"Stone {i} is grey and old." for i in range(30))
    alone, among = Verifier(max_tokens=32), Verifier(max_tokens=32)
    score(alone, ref(text), "Stone one is old.")
    score(among, ref(text), " ".join(["c"] * 15), "Stone one is old.", "x", " ".join(["d"] * 40))
    assert [pair for pair in among.pairs if pair[1] == "Stone one is old."] == alone.pairs


@pytest.mark.parametrize("error", [BackendError("the verifier is gone"), Unreachable("no route to 10.0.0.9")])
def test_a_broken_verifier_fails_the_claims_that_were_sent(error: BackendError) -> None:
    def broken(premise: str, hypothesis: str) -> Entailment:
        raise error

    claims = [claim("Iron rusts."), claim("Nice.", checkable=False, reason="opinion"), claim("")]
    found = asyncio.run(score_claims(claims, ref("Iron is a metal."), Verifier(broken), language="en"))
    assert [item.failure for item in found] == [str(error), None, None]
    assert [item.reason for item in found] == [None, "opinion", EMPTY_CLAIM]


def test_a_missing_result_is_a_failure_and_not_a_shift() -> None:
    class Short(Verifier):
        async def entail(self, pairs: Sequence[Pair]) -> list[Entailment | PairFailure]:
            return [YES]

    assert (
        score(Short(), ref("A text."), "One.", "Two.")
        == [Scored(failure="the verifier 'stub' gave 1 results for 2 pairs")] * 2
    )


def test_other_tasks_run_while_a_long_reference_is_cut() -> None:
    async def main() -> bool:
        verifier = Verifier(max_tokens=16)
        ran = False

        async def other() -> None:
            nonlocal ran
            ran = True

        task = asyncio.create_task(other())
        await score_texts(["A claim."], ref("Some words here. " * 50), verifier, language="en")
        done_before = ran
        await task
        return done_before

    assert asyncio.run(main())


LONG = " ".join(f"Stone {i} is grey and old." for i in range(200))


def test_claims_share_the_text_of_each_window() -> None:
    verifier = Verifier(max_tokens=32)
    score(verifier, ref(LONG), *(f"Stone {i} is old." for i in range(20)))
    premises = [pair.premise for pair in verifier.calls[0]]
    assert len(premises) == 20 * len(set(premises))
    assert len({id(premise) for premise in premises}) == len(set(premises))


def test_a_cache_cuts_the_references_once_for_several_calls() -> None:
    plain, cached, cache = Verifier(max_tokens=32), Verifier(max_tokens=32), WindowCache()
    references = ref(LONG, "A short one.")

    async def twice(verifier: Verifier, cache: WindowCache | None) -> tuple[list[Scored], int]:
        await score_claims([claim("Stone 1 is old.")], references, verifier, language="en", cache=cache)
        before = verifier.counted
        found = await score_texts(["Stone 2 is old."], references, verifier, language="en", cache=cache)
        return found, verifier.counted - before

    (expected, many), (found, few) = asyncio.run(twice(plain, None)), asyncio.run(twice(cached, cache))
    assert (found, cached.pairs) == (expected, plain.pairs)
    assert (few, many > 100) == (1, True)


def test_one_cache_serves_other_references_too() -> None:
    verifier, cache = Verifier(max_tokens=32), WindowCache()

    async def run() -> None:
        for references in (ref("One."), ref("Two."), ref("Two.", "One.")):
            await score_texts(["A claim."], references, verifier, language="en", cache=cache)

    asyncio.run(run())
    assert verifier.pairs == [
        ("One.", "A claim."),
        ("Two.", "A claim."),
        ("Two.", "A claim."),
        ("One.", "A claim."),
    ]


@pytest.mark.parametrize("words", [16, 40, 200])
def test_a_reference_of_any_length_is_read_to_its_end(words: int) -> None:
    # Long words: the first characters alone do not tell whether a reference fits.
    text = " ".join(f"{'x' * 60}{i}" for i in range(words))
    verifier = Verifier(max_tokens=32)
    score(verifier, ref(text), "A claim.")
    premises = [premise for premise, _ in verifier.pairs]
    assert (premises[0].split()[0], premises[-1].split()[-1]) == (text.split()[0], text.split()[-1])
    assert (len(premises) == 1) is (words < 30)


@pytest.mark.parametrize("hypotheses", [["A claim."], [f"Stone {i} is old." for i in range(300)]])
def test_a_deadline_stops_the_planning(hypotheses: list[str]) -> None:
    verifier = Verifier(max_tokens=32)

    async def run() -> None:
        async with asyncio.timeout(0):
            await score_texts(hypotheses, ref(LONG * 50), verifier, language="en")

    with pytest.raises(TimeoutError, match=r"^$"):
        asyncio.run(run())
    assert verifier.calls == []
    assert verifier.counted < 10
