from typing import Literal, cast

TrackSource = Literal["camera", "microphone", "screen_share", "screen_share_audio", "unknown"]


def check_track_source(value: str) -> TrackSource:
    # Whatever a newer server says is passed on.
    return cast(TrackSource, value)
