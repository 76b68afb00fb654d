"""The tests of Headrace."""
