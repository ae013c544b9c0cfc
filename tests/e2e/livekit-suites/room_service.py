"""Calls of LiveKit's server API in the suites, as calls of Conclave's API."""

import calendar
import time

from .tokens import identity, room_name

# Media kind of each track source.
KIND_OF_SOURCE = {"camera": "video", "microphone": "audio", "screen_share": "screen", "screen_share_audio": "screen"}


class TwirpError(Exception):
    STATUS = {"not_found": 404, "unimplemented": 501, "invalid_argument": 400, "internal": 500, "already_exists": 409}

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.status = code, self.STATUS.get(code, 500)


def seconds(timestamp):
    return calendar.timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))


def changed_role(permission):
    """Returns a role with the permissions of an UpdateParticipant call."""
    allowed = ["audio", "video", "screen"] if permission.get("canPublish") else []
    if sources := permission.get("canPublishSources"):
        allowed = sorted({KIND_OF_SOURCE[source.lower()] for source in sources})
    if permission.get("canPublishData"):
        allowed.append("data")
    role = {"publish": {"allowed": allowed}, "hidden": bool(permission.get("hidden"))}
    if permission.get("canUpdateMetadata"):
        role["permissions"] = {"update_own_metadata": True}
    if not permission.get("canSubscribe"):
        role["subscribe"] = {"to_roles": []}
    return role


class RoomService:
    """Conclave's rooms by their names in LiveKit's suites."""

    def __init__(self, conclave):
        self.conclave, self.rooms, self.ended, self.roles = conclave, {}, {}, 0

    def call(self, method, path, body=None, none_for=()):
        status, answer = self.conclave.call(method, path, body)
        if status in none_for:
            return None
        if status >= 400:
            code = {404: "not_found", 409: "already_exists", 400: "invalid_argument"}.get(status, "internal")
            raise TwirpError(code, f"{answer['error']['code']}: {answer['error']['message']}")
        return answer if answer is not None else {}

    def path(self, name):
        """Returns the path of an open room."""
        if name not in self.rooms:
            raise TwirpError("not_found", f"there is no room {name}")
        return f"/v1/rooms/{self.rooms[name]['name']}"

    def open(self, name, settings=None):
        """Returns a room, which is created if it does not exist. Conclave never reuses a name, so a successor has a number."""
        if name not in self.rooms:
            used = self.ended.get(name, 0)
            chosen = room_name(name) + (f"-{used + 1}" if used else "")
            self.rooms[name] = self.call("POST", "/v1/rooms", {"name": chosen} | (settings or {}))
        return self.rooms[name]

    def token(self, name, who):
        return self.call("POST", "/v1/tokens", {"room": self.rooms[name]["name"], "identity": who})["token"]

    def room(self, name):
        room = self.rooms[name]
        created = seconds(room["created_at"])
        return {"sid": f"RM_{room['id'][:12]}", "name": name, "creationTime": str(created)}

    def CreateRoom(self, request):
        given = {"empty_timeout_seconds": request.get("emptyTimeout"), "max_participants": request.get("maxParticipants")}
        self.open(request["name"], {name: value for name, value in given.items() if value})
        return self.room(request["name"])

    def ListRooms(self, request):
        wanted = request.get("names")
        return {"rooms": [self.room(name) for name in self.rooms if not wanted or name in wanted]}

    def DeleteRoom(self, request):
        self.call("DELETE", self.path(request["room"]))
        del self.rooms[request["room"]]
        self.ended[request["room"]] = self.ended.get(request["room"], 0) + 1
        return {}

    def participant(self, found):
        tracks = [
            {"sid": track["sid"], "name": track.get("name", ""), "muted": track.get("muted", False)} for track in found["tracks"]
        ]
        named = {field: found[field] for field in ("sid", "identity", "name", "metadata", "attributes")}
        return named | {"state": found["state"].upper(), "tracks": tracks}

    def ListParticipants(self, request):
        listed = self.call("GET", f"{self.path(request['room'])}/participants")
        return {"participants": [self.participant(found) for found in listed["participants"]]}

    def participant_path(self, request):
        return f"{self.path(request['room'])}/participants/{identity(request['identity'])}"

    def GetParticipant(self, request):
        return self.participant(self.call("GET", self.participant_path(request)))

    def RemoveParticipant(self, request):
        return self.call("DELETE", self.participant_path(request))

    def MutePublishedTrack(self, request):
        body = {"track_sid": request["trackSid"], "muted": request.get("muted", False)}
        muted = self.call("POST", f"{self.participant_path(request)}/mute", body)
        return {"track": {"sid": muted["track"]["sid"], "muted": muted["track"]["muted"]}}

    def UpdateParticipant(self, request):
        if any(request.get(field) for field in ("metadata", "name", "attributes")):
            raise TwirpError("unimplemented", "Conclave has no operation that changes a participant's name, metadata or attributes")
        path = self.participant_path(request)
        found = self.call("GET", path)
        if permission := request.get("permission"):
            template = self.rooms[request["room"]]["template_id"]
            self.roles += 1
            role = f"changed-{self.roles}"
            self.call("PUT", f"/v1/templates/{template}/roles/{role}", changed_role(permission))
            self.call("POST", f"{path}/role", {"role": role})
            found = self.call("GET", path)
        return self.participant(found)

    def answer(self, method, request):
        handler = getattr(self, method, None)
        if not handler or not method[0].isupper():
            raise TwirpError("unimplemented", f"Conclave has no operation for {method}")
        return handler(request)
