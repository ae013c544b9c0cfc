"""The client of Conclave for servers: every operation of its API, and the verification of its webhooks."""

from . import models, webhooks
from ._client import AsyncConclave, Conclave
from ._retry import RetryPolicy
from .errors import ConclaveError

__all__ = ["AsyncConclave", "Conclave", "ConclaveError", "RetryPolicy", "models", "webhooks"]
