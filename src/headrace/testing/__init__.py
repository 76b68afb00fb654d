"""Tests of topologies, without a broker."""

from headrace.testing.driver import TopologyTestDriver
from headrace.testing.topics import EmptyTopicError, TestInputTopic, TestOutputTopic

__all__ = ["EmptyTopicError", "TestInputTopic", "TestOutputTopic", "TopologyTestDriver"]
