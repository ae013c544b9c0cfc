// The colors that the embedding page gives. Each is painted and read again, so that nothing but a color comes of it.

const VARIABLES = { accent: '--accent', background: '--back', panel: '--panel', text: '--text' };

// The red, green, blue and alpha of a color in CSS; `null` if it is none.
function parse(color) {
  if (typeof color !== 'string' || color.length > 100) return null;
  const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  // A text that is no color leaves the style as it is.
  const [first, second] = ['#000000', '#ffffff'].map((before) => {
    context.fillStyle = before;
    context.fillStyle = color;
    return context.fillStyle;
  });
  if (first !== second) return null;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
  return alpha === 255 ? [red, green, blue] : null;
}

// The relative luminance, as WCAG defines it.
function luminance(color) {
  const [red, green, blue] = color.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function useColors(colors) {
  const { style, dataset } = document.documentElement;
  for (const [name, variable] of Object.entries(VARIABLES)) {
    const color = parse(colors?.[name]);
    if (!color) {
      style.removeProperty(variable);
      continue;
    }
    style.setProperty(variable, `rgb(${color.join(' ')})`);
    // What is written on the accent, and all colors that are not given, fit.
    if (name === 'accent') style.setProperty('--on-accent', luminance(color) > 0.18 ? '#06142b' : '#ffffff');
    if (name === 'background') dataset.scheme = luminance(color) > 0.18 ? 'light' : 'dark';
  }
  if (!parse(colors?.accent)) style.removeProperty('--on-accent');
  if (!parse(colors?.background)) delete dataset.scheme;
}
