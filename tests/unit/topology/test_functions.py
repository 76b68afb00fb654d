"""The arity of users' functions."""

from decimal import Decimal
from functools import partial
from operator import add

import pytest

from headrace.errors import ArityError, TopologyError
from headrace.topology.functions import check_arity, check_supplier, joiner_function, value_function


@pytest.mark.parametrize(
    ("function", "arity"),
    [
        (lambda v: v, 1),
        (lambda k, v: v, 2),
        (lambda v, scale=2: v, 1),
        (lambda *values: values, 1),
        (str.upper, 1),
        (str, 1),
        (len, 1),
        (Decimal, 1),
        (partial(lambda n, k, v: v, 3), 2),
    ],
)
def test_a_value_function_takes_the_value_or_key_and_value(function, arity):
    assert check_arity(function, "map_values", None, "v", "k, v") == arity


def test_what_takes_the_wrong_number_is_refused_with_its_name():
    def three(a, b, c): ...

    with pytest.raises(
        ArityError, match=r"map_values needs a function of \(v\) or \(k, v\), but .*three takes 3 arguments"
    ):
        value_function(three, "map_values", None)


def test_what_is_no_function_is_refused():
    with pytest.raises(ArityError, match="not 'x'"):
        check_arity("x", "filter", None, "k, v")


def test_a_keyword_only_argument_without_default_cannot_be_filled():
    def needs_keyword(v, *, factor): ...

    with pytest.raises(ArityError):
        value_function(needs_keyword, "map_values", None)


def test_functions_are_given_their_full_arity():
    assert value_function(str.upper, "map_values", None)("k", "v") == "V"
    assert joiner_function(add, "join", None)("k", 1, 2) == 3
    assert joiner_function(lambda k, a, b: (k, a, b), "join", None)("k", 1, 2) == ("k", 1, 2)


def test_a_supplier_must_make_a_new_object_each_time():
    class Fresh: ...

    shared = Fresh()
    check_supplier(Fresh, "process", None)
    with pytest.raises(TopologyError, match="the same object twice"):
        check_supplier(lambda: shared, "process", None)
    with pytest.raises(TopologyError, match="a class or a function without arguments"):
        check_supplier(shared, "process", None)


def test_a_class_that_needs_arguments_is_no_supplier():
    class Needy:
        def __init__(self, limit): ...

    with pytest.raises(ArityError, match="Needy takes 1 argument"):
        check_supplier(Needy, "process", None)
