// The embedding page's colors, font and corner radius. Each color is painted and read again, so that only a color can result; the font and
// the radius must match a pattern.

const COLORS = {
  accent: '--accent', background: '--back', panel: '--panel', tile: '--tile', text: '--text', quiet: '--quiet', border: '--line',
  live: '--live', danger: '--stop',
};
const MOST_RADIUS_PX = 32;
// Names of fonts of the system; the page loads none.
const FONT = /^[\p{Letter}\p{Number} ,_"'-]{1,200}$/u;

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

// The text color on a background color.
const inkFor = (color) => (luminance(color) > 0.18 ? '#06142b' : '#ffffff');

// Sets a variable; `null` restores the page's own value.
function set(variable, value) {
  const { style } = document.documentElement;
  if (value === null) style.removeProperty(variable);
  else style.setProperty(variable, value);
}

export function useStyles(styles) {
  useColors(styles);
  const radius = /^(\d{1,3}(?:\.\d+)?)px$/.exec(styles?.radius ?? '');
  set('--radius', radius ? `${Math.min(Number(radius[1]), MOST_RADIUS_PX)}px` : null);
  const font = styles?.font ?? '';
  set('--font', FONT.test(font) && CSS.supports('font-family', font) ? font : null);
}

function useColors(colors) {
  const { style, dataset } = document.documentElement;
  for (const [name, variable] of Object.entries(COLORS)) {
    const color = parse(colors?.[name]);
    if (!color) {
      style.removeProperty(variable);
      continue;
    }
    style.setProperty(variable, `rgb(${color.join(' ')})`);
    // Derives the text on the accent, and the colors that are not given, so that they fit.
    if (name === 'accent') style.setProperty('--on-accent', inkFor(color));
    if (name === 'danger') style.setProperty('--on-stop', inkFor(color));
    if (name === 'background') dataset.scheme = luminance(color) > 0.18 ? 'light' : 'dark';
  }
  if (!parse(colors?.accent)) style.removeProperty('--on-accent');
  if (!parse(colors?.danger)) style.removeProperty('--on-stop');
  if (!parse(colors?.background)) delete dataset.scheme;
}
