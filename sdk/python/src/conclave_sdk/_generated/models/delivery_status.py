from typing import Literal, cast

DeliveryStatus = Literal["delivered", "failed", "pending"]


def check_delivery_status(value: str) -> DeliveryStatus:
    # Whatever a newer server says is passed on.
    return cast(DeliveryStatus, value)
