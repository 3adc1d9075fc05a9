"""Judging learners: metrics as pure functions on arrays."""

from gddsg.evaluation.metrics import average_accuracy, class_accuracies, expected_calibration_error

__all__ = ["average_accuracy", "class_accuracies", "expected_calibration_error"]
