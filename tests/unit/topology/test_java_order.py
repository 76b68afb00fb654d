"""The orders of Java's sets, against Java itself."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.topology.java_order import TreeSet, hash_set_order, string_hash

NAMES = st.lists(st.text(min_size=1, max_size=12), max_size=40, unique=True)


def test_string_hash_is_that_of_java(jvm):
    for text in ("", "a", "KSTREAM-SOURCE-0000000000", "größe", "𝄞"):
        assert string_hash(text) == jvm.java.util.Objects.hashCode(text) & 0xFFFFFFFF


def test_hash_set_iterates_as_in_java(jvm):
    @settings(max_examples=40, deadline=None)
    @given(NAMES)
    def check(names):
        filled, copied = jvm.java.util.HashSet(), jvm.java.util.ArrayList()
        for name in names:
            filled.add(name)
            copied.add(name)
        assert hash_set_order(names) == list(filled.toArray())
        assert hash_set_order(names, sized=True) == list(jvm.java.util.HashSet(copied).toArray())

    check()


@given(st.lists(st.integers(0, 50)))
def test_tree_set_with_a_steady_order_is_sorted(numbers):
    tree = TreeSet(lambda a, b: a - b)
    for number in numbers:
        tree.add(number)
    assert list(tree) == sorted(set(numbers))


def test_tree_set_keeps_the_place_an_item_had_when_it_came():
    sizes = {"a": 1, "b": 1, "c": 1}
    tree = TreeSet(lambda x, y: (sizes[y] - sizes[x]) or (x > y) - (x < y))
    tree.add("a")
    tree.add("b")
    sizes["b"] = 5
    tree.add("c")
    assert list(tree) == ["a", "b", "c"]
