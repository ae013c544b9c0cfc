from typing import Literal, cast

TrackKind = Literal["audio", "data", "video"]


def check_track_kind(value: str) -> TrackKind:
    # Whatever a newer server says is passed on.
    return cast(TrackKind, value)
