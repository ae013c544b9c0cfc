// The installed Chromium and Firefox.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(join(process.env.TOOLS, 'node_modules', 'x.js'));
const { chromium, firefox } = require('playwright-core');
export const AXE = require.resolve('axe-core/axe.min.js');

// A fake camera and a fake microphone.
const DEVICES = [
  '--use-fake-device-for-media-stream', '--allow-loopback-in-peer-connection',
  '--autoplay-policy=no-user-gesture-required', '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows', '--disable-renderer-backgrounding',
];
// Grants every device, and chooses a screen.
const ALLOWING = ['--use-fake-ui-for-media-stream', '--auto-select-desktop-capture-source=Entire screen'];
const FIREFOX = {
  'media.navigator.streams.fake': true, 'media.navigator.permission.disabled': true, 'media.autoplay.default': 0,
  'media.peerconnection.ice.obfuscate_host_addresses': false, 'media.peerconnection.ice.loopback': true,
};

// With `isBlocked`, the browser refuses every device without a prompt. `camera` is a video file for the camera.
export function launchChromium({ hasDevices = true, isBlocked = false, camera } = {}) {
  const args = ['--no-sandbox'];
  if (hasDevices) args.push(...DEVICES, ...(isBlocked ? ['--deny-permission-prompts'] : ALLOWING));
  if (camera) args.push(`--use-file-for-fake-video-capture=${camera}`);
  return chromium.launch({ executablePath: process.env.CHROMIUM, args });
}

export function launchFirefox() {
  const env = { ...process.env, PULSE_SERVER: soundServer() };
  return firefox.launch({ channel: 'moz-firefox', executablePath: process.env.FIREFOX, firefoxUserPrefs: FIREFOX, env });
}

let soundAddress;

// Starts an audio server without an output, and returns its address. Firefox runs no AudioContext on a machine without a loudspeaker.
// The server stops with this program. Without the program `pulseaudio`, its address leads nowhere, as on a machine without audio.
function soundServer() {
  if (soundAddress) return soundAddress;
  const folder = mkdtempSync(join(tmpdir(), 'check-sound-'));
  const socket = join(folder, 'native');
  soundAddress = `unix:${socket}`;
  const server = spawn('pulseaudio', [
    '-n', '--daemonize=no', '--use-pid-file=no', '--exit-idle-time=-1', '--log-level=error',
    '--load=module-null-sink', `--load=module-native-protocol-unix socket=${socket} auth-anonymous=1`,
  ], { stdio: 'ignore', env: { ...process.env, XDG_RUNTIME_DIR: folder, HOME: folder } });
  server.on('error', () => {});
  process.on('exit', () => {
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  return soundAddress;
}

// A window; `complaints` receives the browser's complaints, such as a violation of the page's policy. Messages of LiveKit's SDK about
// its connections, such as their end with the room, are not complaints.
export async function openWindow(browser, { complaints, size = { width: 1280, height: 800 }, ...options } = {}) {
  const context = await browser.newContext({ viewport: size, locale: 'en-US', ...options });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.on('pageerror', (error) => complaints?.push(error.message));
  page.on('console', (message) => {
    const isNone = message.text().startsWith('Failed to load resource') || message.location().url.includes('livekit-client');
    if (complaints && message.type() === 'error' && !isNone) complaints.push(message.text());
  });
  return page;
}
