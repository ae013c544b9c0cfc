"""Properties of a media file: codecs, duration, and colors and tones at given positions."""

import array
import json
import math
import subprocess

SAMPLES_PER_SECOND = 48_000
# Silence after which audio counts as the start of a tone, in seconds.
SILENCE = 0.2


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True)
    assert done.returncode == 0, f"{command[0]}: {done.stderr.decode()[-300:]}"
    return done.stdout


def streams(file):
    """Returns a file's codecs and duration."""
    probed = json.loads(run("ffprobe", "-v", "error", "-show_entries", "format=duration:stream=codec_name", "-of", "json", file))
    return [stream["codec_name"] for stream in probed["streams"]], float(probed["format"]["duration"])


def durations(file):
    """Returns the duration of each codec of a file, up to the end of its last packet."""
    ends = {}
    entries = "packet=stream_index,pts_time,duration_time:stream=index,codec_name"
    probed = json.loads(run("ffprobe", "-v", "error", "-show_entries", entries, "-of", "json", file))
    names = {stream["index"]: stream["codec_name"] for stream in probed["streams"]}
    for packet in probed["packets"]:
        name, end = names[packet["stream_index"]], float(packet["pts_time"]) + float(packet.get("duration_time", 0))
        ends[name] = max(ends.get(name, 0), end)
    return ends


def begin(file):
    """Returns the time of a file's first frame or sample. Positions in a file are relative to it."""
    probed = json.loads(run("ffprobe", "-v", "error", "-show_entries", "format=start_time", "-of", "json", file))
    return float(probed["format"]["start_time"])


def color(file, at, x, y):
    """Returns the color at a position of the frame, given in shares of its width and height."""
    place = f"crop=16:16:iw*{x}-8:ih*{y}-8,scale=1:1,format=rgb24"
    pixel = run("ffmpeg", "-v", "error", "-ss", at, "-i", file, "-frames:v", "1", "-vf", place, "-f", "rawvideo", "-")
    return tuple(pixel[:3])


def assert_color(file, at, x, y, expected):
    seen = color(file, at, x, y)
    assert all(abs(one - other) < 40 for one, other in zip(seen, expected)), f"{seen} at {at} s, not {expected}"


def blueness(file, crop):
    """Returns the time of each frame, and the blueness of a part of it."""
    tags = "frame=pts_time:frame_tags=lavfi.signalstats.UAVG"
    movie = f"movie={file},crop={crop},signalstats"
    frames = run("ffprobe", "-v", "error", "-f", "lavfi", "-i", movie, "-show_entries", tags, "-of", "csv=p=0")
    return [tuple(map(float, line.split(",")[:2])) for line in frames.decode().splitlines()]


def samples(file, begin=0, seconds=None):
    limit = ["-t", seconds] if seconds else []
    return array.array("h", run("ffmpeg", "-v", "error", "-ss", begin, "-i", file, *limit, "-ac", "1", "-ar", "48000", "-f", "s16le", "-"))


def strength(sound, tone):
    """Returns the strength of a tone in samples (Goertzel algorithm)."""
    factor, before, last = 2 * math.cos(2 * math.pi * tone / SAMPLES_PER_SECOND), 0.0, 0.0
    for sample in sound:
        before, last = last, sample + factor * last - before
    return math.sqrt(max(0, before**2 + last**2 - factor * before * last)) / max(1, len(sound))


def assert_tone(file, at, tone, others=(1234,)):
    sound = samples(file, at, 0.5)
    heard, noise = strength(sound, tone), max(strength(sound, other) for other in others)
    assert heard > 200 and heard > 5 * noise, f"no tone of {tone} Hz at {at} s: {heard:.0f}, others {noise:.0f}"


def assert_silence(file, at):
    loudest = max(map(abs, samples(file, at, 0.5)), default=None)
    assert loudest is not None and loudest < 50, f"no silence at {at} s: {loudest}"


def onsets(file):
    """Returns the start times of white frames, each after the previous frame's time, and the start times of tones."""
    movie = f"movie={file},crop=iw/4:ih/4,signalstats"
    frames = run("ffprobe", "-v", "error", "-f", "lavfi", "-i", movie, "-show_entries", "frame=pts_time:frame_tags=lavfi.signalstats.YAVG", "-of", "csv=p=0")
    pictures = [tuple(map(float, line.split(",")[:2])) for line in frames.decode().splitlines()]
    is_white = lambda picture: picture[1] > 170
    pairs = zip([(0.0, 0.0), *pictures], pictures)
    flashes = [(before[0], picture[0]) for before, picture in pairs if is_white(picture) and not is_white(before)]
    tones, quiet, sound = [], 0, samples(file)
    for begin in range(0, len(sound) - 240, 240):
        if max(map(abs, sound[begin : begin + 240])) > 1_500:
            tones += [begin / SAMPLES_PER_SECOND] if quiet > SILENCE * SAMPLES_PER_SECOND / 240 else []
            quiet = 0
        else:
            quiet += 1
    return flashes, tones
