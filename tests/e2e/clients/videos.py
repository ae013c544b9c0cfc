"""Videos for clients without an encoder: four seconds each, with a key frame each second, and without references to later frames."""

import itertools

from ..support.sdks import command, need

FRAMES_PER_SECOND, SECONDS = 15, 4
# Sizes of the simulcast layers, and their bits per second.
SIZES = {(160, 90): 60_000, (320, 180): 180_000, (640, 360): 600_000}

LIBVPX = ("-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-auto-alt-ref", "0")
X26X = f"keyint={FRAMES_PER_SECOND}:min-keyint={FRAMES_PER_SECOND}:scenecut=0:bframes=0:slices=1:repeat-headers=1"
# File format, encoder and encoder options.
ENCODERS = {
    "vp8": ("ivf", "libvpx", *LIBVPX),
    "vp9": ("ivf", "libvpx-vp9", *LIBVPX),
    "av1": ("ivf", "libaom-av1", "-usage", "realtime", "-cpu-used", "8", "-lag-in-frames", "0"),
    "h264": ("h264", "libx264", "-profile:v", "baseline", "-x264-params", f"{X26X}:sliced-threads=0"),
    "h265": ("hevc", "libx265", "-x265-params", X26X),
}


def make(folder):
    """Creates the videos in all codecs of ffmpeg and in all sizes, named CODEC-HEIGHT."""
    need("ffmpeg")
    encoders = command("ffmpeg", "-hide_banner", "-encoders")
    present = {codec: how for codec, how in ENCODERS.items() if f" {how[1]} " in encoders}
    for (codec, (form, encoder, *chosen)), ((width, height), bits) in itertools.product(present.items(), SIZES.items()):
        pictures = f"testsrc2=size={width}x{height}:rate={FRAMES_PER_SECOND}:duration={SECONDS}"
        encoded = ("-c:v", encoder, *chosen, "-b:v", bits, "-g", FRAMES_PER_SECOND, "-keyint_min", FRAMES_PER_SECOND, "-pix_fmt", "yuv420p")
        command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", pictures, *encoded, "-f", form, folder / f"{codec}-{height}")


def codecs(folder):
    return [codec for codec in ENCODERS if all((folder / f"{codec}-{height}").exists() for _, height in SIZES)]
