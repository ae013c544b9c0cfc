from typing import Literal, cast

RecordingType = Literal["participant", "room_composite", "track"]


def check_recording_type(value: str) -> RecordingType:
    # Whatever a newer server says is passed on.
    return cast(RecordingType, value)
