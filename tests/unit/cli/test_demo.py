"""The parts of `headrace demo` that need neither Kafka nor Spark."""

from __future__ import annotations

from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.examples import demo_names, load_demo
from headrace.cli.result_table import ResultTable
from headrace.topology import Topology


def test_every_example_tells_of_its_demo() -> None:
    names = demo_names()

    assert "orders" in names
    for name in names:
        demo = load_demo(name)
        assert isinstance(demo.topology(), Topology)
        assert str(demo.config.application_id).startswith(name)


def test_an_unknown_demo_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["demo", "oders"])

    assert result.exit_code == 1
    assert result.stderr == f"There is no demo oders: choose one of {', '.join(demo_names())}\n"


def test_a_row_is_made_of_what_several_results_say() -> None:
    table = ResultTable("Orders", ("store", "type"), ("orders", "revenue"))
    assert table.is_empty

    table.put({"store": "b", "type": "x", "orders": "1"})
    table.put({"store": "a", "type": "x", "revenue": "2.50"})
    table.put({"store": "b", "type": "x", "revenue": "7.00"})

    assert not table.is_empty
    assert table.all_lines() == ["a x | revenue 2.50", "b x | orders 1 | revenue 7.00"]


def test_lines_are_those_that_have_changed() -> None:
    table = ResultTable("Orders", ("store",), ("orders",))
    table.put({"store": "a", "orders": "1"})
    table.put({"store": "b", "orders": "1"})
    assert len(table.lines()) == 2

    table.put({"store": "b", "orders": "2"})
    assert table.lines() == ["b | orders 2"]
    assert table.lines() == []


def test_the_table_has_all_rows_in_order() -> None:
    table = ResultTable("Orders", ("store",), ("orders", "revenue"))
    table.put({"store": "b", "orders": "1"})
    table.put({"store": "a", "revenue": "2.50"})

    assert [list(column.cells) for column in table.table().columns] == [["a", "b"], ["", "1"], ["2.50", ""]]
