from typing import Literal, cast

PublishKind = Literal["audio", "data", "screen", "video"]


def check_publish_kind(value: str) -> PublishKind:
    # Whatever a newer server says is passed on.
    return cast(PublishKind, value)
