// Background blur, where the server has the library and the browser can run it. The library is loaded when blur is first used.

import { remember, remembered } from './memory.js';
import { text } from './texts.js';

const FOLDER = '/call/effects';
const RADIUS = 12;

// The library needs WebGL 2 and frames of video; Safari before 17 and old computers lack them.
export const isBlurOffered = document.body.dataset.effects === 'true' && typeof VideoFrame === 'function' && typeof OffscreenCanvas === 'function'
  && document.createElement('canvas').getContext('webgl2') !== null;

export const isBlurChosen = () => isBlurOffered && remembered().blur === true;

export function chooseBlur(isOn) {
  remember({ blur: isOn });
}

// Returns a new processor for a camera: one belongs to one track.
export async function blurProcessor() {
  const assetPaths = { tasksVisionFileSet: FOLDER, modelAssetPath: `${FOLDER}/selfie_segmenter.tflite` };
  try {
    const { BackgroundProcessor } = await import(`${FOLDER}/track-processors.js`);
    const processor = BackgroundProcessor({ mode: 'background-blur', blurRadius: RADIUS, assetPaths });
    const init = processor.init.bind(processor);
    processor.init = (options) => init(options).catch((error) => { throw failed(error); });
    return processor;
  } catch (error) {
    throw failed(error);
  }
}

// The library's messages go on with a stack of its own.
function failed(error) {
  const [reason] = String(error?.message ?? error).split('\n');
  return Object.assign(new Error(text('blur-failed', { reason })), { name: 'BlurError' });
}
