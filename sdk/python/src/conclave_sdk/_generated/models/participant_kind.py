from typing import Literal, cast

ParticipantKind = Literal["agent", "egress", "ingress", "sip", "standard"]


def check_participant_kind(value: str) -> ParticipantKind:
    # Whatever a newer server says is passed on.
    return cast(ParticipantKind, value)
