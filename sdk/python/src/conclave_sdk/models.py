"""The types of the API and of its events: dataclasses of what a server sends, dictionaries of what a caller sends."""

from ._generated.models import *  # noqa: F403
