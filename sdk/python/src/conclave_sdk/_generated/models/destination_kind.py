from typing import Literal, cast

DestinationKind = Literal["recording", "rtmp"]


def check_destination_kind(value: str) -> DestinationKind:
    # Whatever a newer server says is passed on.
    return cast(DestinationKind, value)
