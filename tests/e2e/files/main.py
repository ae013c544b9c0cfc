"""Records and broadcasts calls through Conclave, and checks the files with ffprobe and ffmpeg.

    scripts/check files                             all scenarios
    scripts/check files --core                      without uploads and the recording of a minute, in two thirds of the time
    scripts/check files --only a_grid_is_recorded   one scenario only
    scripts/check files --measure grid-of-2         measures the cost of a recorded minute, with a build of the profile dist

Participants are LiveKit's Python SDK, Chromium, and encoders, with known colors and tones. The scenarios are in
recordings.py, encoders.py, destinations.py, ends_of_recordings.py and disks_and_storages.py. Uploads go to moto, which is installed beside
the SDK. No traffic leaves the machine. Needs ffmpeg; the SDK is shared with scripts/check clients. Exits 0 only if every scenario held, and
77 if ffmpeg or the SDK is missing and cannot be installed.
"""

import argparse
import asyncio
import os
import sys

from ..support import preparation
from ..support.server import CallServer, Rtmp
from ..support.telling import Telling
from . import destinations, disks_and_storages, encoders, ends_of_recordings, recording_costs, recordings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the name of a scenario")
    parser.add_argument("--core", action="store_true", help="the scenarios that .ci/run runs")
    parser.add_argument("--measure", nargs="*", metavar="WHAT", help="measure what a minute costs instead, of everything or of some")
    chosen = parser.parse_args()
    parts = (recordings, destinations, ends_of_recordings, encoders, disks_and_storages)
    stories = [story for part in parts for story in part.STORIES]
    shorter = {}
    if chosen.core:
        stories.remove(disks_and_storages.uploads_survive_cut_connections_and_kills)
        shorter = {recordings.audio_and_video_are_together: {"seconds": 14}}
    stories = [story for story in stories if chosen.only in (None, story.__name__)]
    conclave = CallServer(preparation.program(), network=Rtmp())
    try:
        with asyncio.Runner() as runner:
            if chosen.measure is None:
                telling = Telling()
                for story in stories:
                    telling.tell(story.__name__, lambda story=story: runner.run(story(conclave, **shorter.get(story, {}))))
                status = telling.end()
            else:
                status = runner.run(recording_costs.measure(conclave, chosen.measure))
    finally:
        conclave.stop()
    # The SDK's threads do not end by themselves.
    sys.stdout.flush()
    os._exit(status)

