"""Judging learners: metrics as pure functions on arrays, :mod:`.protocol`, :mod:`.leak_check` and two references.

Only the metrics are imported here; the others need torch, which who evaluates photos may not have loaded yet.
"""

from gddsg.evaluation.intervals import Interval, PairedComparison, confidence_interval, paired_comparison
from gddsg.evaluation.metrics import (
    accuracy_curve,
    accuracy_in_group,
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    class_accuracies,
    expected_calibration_error,
    final_average_accuracy,
    forgetting,
    group_accuracy,
    task_matrix,
)
from gddsg.evaluation.order_metrics import (
    OrderSpread,
    aopd,
    mopd,
    opd_after_tasks,
    opd_by_class,
    opd_by_position,
    opd_by_task,
    order_spread,
)

__all__ = [
    "Interval",
    "OrderSpread",
    "PairedComparison",
    "accuracy_curve",
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
    "opd_after_tasks",
    "opd_by_class",
    "opd_by_position",
    "opd_by_task",
    "order_spread",
    "paired_comparison",
    "task_matrix",
]
