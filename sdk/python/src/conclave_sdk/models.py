"""The types of the API and of its events."""

from ._generated.models import *  # noqa: F403
from ._generated.types import UNSET as UNSET
from ._generated.types import Unset as Unset
