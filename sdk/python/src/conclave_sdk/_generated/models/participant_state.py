from typing import Literal, cast

ParticipantState = Literal["active", "disconnected", "joined", "joining"]


def check_participant_state(value: str) -> ParticipantState:
    # Whatever a newer server says is passed on.
    return cast(ParticipantState, value)
