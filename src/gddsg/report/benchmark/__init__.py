"""The benchmark report: one page, and its Markdown twin, made of stored records alone; no learner is run.

The way of the data: records → `records` (sorted, fit to be shown) → `summary` (numbers over class orders) → `tables`,
`figures` and `prose`, put together by `sections` into a `document` → `page` (HTML) and `markdown`.
"""

from gddsg.report.benchmark.write import ReportFiles, write_report

__all__ = ["ReportFiles", "write_report"]
