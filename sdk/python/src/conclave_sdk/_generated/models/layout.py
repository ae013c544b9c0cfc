from typing import Literal, cast

Layout = Literal["grid", "speaker"]


def check_layout(value: str) -> Layout:
    # Whatever a newer server says is passed on.
    return cast(Layout, value)
