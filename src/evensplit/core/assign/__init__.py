"""Who owns which split."""

from evensplit.core.assign.balanced import balance

__all__ = ["balance"]
