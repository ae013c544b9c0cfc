"""ffmpeg as an RTMP encoder."""

import subprocess
from contextlib import contextmanager

H264 = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", "30"]


@contextmanager
def push(url, color, tone, video=H264):
    """Pushes one color and one tone, and yields the process."""
    picture = "color=c=0x%02x%02x%02x:size=640x360:rate=30" % color
    command = ["ffmpeg", "-v", "error", "-re", "-f", "lavfi", "-i", picture]
    command += ["-re", "-f", "lavfi", "-i", f"sine=frequency={tone}:sample_rate=44100", "-af", "volume=4"]
    command += [*video, "-c:a", "aac", "-f", "flv", url]
    # What it says has the url.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
