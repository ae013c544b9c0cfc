from typing import Literal, cast

AudioCodec = Literal["opus"]


def check_audio_codec(value: str) -> AudioCodec:
    # Whatever a newer server says is passed on.
    return cast(AudioCodec, value)
