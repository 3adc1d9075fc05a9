"""Judging learners: metrics as pure functions on arrays, :mod:`.protocol`, :mod:`.leak_check` and :mod:`.released`.

Only the metrics are imported here; the others need torch, which who evaluates photos may not have loaded yet.
"""

from gddsg.evaluation.metrics import (
    Interval,
    OrderSpread,
    PairedComparison,
    accuracy_in_group,
    aopd,
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    class_accuracies,
    confidence_interval,
    expected_calibration_error,
    final_average_accuracy,
    forgetting,
    group_accuracy,
    mopd,
    opd_by_class,
    opd_by_position,
    order_spread,
    paired_comparison,
    task_matrix,
)

__all__ = [
    "Interval",
    "OrderSpread",
    "PairedComparison",
    "accuracy_in_group",
    "aopd",
    "average_accuracy",
    "average_incremental_accuracy",
    "backward_transfer",
    "class_accuracies",
    "confidence_interval",
    "expected_calibration_error",
    "final_average_accuracy",
    "forgetting",
    "group_accuracy",
    "mopd",
    "opd_by_class",
    "opd_by_position",
    "order_spread",
    "paired_comparison",
    "task_matrix",
]
