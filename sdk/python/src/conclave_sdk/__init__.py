"""Server-side client of Conclave, with a typed method for each API operation and the verification of webhooks."""

from . import models, webhooks
from ._client import AsyncConclave, Conclave
from ._retry import RetryPolicy
from .errors import ConclaveError

__all__ = ["AsyncConclave", "Conclave", "ConclaveError", "RetryPolicy", "models", "webhooks"]
