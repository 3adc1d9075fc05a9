"""Where samples come from: folders, Parquet files, tar shards and feature files, here or at any address of fsspec."""

from gddsg.scale.sources.opening import Columns, Sources, open_sources

__all__ = ["Columns", "Sources", "open_sources"]
