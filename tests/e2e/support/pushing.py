"""ffmpeg as an RTMP encoder, and as a receiver."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

from .server import free_port

H264 = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", "30"]


@contextmanager
def push(url, color, tone, video=H264):
    """Pushes one color and one tone, and yields the process."""
    picture = "color=c=0x%02x%02x%02x:size=640x360:rate=30" % color
    command = ["ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", picture]
    command += ["-re", "-f", "lavfi", "-i", f"sine=frequency={tone}:sample_rate=44100", "-af", "volume=4"]
    command += [*video, "-c:a", "aac", "-f", "flv", url]
    # Its output contains the URL with the stream key.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


class RtmpReceiver:
    """An RTMP server for one connection: ffmpeg, which writes the received stream to a file."""

    def __init__(self, directory, name):
        self.port, self.files, self.directory, self.name = free_port(), [], directory, name
        self.url = f"rtmp://127.0.0.1:{self.port}/live/secret-key"
        self.listen()

    def listen(self):
        self.files.append(Path(self.directory) / f"{self.name}-{len(self.files)}.flv")
        command = ["ffmpeg", "-nostdin", "-v", "error", "-listen", "1", "-i", self.url, "-c", "copy", "-y", self.files[-1]]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()
