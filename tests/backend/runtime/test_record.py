"""Records: what they take, and that they stay as they are."""

from __future__ import annotations

import pickle

import pytest
from kernelwheel.runtime.record import Record


class Place(Record):
    """A record with a default, and a property."""

    street: str
    number: int = 1

    @property
    def text(self) -> str:
        return f"{self.street} {self.number}"


class Other(Record):
    """One with the fields of Place."""

    street: str
    number: int = 1


class Flat(Place):
    """One with a field more."""

    floor: int = 0


def test_a_record_of_another_kind_has_its_fields_too() -> None:
    assert Flat("a", 2, floor=3)._asdict() == {"street": "a", "number": 2, "floor": 3}
    assert Flat("a", 2).text == "a 2"
    assert Flat("a", 2) != Place("a", 2)


def test_fields_are_given_by_place_or_by_name() -> None:
    given = [Place("a", 2), Place("a", number=2), Place(number=2, street="a")]

    assert [(each.street, each.number, each.text) for each in given] == [("a", 2, "a 2")] * 3
    assert Place("a").number == 1


@pytest.mark.parametrize("wrong", [
    lambda: Place(),  # type: ignore[call-arg]
    lambda: Place("a", 2, 3),  # type: ignore[call-arg]
    lambda: Place("a", street="b"),  # type: ignore[misc]
    lambda: Place("a", colour="b"),  # type: ignore[call-arg]
    lambda: Place("a")._replace(colour="b"),
])  # fmt: skip
def test_anything_else_is_an_error_that_names_the_fields(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match=r"^Place takes street, number$"):
        wrong()


def test_it_stays_as_it_is() -> None:
    place = Place("a")

    for name in ("street", "colour"):
        with pytest.raises(AttributeError, match=f"Place is frozen: {name}"):
            setattr(place, name, "b")
        with pytest.raises(AttributeError, match=f"Place is frozen: {name}"):
            delattr(place, name)
    assert (place._replace(number=3), place) == (Place("a", 3), Place("a", 1))


def test_equal_records_are_of_one_class_and_have_equal_values() -> None:
    assert {Place("a"), Place("a", 1), Other("a"), Place("b")} == {Place("a"), Other("a"), Place("b")}
    assert Place("a") not in (Place("a", 2), Other("a"), ("a", 1))


def test_it_says_what_is_in_it_and_travels() -> None:
    assert repr(Place("a")) == "Place(street='a', number=1)"
    assert Place("a", 2)._asdict() == {"street": "a", "number": 2}
    assert pickle.loads(pickle.dumps(Place("a", 2))) == Place("a", 2)
