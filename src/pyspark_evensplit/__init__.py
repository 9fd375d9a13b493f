"""Lets Spark find `format("evensplit")` by itself: it looks into every installed package named `pyspark_*`.

One such package that fails to import hides all others, so this one imports next to nothing.
"""

from evensplit.spark.source import EvenSplitDataSource as DefaultSource

__all__ = ["DefaultSource"]
