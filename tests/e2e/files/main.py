#!/usr/bin/env python3
"""Records and broadcasts calls through Conclave, and looks into the files with ffprobe and ffmpeg.

    scripts/check-files                             tells all stories
    scripts/check-files --core                      tells them in two thirds of the time: no uploads, and no recording of a minute
    scripts/check-files --only a_grid_is_recorded   tells one story only
    scripts/check-files --measure grid-of-2         measures what a minute of a recording costs, with a build of the profile dist
    CONCLAVE_BIN=path/conclave scripts/check-files  uses a program that is built already

Participants are LiveKit's Python SDK, Chromium, and encoders, with known colors and tones. The stories are in scripts/clients:
recordings.py, encoders.py, destinations.py, ends_of_recordings.py and disks_and_storages.py. Uploads go to moto, which is installed beside
the SDK. No traffic leaves the machine. Needs ffmpeg; the SDK is that of scripts/check-clients. Exits 0 only if every story held, and 77 if
ffmpeg or the SDK is missing and cannot be installed.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

# Nothing is written beside the sources.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "clients"))

import preparation
from telling import Telling


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the name of a story")
    parser.add_argument("--core", action="store_true", help="the stories that .ci/run tells")
    parser.add_argument("--measure", nargs="*", metavar="WHAT", help="measure what a minute costs instead, of everything or of some")
    chosen = parser.parse_args()
    preparation.need("ffmpeg", "ffprobe")
    preparation.in_environment()
    import destinations
    import disks_and_storages
    import encoders
    import ends_of_recordings
    import recording_costs
    import recordings
    from deployment import Conclave, Rtmp

    parts = (recordings, destinations, ends_of_recordings, encoders, disks_and_storages)
    stories = [story for part in parts for story in part.STORIES]
    shorter = {}
    if chosen.core:
        stories.remove(disks_and_storages.uploads_survive_cut_connections_and_kills)
        shorter = {recordings.audio_and_video_are_together: {"seconds": 14}}
    stories = [story for story in stories if chosen.only in (None, story.__name__)]
    conclave = Conclave(preparation.program(), "http://127.0.0.1:9/", network=Rtmp())
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
    # The threads of the SDK do not end by themselves.
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
