from typing import Literal, cast

VideoCodec = Literal["av1", "h264", "vp8", "vp9"]


def check_video_codec(value: str) -> VideoCodec:
    # Whatever a newer server says is passed on.
    return cast(VideoCodec, value)
