from typing import Literal, cast

InputType = Literal["rtmp", "whip"]


def check_input_type(value: str) -> InputType:
    # Whatever a newer server says is passed on.
    return cast(InputType, value)
