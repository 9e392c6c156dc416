"""How the embedded chat model's slots are handed out. What needs a model is in test_chat_local.py."""

from corrigenda.backends import local_runtime


def test_slots_are_given_to_who_shares_most_and_then_in_order() -> None:
    slots = local_runtime.Slots(range(2))
    assert slots.take("a").result() == 0
    slots.give_back(0, "the long prompt of recall")
    assert slots.take("the long prompt of generate").result() == 0
    assert slots.take("the long prompt").result() == 1
    first, second, third = slots.take("x"), slots.take("y"), slots.take("z")
    assert second.cancel()
    slots.give_back(1, "")
    assert first.result(0) == 1
    assert not third.done()
    slots.give_back(0, "")
    assert third.result(0) == 0


def test_label_requests_keep_the_slot_of_their_first_message() -> None:
    slots = local_runtime.PrefixSlots(range(2, 4))

    def number(prompt: str) -> int:
        found = slots.take(prompt).result(0)
        slots.give_back(found, prompt)
        return found

    assert [number(f"You compare.\0{i}") for i in range(2)] == [2, 2]
    assert [number(f"You check.\0{i}") for i in range(2)] == [3, 3]
    assert number("You compare.\0again") == 2
    assert number("A third.\0a") == 3  # in place of the one that was longest unused
    assert [number("You compare.\0b"), number("You check.\0c"), number("A third.\0d")] == [2, 3, 2]
    assert [number("no first message"), number("another"), number("A third.\0e")] == [3, 3, 2]


def test_label_requests_come_one_after_the_other() -> None:
    slots = local_runtime.PrefixSlots(range(2, 4))
    assert slots.take("a\0").result(0) == 2
    first, second, third = slots.take("b\0"), slots.take("b\0"), slots.take("a\0")
    assert not first.done()
    assert second.cancel()
    slots.give_back(2, "a\0")
    assert first.result(0) == 3
    assert not third.done()
    slots.give_back(3, "b\0")
    assert third.result(0) == 2
