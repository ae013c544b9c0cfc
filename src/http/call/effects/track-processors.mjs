export { BackgroundProcessor } from '@livekit/track-processors';
