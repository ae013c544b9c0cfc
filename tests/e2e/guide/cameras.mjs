// Fake camera videos for screenshots.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

// Calmer frames than Chromium's test pattern.
export function cameras(folder) {
  const colors = [['0x1d3557', '0x2a9d8f'], ['0x5f0f40', '0xe9a15b']];
  return colors.map(([from, to], index) => {
    const file = join(folder, `camera-${index}.y4m`);
    const source = `gradients=size=640x480:rate=15:duration=4:c0=${from}:c1=${to}:nb_colors=2:seed=1`;
    execFileSync('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', source, '-pix_fmt', 'yuv420p', file]);
    return file;
  });
}
