"""Which operator runs which operation."""

from __future__ import annotations

from typing import Any

from headrace.operators.aggregate import StreamAggregateOperator, StreamReduceOperator
from headrace.operators.foreign_key_join import (
    ForeignTableJoinOperator,
    ResponseJoinOperator,
    SubscriptionJoinOperator,
    SubscriptionReceiveOperator,
    SubscriptionSendOperator,
)
from headrace.operators.operator import Operator
from headrace.operators.process import ProcessOperator
from headrace.operators.session_window_aggregate import SessionWindowAggregateOperator
from headrace.operators.sliding_window_aggregate import SlidingWindowAggregateOperator
from headrace.operators.stream import (
    BranchOperator,
    FilterOperator,
    FlatMapOperator,
    FlatMapValuesOperator,
    ForeachOperator,
    MapOperator,
    MapValuesOperator,
    PassThroughOperator,
    PeekOperator,
    PrintOperator,
    SelectKeyOperator,
    ToStreamOperator,
)
from headrace.operators.stream_stream_join import JoinWindowWriteOperator, StreamStreamJoinOperator
from headrace.operators.stream_table_join import StreamTableJoinOperator
from headrace.operators.suppress import SuppressOperator
from headrace.operators.table import (
    TableFilterOperator,
    TableMapValuesOperator,
    TablePassThroughOperator,
    TableRepartitionMapOperator,
    TableSourceOperator,
)
from headrace.operators.table_aggregate import TableAggregateOperator, TableReduceOperator
from headrace.operators.table_table_join import TableJoinMergeOperator, TableTableJoinOperator
from headrace.operators.table_transform import TableTransformValuesOperator
from headrace.operators.window_aggregate import WindowAggregateOperator
from headrace.topology import operations
from headrace.topology.operations import Operation

OPERATORS: dict[type[Operation], type[Any]] = {
    operations.Filter: FilterOperator,
    operations.Map: MapOperator,
    operations.SelectKey: SelectKeyOperator,
    operations.MapValues: MapValuesOperator,
    operations.FlatMap: FlatMapOperator,
    operations.FlatMapValues: FlatMapValuesOperator,
    operations.Peek: PeekOperator,
    operations.Foreach: ForeachOperator,
    operations.Print: PrintOperator,
    operations.PassThrough: PassThroughOperator,
    operations.Branch: BranchOperator,
    operations.Process: ProcessOperator,
    operations.TableSource: TableSourceOperator,
    operations.TableFilter: TableFilterOperator,
    operations.TableMapValues: TableMapValuesOperator,
    operations.TableTransformValues: TableTransformValuesOperator,
    operations.TableRepartitionMap: TableRepartitionMapOperator,
    operations.ToStream: ToStreamOperator,
    operations.StreamAggregate: StreamAggregateOperator,
    operations.StreamReduce: StreamReduceOperator,
    operations.WindowAggregate: WindowAggregateOperator,
    operations.SlidingWindowAggregate: SlidingWindowAggregateOperator,
    operations.SessionWindowAggregate: SessionWindowAggregateOperator,
    operations.TablePassThrough: TablePassThroughOperator,
    operations.TableAggregate: TableAggregateOperator,
    operations.TableReduce: TableReduceOperator,
    operations.JoinWindowWrite: JoinWindowWriteOperator,
    operations.StreamStreamJoin: StreamStreamJoinOperator,
    operations.StreamTableJoin: StreamTableJoinOperator,
    operations.TableTableJoin: TableTableJoinOperator,
    operations.TableJoinMerge: TableJoinMergeOperator,
    operations.SubscriptionSend: SubscriptionSendOperator,
    operations.SubscriptionReceive: SubscriptionReceiveOperator,
    operations.SubscriptionJoin: SubscriptionJoinOperator,
    operations.ForeignTableJoin: ForeignTableJoinOperator,
    operations.ResponseJoin: ResponseJoinOperator,
    operations.Suppress: SuppressOperator,
}
"""The operator of each operation; it is made with the operation as its only argument."""


def compile_operation(operation: Operation) -> Operator:
    """The operator that runs the operation."""
    operator: Operator = OPERATORS[type(operation)](operation)
    return operator
