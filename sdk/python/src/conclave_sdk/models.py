"""Types of the API and its events: dataclasses in responses, dictionaries in requests."""

from ._generated.models import *  # noqa: F403
