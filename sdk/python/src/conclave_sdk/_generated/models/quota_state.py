from typing import Literal, cast

QuotaState = Literal["active", "exceeded", "suspended"]


def check_quota_state(value: str) -> QuotaState:
    # Whatever a newer server says is passed on.
    return cast(QuotaState, value)
